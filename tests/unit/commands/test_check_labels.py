"""What ``slicewatch check`` says about labels: the grid's losses, and what can be decided."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from monitor.commands.check import command
from monitor.commands.check_labels import AssumedTraffic, traffic_lines
from monitor.settings import Settings, load

SETTINGS = Path(__file__).parents[3] / "deploy" / "examples" / "ten_pairs.toml"


@pytest.fixture(scope="module")
def ten_pairs() -> Settings:
    return load(SETTINGS, {})


def lines(settings: Settings, daily: int, audit: float = 0.05, ready: float = 0.5) -> list[str]:
    return list(traffic_lines(settings, AssumedTraffic(daily, audit, ready)))


def test_what_cannot_be_decided_comes_first_with_what_would_decide_it(ten_pairs: Settings) -> None:
    first, second, *_ = lines(ten_pairs, 300)
    assert first == (
        "warning: contract ten-pairs: FPR gaps beyond 0.1 are not reliably decided at 300 decisions"
        " a day and slice and audits of 5% (language_variety, channel): audit 20%, or set the"
        " contract's window to 28d"
    )
    assert second.startswith("ok: contract ten-pairs: TPR gaps beyond 0.1 are reliably decided")


def test_its_own_proposals_are_enough(ten_pairs: Settings) -> None:
    assert not any(line.startswith("warning") for line in lines(ten_pairs, 300, audit=0.20))
    longer = load(SETTINGS, {"SLICEWATCH__USE_CASE__0__CONTRACT__WINDOW": "28d"})
    assert not any(line.startswith("warning") for line in lines(longer, 300))


def test_where_nothing_helps_it_says_so(ten_pairs: Settings) -> None:
    few = [line for line in lines(ten_pairs, 1) if line.startswith("warning")]
    assert len(few) == 2
    assert all("compare larger slices" in line for line in few)


OWN = (
    '[{ group_by = ["language_variety"], slice = "language_variety=conversational",'
    " max_tpr_gap = 0.30 },"
    ' { group_by = ["channel"], min_selection_ratio = 0.5 }]'
)


def test_limits_of_group_bys_and_slices_have_lines_of_their_own() -> None:
    own = load(SETTINGS, {"SLICEWATCH__USE_CASE__0__LIMIT": OWN})
    said = "\n".join(lines(own, 1_000))
    assert "ok: contract ten-pairs: TPR gaps beyond 0.1 are reliably decided" in said
    assert "ok: contract ten-pairs: TPR gaps beyond 0.3 are reliably decided" in said
    (of_chat,) = (line for line in said.splitlines() if "beyond 0.3" in line)
    assert of_chat.endswith("(language_variety=conversational)")
    (ratio,) = (line for line in said.splitlines() if "SELECTION ratios below 0.5" in line)
    assert ratio.endswith("(channel)")
    told = CliRunner().invoke(
        command, ["--settings", str(SETTINGS), "--all"], env={"SLICEWATCH__USE_CASE__0__LIMIT": OWN}
    )
    assert told.exit_code == 0
    assert "=conversational: to show that the limit TPR gap 0.3 is kept" in told.output
    assert "ten-pairs, channel: to show that the limit SELECTION ratio 0.5 is kept" in told.output


def test_a_ratio_is_decided_or_a_lower_one_is_proposed() -> None:
    name = "SLICEWATCH__USE_CASE__0__CONTRACT__MIN_SELECTION_RATIO"
    said = lines(load(SETTINGS, {name: "0.95"}), 300)
    (ratio,) = (line for line in said if "SELECTION ratios below 0.95" in line)
    assert ratio.startswith("warning")
    assert "allow a ratio of 0." in ratio


def test_the_command_prints_both_and_refuses_what_is_no_share() -> None:
    said = CliRunner().invoke(command, ["--settings", str(SETTINGS), "--daily", "300", "--all"])
    assert said.exit_code == 0
    assert "audits 20%" in said.output
    assert said.output.index("warning: contract ten-pairs: FPR") < said.output.index("audits 5%")
    for option in ("--audit", "--ready"):
        assert (
            CliRunner().invoke(command, ["--settings", str(SETTINGS), option, "0"]).exit_code == 2
        )
    assert CliRunner().invoke(command, ["--daily", "0"]).exit_code == 2


EXAMPLES = SETTINGS.parent
INSTALLATIONS = [p for p in sorted(EXAMPLES.rglob("*.toml")) if "[[use_case]]" in p.read_text()]
UNUSED = "".join(f'[[attribute]]\nname = "unused{i}"\nvalues = ["a"]\n' for i in range(5))


def said_of(text: str, folder: Path) -> list[str]:
    """What the command prints of settings whose key and token files are there."""
    for i, name in enumerate(re.findall(r'_file = "(\w+\.?\w*)"', text)):
        (folder / name).write_text(f"{i}-a-key-of-enough-bytes")
    (folder / "slicewatch.toml").write_text(text)
    said = CliRunner().invoke(command, ["-s", str(folder / "slicewatch.toml")])
    assert said.exit_code == 0, said.output
    return said.output.splitlines()


@pytest.mark.parametrize("path", INSTALLATIONS, ids=lambda path: path.stem)
def test_it_fits_into_a_terminal_and_says_where_more_is(path: Path, tmp_path: Path) -> None:
    lines = said_of(path.read_text(), tmp_path)
    assert len(lines) <= 20
    assert lines[-1].startswith("more: slicewatch check --all")


def test_many_warnings_are_counted_and_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.commands.check._MOST_LINES", 4)
    text = (EXAMPLES / "quickstart.toml").read_text()
    lines = said_of(text.replace("[[use_case]]", f"{UNUSED}[[use_case]]"), tmp_path)
    assert all(line.startswith("warning: attribute[") for line in lines[:3])
    assert lines[3] == "... and 3 more lines, with --all"
    assert lines[4].startswith("ok: settings")
    assert len(lines) <= 20
