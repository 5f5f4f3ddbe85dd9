"""``slicewatch init``: the file that it writes is short, and the service accepts it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from monitor.cli import cli
from monitor.commands.init import command
from monitor.errors import SettingsError, SlicewatchError
from monitor.settings import Settings, load, warnings

ANSWERS = "tickets\nA. Person\nchannel=chat,email language=en,de,\u4e2d\u6587\n{}\n{}\n"


def init(folder: Path, *arguments: str, answers: str = "") -> Result:
    settings = folder / "slicewatch.toml"
    return CliRunner().invoke(
        command, ["--settings", str(settings), *arguments], input=answers, standalone_mode=False
    )


def written(folder: Path) -> Settings:
    path = folder / "slicewatch.toml"
    assert len(path.read_text().splitlines()) <= 15
    return load(path, {})


def sample(folder: Path, *attributes: object) -> str:
    path = folder / "events.jsonl"
    path.write_text("".join(f"{json.dumps({'attributes': each})}\n" for each in attributes))
    return str(path)


@pytest.mark.parametrize(
    ("brokers", "client", "servers"),
    [("", "embedded", ("localhost:9092",)), ("a:1, b:2", "kafka-python", ("a:1", "b:2"))],
)
def test_five_answers_are_enough(
    tmp_path: Path, brokers: str, client: str, servers: tuple[str, ...]
) -> None:
    assert init(tmp_path, answers=ANSWERS.format("fpr", brokers)).exit_code == 0
    settings = written(tmp_path)
    (use_case,) = settings.use_case
    assert (use_case.name, use_case.owner) == ("tickets", "A. Person")
    assert [attribute.listed for attribute in settings.attribute] == [
        ("chat", "email"),
        ("en", "de", "\u4e2d\u6587"),
    ]
    assert (settings.stream.client, settings.stream.bootstrap_servers) == (client, servers)
    (line,) = warnings(settings)
    assert line.startswith("not set, though readers of reports look for it: ")


@pytest.mark.parametrize(
    ("harm", "limit"),
    [("", "max_tpr_gap"), ("fpr", "max_fpr_gap"), ("selection", "min_selection_ratio")],
)
def test_the_harm_that_is_worst_pages(tmp_path: Path, harm: str, limit: str) -> None:
    assert init(tmp_path, answers=ANSWERS.format(harm, "")).exit_code == 0
    (use_case,) = written(tmp_path).use_case
    assert use_case.contract.page_on == (limit,)


@pytest.mark.parametrize("wrong", ["channel", "channel=", "channel=chat, email"])
def test_an_attribute_without_values_is_asked_again(tmp_path: Path, wrong: str) -> None:
    result = init(tmp_path, answers=f"tickets\nA. Person\n{wrong}\nchannel=chat,email\n\n\n")
    assert f"{wrong} has no values for some name" in result.output
    assert [attribute.listed for attribute in written(tmp_path).attribute] == [("chat", "email")]


def test_a_sample_gives_attributes_that_can_be_compared(tmp_path: Path) -> None:
    few = [{"channel": value, "tier": "a"} for value in ("chat", "email", "email")]
    names = [{"customer": f"c-{n}", "channel": "chat"} for n in range(60)]
    odd = [{"channel": 7, "tier": " b "}, "no attributes", None]
    result = init(tmp_path, "--from", sample(tmp_path, *few, *names, *odd))
    assert "left out, because of too many values: customer" in result.output
    listed = {attribute.name: attribute.listed for attribute in written(tmp_path).attribute}
    assert listed == {"channel": ("chat", "email", "7"), "tier": ("a",)}


def test_many_attributes_are_still_a_short_file(tmp_path: Path) -> None:
    """Those with most values are left out where there would be too many cells."""
    attributes = [{f"a{n}": str(i % (n + 1)) for n in range(9)} for i in range(9)]
    result = init(tmp_path, "--from", sample(tmp_path, *attributes))
    assert [attribute.name for attribute in written(tmp_path).attribute] == [
        *("a0", "a1", "a2", "a3", "a4")
    ]
    assert "too many values: a5, a6, a7, a8" in result.output


def test_a_file_without_decisions_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"label_id": "l"}\nno JSON\n')
    result = init(tmp_path, "--from", str(tmp_path / "events.jsonl"))
    assert isinstance(result.exception, SlicewatchError)
    assert "the sample does not say decided_at, route, evidence_passed" in str(result.exception)
    assert not (tmp_path / "slicewatch.toml").exists()


LOANS = [
    {"loan id": n, "at": f"{n % 28 + 1:02}.06.2026 10:05", "approved": n % 2, "score": n % 101,
     "Region": "NS"[n % 3 % 2]}
    for n in range(200)
]  # fmt: skip
CALLS = [
    {"call": {"id": f"c-{n}", "ts": 1_780_308_300 + n}, "judge": {"score": n / 200}, "audit": 0.5,
     "asked": "yn"[n % 2], "line": "ab"[n % 2], "route": ["auto_serve", "human_review"][n % 2]}
    for n in range(200)
]  # fmt: skip
ROUTES = "approved\ntrue\n1\ntrue\nhuman_review\nauto_serve\n"


@pytest.mark.parametrize(
    ("rows", "answers", "written_lines"),
    [
        (
            LOANS,
            ROUTES.replace("1\ntrue", "0.001\nfalse") + "Europe/Berlin\n",
            [
                'times = "%d.%m.%Y %H:%M"',
                'time_zone = "Europe/Berlin"',
                "divide = { judge_score = 100 }",
                'decision_id = "/loan id"',
                'route = "/approved"',
                '"route=1" = "auto_serve"',
                '"attributes.region" = "/Region"',
                'page_on = ["min_selection_ratio"]',
            ],
        ),
        (
            [row | {"at": f"06/{n % 28 + 1}/2026 7:05"} for n, row in enumerate(LOANS)],
            "at\n" + ROUTES + "%m/%d/%Y %H:%M\nUTC\n",
            ['times = "%m/%d/%Y %H:%M"', 'time_zone = "UTC"'],
        ),
        (
            CALLS,
            "true\n/audit\nasked\n",
            [
                'times = "seconds"',
                'decided_at = "/call/ts"',
                'judge_score = "/judge/score"',
                '"attributes.line" = "/line"',
                'constants = { evidence_passed = "true" }',
            ],
        ),
    ],
)
def test_a_log_is_mapped_and_what_it_does_not_say_is_asked(
    tmp_path: Path, rows: list[dict[str, object]], answers: str, written_lines: list[str]
) -> None:
    """No id of a decision is written, and check accepts each row of the sample."""
    is_flat = rows[0].keys() == LOANS[0].keys()
    log = tmp_path / ("log.csv" if is_flat else "log.jsonl")
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    log.write_text("\n".join(lines if is_flat else map(json.dumps, rows)) + "\n")
    unanswered = init(tmp_path, "--from", str(log))
    assert "audit_p, label_requested: answer in a terminal" in str(unanswered.exception)
    assert not (tmp_path / "slicewatch.toml").exists()
    assert init(tmp_path, "--from", str(log), answers=answers).exit_code == 0
    written(tmp_path)
    text = (tmp_path / "slicewatch.toml").read_text()
    assert [line for line in written_lines if line not in text] == []
    assert "c-1" not in text
    checked = CliRunner().invoke(
        cli, ["check", "-s", str(tmp_path / "slicewatch.toml"), "--events", str(log)]
    )
    assert checked.exit_code == 0, checked.output
    assert "200 would be counted" in checked.output


def test_a_place_of_too_many_combinations_is_not_mapped(tmp_path: Path) -> None:
    rows = [f"{n},{n % 5},{n % 7},{n % 11},{n % 13},{n % 17}" for n in range(200)]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["loan_id,a,b,c,d,e", *rows, ""]))
    answers = "2026-06-01T00:00:00Z\nauto_serve\ntrue\n1\ntrue\n"
    result = init(tmp_path, "--from", str(log), answers=answers)
    assert "too many values: d, e" in result.output
    (fields,) = re.findall("^fields = .*", (tmp_path / "slicewatch.toml").read_text(), re.MULTILINE)
    assert re.findall(r"attributes\.(\w)", fields) == [a.name for a in written(tmp_path).attribute]


def test_nothing_is_overwritten_and_a_bad_answer_leaves_no_file(tmp_path: Path) -> None:
    result = init(tmp_path, answers=ANSWERS.format("fpr", "").replace("channel", "Channel"))
    assert isinstance(result.exception, SettingsError)
    key = (tmp_path / "slicewatch.key").read_text()
    assert init(tmp_path, answers=ANSWERS.format("fpr", "")).exit_code == 0
    assert (tmp_path / "slicewatch.key").read_text() == key
    text = (tmp_path / "slicewatch.toml").read_text()
    again = init(tmp_path, answers=ANSWERS.format("fpr", ""))
    assert "already exists; name a new file with --settings" in str(again.exception)
    assert (tmp_path / "slicewatch.toml").read_text() == text


def test_the_file_is_utf_8_whatever_the_locale_is(tmp_path: Path) -> None:
    """TOML is nothing else; a process of its own, because Python asks for the locale once."""
    sample = tmp_path / "sample.jsonl"
    sample.write_text('{"attributes": {"city": "S\u00e3o Paulo"}}\n' * 2, encoding="utf-8")
    legacy = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "monitor", "init", "--from", str(sample)]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | legacy, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "S\u00e3o Paulo" in (tmp_path / "slicewatch.toml").read_text(encoding="utf-8")
