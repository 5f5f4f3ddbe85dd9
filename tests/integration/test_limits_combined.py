"""Every command and page over contracts with all combinations of any two limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any

import lesson
import pytest
from click.testing import CliRunner
from served_site import served_site
from set_clock import SetClock
from signed_probes import signed

from alerts.exposition.renderer import Renderer
from monitor.cli import cli
from monitor.core.publish.snapshot import Snapshot, decode
from monitor.store.database import create_engine
from monitor.store.evaluator.records import RecordStore

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
PAIRS = EXAMPLES / "audit" / "ten_pairs.jsonl"
WEEK, COPIES = "2026-W23", 30
"""Of the pairs, so many that a week can decide about each limit."""
LIMITS = {
    "blocked": "max_blocked_gap = 0.10",
    "tpr level": "min_tpr = 0.60",
    "fpr level": "max_fpr = 0.30",
    "selection gap": "max_selection_gap = 0.10",
    "selection ratio": "min_selection_ratio = 0.80",
    "precision": "max_precision_gap = 0.05",
    "of a group-by": """
        [[use_case.limit]]
        group_by = ["language_variety"]
        max_precision_gap = 0.20
        min_selection_ratio = 0.90""",
    "of a slice": """
        [[use_case.limit]]
        group_by = ["language_variety"]
        slice = "language_variety=conversational"
        max_tpr_gap = 0.20
        max_blocked_gap = 0.20
        min_tpr = 0.50""",
}
"""What a contract may have beside its gaps of TPR and FPR, which it always has; tables last."""


GROUP_BYS = (
    'group_bys = [{ attributes = ["language_variety"], reference = "language_variety=formal" }]'
)
"""Little of all else, so that a run is short."""


def combined() -> list[tuple[bool, ...]]:
    """Which limits each contract has: of any two limits all four combinations are among them."""
    numbers, bits = range(len(LIMITS)), range((len(LIMITS) - 1).bit_length())
    by_bit = [
        tuple((number >> bit & 1) == wanted for number in numbers)
        for bit, wanted in product(bits, (0, 1))
    ]
    return [(False,) * len(LIMITS), (True,) * len(LIMITS), *by_bit]


CONTRACTS = tuple(f"limits-{number}" for number in range(len(combined())))
"""Names of the use cases, and values of the attribute that tells their decisions apart."""


def settings_text(names: Sequence[str] = CONTRACTS) -> str:
    """The ten pairs' settings with a contract for each combination, or for some of them."""
    before, _, use_case = (EXAMPLES / "ten_pairs.toml").read_text().partition("[[use_case]]")
    made = [
        before,
        '[[attribute]]\nname = "use"\ndefinition = "test condition"\npurpose = "test"',
        f"values = {json.dumps(CONTRACTS)}",
    ]
    use_case = re.sub(r"group_bys = \[.*?\n\]", GROUP_BYS, use_case, flags=re.DOTALL)
    for name, chosen in zip(CONTRACTS, combined(), strict=True):
        if name not in names:
            continue
        limits = [text for text, has in zip(LIMITS.values(), chosen, strict=True) if has]
        named = f'name = "{name}"\nwhere = {{ use = "{name}" }}'
        made += ["[[use_case]]", use_case.replace('name = "ten-pairs"', named), *limits]
    return "\n".join(made)


def decisions(name: str) -> Iterator[dict[str, Any]]:
    """The pairs' decisions in one use case, on a Sunday, and a probe that closes day and week."""
    attributes = {"language_variety": "formal", "channel": "chat", "use": name}
    for copy, one in product(range(COPIES), lesson.decisions()):
        made: dict[str, Any] = {**one, "decision_id": f"{name}-{copy}-{one['decision_id']}"}
        yield on_sunday({**made, "attributes": {**attributes, **made["attributes"]}})
    at = lesson.START + timedelta(days=8)
    yield signed(lesson.decision(name, at, 0.9, traffic="probe", attributes=attributes))


def labels(name: str) -> Iterator[dict[str, Any]]:
    for copy, one in product(range(COPIES), lesson.labels()):
        ids = {key: f"{name}-{copy}-{one[key]}" for key in ("label_id", "decision_id")}
        yield on_sunday({**one, **ids})


def on_sunday(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event six days later: the last day of its week, so that few hours are evaluated."""
    times = ("decided_at", "labelled_at")
    later = {key: str(event[key]).replace("06-01", "06-07") for key in times if key in event}
    return {**event, **later}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the settings, and the store of the replayed week."""
    folder = tmp_path_factory.mktemp("limits")
    (folder / "settings.toml").write_text(settings_text())
    for name, events in (("decisions.jsonl", decisions), ("labels.jsonl", labels)):
        made = [event for use in CONTRACTS for event in events(use)]
        made.sort(key=lambda event: str(event["decided_at"]))
        (folder / name).write_bytes(b"\n".join(lesson.encode(iter(made))))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SLICEWATCH__STORE__URL", f"sqlite:///{folder}/store.db")
        patched.setenv("SLICEWATCH__PROBES__KEY", "a key for the probes of tests")
        run(folder, "replay", *files(folder))
        yield folder


def run(folder: Path, *words: str, code: int = 0) -> str:
    """What a command prints; its errors are raised."""
    settings = ("--settings", str(folder / "settings.toml"))
    done = CliRunner().invoke(cli, [*words, *settings])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


def files(folder: Path) -> list[str]:
    return [str(folder / name) for name in ("decisions.jsonl", "labels.jsonl")]


def newest(folder: Path) -> Snapshot:
    engine = create_engine(f"sqlite:///{folder}/store.db")
    found = RecordStore(engine).newest_snapshot()
    engine.dispose()
    assert found is not None
    return decode(found[1])


@pytest.mark.parametrize(
    "words",
    [
        ("backtest",),
        ("backtest", "--json"),
        ("backtest", "--propose"),
        ("backtest", "--propose", "--json"),
        ("incident", "list"),
        ("incident", "list", "--json"),
        ("report", "--week", WEEK, "--format", "md,html,json,csv"),
        ("report", "--week", WEEK, "--bundle"),
    ],
    ids=" ".join,
)
def test_a_command_reads_every_contract(site: Path, tmp_path: Path, words: Sequence[str]) -> None:
    """The week breaks limits, so its report is blocked."""
    is_report = words[0] == "report"
    out = ("--out", str(tmp_path)) if is_report else ()
    run(site, *words, *out, code=int(is_report))


def test_the_settings_are_checked_and_explained(site: Path, tmp_path: Path) -> None:
    """Without any of these limits and with all: it looks at each alone, and takes its time."""
    (tmp_path / "settings.toml").write_text(settings_text(CONTRACTS[:2]))
    said = run(tmp_path, "check", "--all", "--daily", "2000")
    assert all(name in said for name in CONTRACTS[:2])


def test_the_summary_has_a_table_for_each_limited_metric(site: Path) -> None:
    shown = run(site, "replay", *files(site), "--summary")
    for name in CONTRACTS:
        assert f"{name} v1, window 7d" in shown
    tables = json.loads(run(site, "replay", *files(site), "--summary", "--json"))["contracts"]
    assert [one["contract"] for one in tables] == [*CONTRACTS]


def test_the_rules_are_rendered(site: Path, tmp_path: Path) -> None:
    run(site, "render", "--out", str(tmp_path))


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_set_is_audited_by_every_contract(site: Path, tmp_path: Path, name: str) -> None:
    rows = [json.loads(line) for line in PAIRS.read_text().splitlines()]
    for row in rows:
        row.get("attributes", {})["use"] = name
    made = tmp_path / "pairs.jsonl"
    made.write_text("\n".join(map(json.dumps, rows)))
    run(site, "audit", str(made), "--use-case", name, code=1)


def test_every_page_answers(site: Path) -> None:
    engine = create_engine(f"sqlite:///{site}/store.db")
    snapshot = newest(site)
    Renderer(100_000).render(snapshot)
    open_, seen = ["/"], set[str]()
    with served_site(engine, SetClock(snapshot.watermark or 0)) as served:
        while open_:
            path = open_.pop()
            seen.add(path)
            status, body = served.get(path)
            assert status == 200, f"{path}: {body}"
            links = {unescape(link) for link in re.findall(r'href="(/[^"#]*)"', body)}
            open_ += links - seen - {*open_}
    engine.dispose()
    assert len(seen) > 50
