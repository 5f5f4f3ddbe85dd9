"""From files to verdicts: a set whose scores are known, and what files can get wrong."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from hiring import DRIFTED, FIRST, REPAIRED, write_hiring

from monitor.audit.scorecard.card import DimensionVerdict, Scorecard
from monitor.audit.scorecard.card_file import read_card
from monitor.audit.scorecard.files import encode, read_earlier
from monitor.audit.scorecard.scoring import score_card
from monitor.cli import cli
from monitor.errors import AuditError

TODAY = date(2026, 11, 20)


def scored(path: Path, today: date = TODAY, **earlier: Scorecard) -> Scorecard:
    return score_card(read_card(path, today), path.parent, today, **earlier)


def verdicts(card: Scorecard) -> dict[str, str]:
    return {one.name: one.verdict.value for one in card.dimensions}


def rewritten(path: Path, old: str, new: str, count: int = -1) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count))
    return path


def test_the_hiring_set(tmp_path: Path) -> None:
    """Three limits broken, then kept; then one score has drifted by .03, within its limit."""
    first = scored(write_hiring(tmp_path / "1", FIRST, measured=TODAY, model="m-1"))
    assert [one.score for one in first.dimensions] == pytest.approx([0.115, 0.18, 0.21])
    assert verdicts(first) == dict.fromkeys(("refusals", "lpbs", "cbs"), "fail")
    assert [one.urgent for one in first.dimensions] == [True, False, False]
    assert first.exit_code == 1
    second = scored(
        write_hiring(tmp_path / "2", REPAIRED, measured=TODAY, model="m-2"), baseline=first
    )
    assert [one.score for one in second.dimensions] == pytest.approx([0.0425, 0.06, 0.08])
    assert second.exit_code == 0
    third = scored(
        write_hiring(tmp_path / "3", DRIFTED, measured=TODAY, model="m-2"), previous=second
    )
    assert third.exit_code == 0
    assert [one.name for one in third.dimensions if one.recalibrate] == ["lpbs"]
    assert "lpbs" in encode(third)


def test_a_repair_of_one_dimension_that_worsens_another(tmp_path: Path) -> None:
    before = scored(write_hiring(tmp_path / "1", REPAIRED, measured=TODAY, model="m-1"))
    after = write_hiring(tmp_path / "2", DRIFTED, measured=TODAY, model="m-2")
    found = scored(after, baseline=before)
    assert verdicts(found) == {"refusals": "pass", "lpbs": "worse", "cbs": "pass"}
    assert found.exit_code == 1
    allowed = rewritten(after, 'name = "hiring-assistant"', 'name = "h"\nworse_by = 0.05')
    assert scored(allowed, baseline=before).exit_code == 0


def test_another_set_is_not_compared_and_does_not_pass(tmp_path: Path) -> None:
    before = scored(write_hiring(tmp_path / "1", REPAIRED, measured=TODAY, model="m-1"))
    after = write_hiring(tmp_path / "2", DRIFTED, measured=TODAY, model="m-2")
    found = scored(rewritten(after, 'probe_version = "1"', 'probe_version = "2"'), baseline=before)
    assert set(verdicts(found).values()) == {"not_compared"}
    assert found.exit_code == 1
    assert all(one.baseline is None for one in found.dimensions)
    assert all("another measure, set or version" in one.why for one in found.dimensions)
    head = 'name = "hiring-assistant"'
    told = scored(rewritten(after, head, f"{head}\nallow_uncompared = true"), baseline=before)
    assert told.exit_code == 0


def test_a_score_older_than_its_cadence_is_overdue(tmp_path: Path) -> None:
    card = write_hiring(tmp_path, REPAIRED, measured=TODAY, model="m-1")
    assert scored(card, TODAY + timedelta(days=7)).exit_code == 0
    late = scored(card, TODAY + timedelta(days=8))
    assert set(verdicts(late).values()) == {"pass"}, "it keeps its verdict, and is overdue besides"
    assert all("longer ago than weekly" in one.overdue for one in late.dimensions)
    assert late.exit_code == 1


def test_a_score_of_another_model_is_due(tmp_path: Path) -> None:
    card = write_hiring(tmp_path, REPAIRED, measured=TODAY, model="m-1")
    rewritten(
        card, 'model = "m-1"\nmeasured = 2026-11-20', 'model = "m-0"\nmeasured = 2026-11-19', 1
    )
    found = scored(card)
    assert [bool(one.overdue) for one in found.dimensions] == [True, False, False]
    assert [one.name for one in found.blocked] == ["refusals"]
    rewritten(card, 'name = "hiring-assistant"', 'name = "h"\nmodel = "m-2"')
    assert [one.name for one in scored(card).blocked] == ["refusals", "lpbs", "cbs"]


def test_without_a_limit_nothing_is_decided(tmp_path: Path) -> None:
    card = rewritten(
        write_hiring(tmp_path, FIRST, measured=TODAY, model="m-1"), "limit = 0.1", "# none"
    )
    found = scored(card)
    assert verdicts(found) == {"refusals": "fail", "lpbs": "diagnostic", "cbs": "diagnostic"}


def test_what_cannot_be_measured_blocks(tmp_path: Path) -> None:
    card = write_hiring(tmp_path, REPAIRED, measured=TODAY, model="m-1")
    records = tmp_path / "refusals.jsonl"
    lines = [line for line in records.read_text().splitlines() if '"anna"' in line]
    records.write_text("\n".join(lines))
    found = scored(card)
    assert found.dimensions[0].verdict is DimensionVerdict.NOT_MEASURED
    assert "fewer than two variants" in found.dimensions[0].why
    assert found.exit_code == 1


def test_few_items_do_not_pass(tmp_path: Path) -> None:
    card = write_hiring(tmp_path, REPAIRED, measured=TODAY, model="m-1")
    assert not any(one.few for one in scored(card).dimensions)
    records = tmp_path / "answers.jsonl"
    whole = records.read_text().splitlines()
    records.write_text("\n".join(whole[:-2]))  # one item fewer: 199
    found = scored(card)
    assert verdicts(found) == {"refusals": "pass", "lpbs": "pass", "cbs": "not_measured"}
    assert found.dimensions[2].why == "199 items, and min_items is 200"
    records.write_text("\n".join([*whole[:198], *whole[198::2]]))  # 99 items have both variants
    assert scored(card).dimensions[2].why == "99 items compared, and min_compared is 100"
    lower = "limit = 0.2\nmin_items = 100\nmin_compared = 50"
    assert scored(rewritten(card, "limit = 0.1", lower)).exit_code == 0


def test_a_declared_slice_must_be_there(tmp_path: Path) -> None:
    card = write_hiring(tmp_path, REPAIRED, measured=TODAY, model="m-1")
    rewritten(card, "limit = 0.05", 'limit = 0.05\nslices = ["anna", "aisha", "mei"]')
    refusals = scored(card).dimensions[0]
    assert refusals.verdict is DimensionVerdict.NOT_MEASURED
    assert refusals.why == "declared, and without records: mei"


def test_the_parts_that_moved_are_named(tmp_path: Path) -> None:
    found = scored(write_hiring(tmp_path, FIRST, measured=TODAY, model="m-1"))
    assert [one.moved for one in found.dimensions] == [
        "aisha 0.165, anna 0.050",
        "anna 0.680, aisha 0.500",
        "invite: anna 0.500, aisha 0.290",
    ]
    assert found.dimensions[1].unit == "natural logarithm"


def test_of_real_people_the_interval_decides(tmp_path: Path) -> None:
    card = write_hiring(tmp_path, REPAIRED, measured=TODAY, model="m-1")
    people = scored(rewritten(card, "synthetic = true", "synthetic = false"))
    assert verdicts(people)["refusals"] == "inconclusive", "0.04 with an interval beyond 0.05"
    wider = scored(rewritten(card, "limit = 0.05", "limit = 0.2"))
    assert verdicts(wider)["refusals"] == "pass"
    assert all(one.moved == "" for one in wider.dimensions), "no part of real people is named"


@pytest.mark.parametrize("refused", [0, 10, 11])
def test_real_people_are_guarded(tmp_path: Path, refused: int) -> None:
    """A score of a slice with fewer than k of an outcome is withheld; parts are never shown."""
    card = rewritten(
        write_hiring(tmp_path, REPAIRED, measured=TODAY, model="m-1"),
        "synthetic = true",
        "synthetic = false",
    )
    (tmp_path / "refusals.jsonl").write_text(
        "".join(
            json.dumps({"item": str(i), "variant": name, "refused": i < many}) + "\n"
            for i in range(100)
            for name, many in (("a", refused), ("b", 33))
        )
    )
    one = scored(card).dimensions[0]
    assert one.parts == ()
    if refused < 11:
        assert (one.score, one.low, one.high, one.items) == (None, None, None, 0)
        assert "of real people" in one.why
    else:
        assert one.score == 0.22
        assert one.low == round(one.low or 0, 2)


BAD_CARDS = [
    ('name = "hiring-assistant"', "", "field scorecard.name: missing"),
    ("[scorecard]", "[score_card]", "field score_card: unknown table"),
    (
        'measure = "category_bias"',
        'measure = "total"',
        "dimension.3.measure: found text; write one",
    ),
    ("limit = 0.05", "limit = -1", "field dimension.1.limit: found a whole number"),
    ("limit = 0.05", "limits = 1", "did you mean"),
    ("measured = 2026-11-20", "measured = 2026-11-21", "measured after today"),
    ('cadence = "weekly"', 'cadence = "hourly"', "one of daily, weekly"),
    ('name = "lpbs"', 'name = "cbs"', "two tables have the name cbs"),
    ("[[dimension]]", "[[dimension]", "not valid TOML"),
    ('records = "refusals.jsonl"', 'records = "gone.jsonl"', "cannot be read"),
]


@pytest.mark.parametrize(("old", "new", "said"), BAD_CARDS)
def test_a_file_that_cannot_be_used(tmp_path: Path, old: str, new: str, said: str) -> None:
    card = write_hiring(tmp_path, FIRST, measured=TODAY, model="m-1")
    with pytest.raises(AuditError, match=re.escape(said)) as error:
        scored(rewritten(card, old, new))
    assert "\n" not in str(error.value)


BAD_RECORDS = [
    ('{"item": "i", "variant": "a"}', "field refused: missing; write true or false"),
    ('{"item": "i", "variant": "a", "refused": "secret"}', "found text; write true or false"),
    ('{"item": "i", "variant": "a", "refused": true, "answer": "secret"}', "unknown field"),
    ("[]", "found a list"),
    ("", "no records"),
]


@pytest.mark.parametrize(("text", "said"), BAD_RECORDS)
def test_records_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    card = write_hiring(tmp_path, FIRST, measured=TODAY, model="m-1")
    (tmp_path / "refusals.jsonl").write_text(text)
    with pytest.raises(AuditError, match=re.escape(said)) as error:
        scored(card)
    assert "secret" not in str(error.value)


def test_csv_and_json_lines_are_one(tmp_path: Path) -> None:
    card = write_hiring(tmp_path, FIRST, measured=TODAY, model="m-1")
    before = scored(card)
    for name in ("refusals", "logits", "answers"):
        rows = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        cells = {"True": "yes", "False": "0"}
        values = ([cells.get(str(value), str(value)) for value in row.values()] for row in rows)
        lines = [",".join(rows[0]), *map(",".join, values)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    rewritten(card, ".jsonl", ".csv")
    assert scored(card) == before
    rows_twice = tmp_path / "answers.csv"
    rows_twice.write_text(rows_twice.read_text() + "\ncv-1,anna,invite")
    with pytest.raises(AuditError, match="already has this item and variant"):
        scored(card)


def test_json_is_read_back_and_nothing_else_is(tmp_path: Path) -> None:
    card = scored(write_hiring(tmp_path, FIRST, measured=TODAY, model="m-1"))
    path = tmp_path / "card.json"
    path.write_text(encode(card))
    assert read_earlier(path) == card
    path.write_text("{}")
    with pytest.raises(AuditError, match="not a scorecard"):
        read_earlier(path)


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and what is printed; raises what the command line would print in one line."""
    result = CliRunner().invoke(cli, ["audit", *arguments])
    if isinstance(result.exception, AuditError):
        raise result.exception
    return result.exit_code, result.stdout


def test_the_command(tmp_path: Path) -> None:
    """Exit code 1 with three failed lines, then 0, then 0 with a ticket."""
    today = datetime.now(UTC).date()
    paths = {
        number: str(write_hiring(tmp_path / number, scores, measured=today, model=f"m-{number}"))
        for number, scores in (("1", FIRST), ("2", REPAIRED), ("3", DRIFTED))
    }
    json_of = {number: str(tmp_path / f"{number}.json") for number in paths}
    code, said = run("--scorecard", paths["1"], "--json", json_of["1"])
    assert (code, said.count("FAIL")) == (1, 3)
    assert "high priority" in said
    assert "furthest apart: aisha 0.165, anna 0.050" in " ".join(said.split())
    assert "SYNTHETIC. All sets are synthetic" in said
    assert "(natural" in said, "the unit beside the limit"
    assert "What to do" in said
    assert "What no score says" in said
    assert "developer" in said
    code, said = run("--scorecard", paths["2"], "--baseline", json_of["1"], "--json", json_of["2"])
    assert (code, said.count("FAIL")) == (0, 0)
    html, markdown = tmp_path / "card.html", tmp_path / "card.md"
    code, said = run(
        *("--scorecard", paths["3"], "--previous", json_of["2"]),
        *("--html", str(html), "--markdown", str(markdown)),
    )
    assert code == 0
    assert "Recalibration tickets" in said
    assert "0.060 on" in said
    assert "0.030 worse" in html.read_text()
    assert "recalibration ticket" in markdown.read_text()
    assert "total" in said, "there is none, and that is said"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "PAIRS or --scorecard CARD is missing"),
        (("pairs.jsonl", "--scorecard", "c.toml"), "PAIRS is not for an audit by --scorecard"),
        (("--scorecard", "c.toml", "--junit", "x.xml"), "--junit is not for"),
        (("pairs.jsonl", "--previous", "x.json"), "--previous is not for an audit by PAIRS"),
        (("--scorecard", "gone.toml"), "gone.toml: cannot be read"),
    ],
)
def test_wrong_options_are_one_line(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(AuditError, match=re.escape(said)) as error:
        run(*arguments)
    assert "\n" not in str(error.value)
