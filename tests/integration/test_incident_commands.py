"""``slicewatch incident``: listed, shown, acknowledged and closed, on both databases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pipeline import SETTINGS, Pipeline

from monitor.cli import cli
from monitor.core.contract import Severity
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Behind, IncidentKind, Outcome, Share, Stage
from monitor.core.publish.incidents import Act, Incident
from monitor.core.publish.snapshot import (
    WITHHELD,
    ComponentChange,
    ContractTable,
    GroupTable,
    PublishedValue,
    ShownIncident,
    ShownRate,
    ShownStage,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.time import DAY, HOUR, to_micros
from monitor.errors import SlicewatchError
from monitor.store import database as db
from monitor.store.evaluator.store import Cycle, EvaluatorStore
from monitor.store.evaluator.stored_incidents import IncidentChange, read_acts
from monitor.store.schema import incident

T0 = to_micros(datetime(2026, 6, 1, 10, tzinfo=UTC))
SECRET = "language_variety=conversational"
SHOWN = "channel=chat"
OPENED = Incident(
    1, IncidentKind.BREACH, "synthetic", Metric.TPR, T0, T0 + HOUR, "language_variety", SECRET,
    share=Share.MOST, first=PublishedValue(0.77, 0.66, 0.88, T0), crossings=(1,),
)  # fmt: skip
SECOND = replace(OPENED, id=2, group_by="channel", slice=SHOWN, crossings=(2,))
VISIBLE = ShownIncident(
    2, IncidentKind.BREACH, Severity.PAGE, Metric.TPR, T0, "channel", SHOWN, Share.ABOUT_HALF,
    ("channel=chat,language_variety=formal",), first=PublishedValue(0.22, 0.15, 0.29, T0),
    latest=PublishedValue(None, None, 0.31, T0 + DAY), stage=ShownStage(Stage.SCORE, Share.MOST),
    versions_changed_at=T0 - 5 * HOUR, sampling="5 % of what is served", resolvable_at=T0 + 9 * DAY,
    behind=Behind.SLICE, versions_changed=(ComponentChange("policy", "p1", "p2"),),
)  # fmt: skip
HIDDEN = ShownIncident(1, IncidentKind.BREACH, Severity.PAGE, Metric.TPR, T0, "", WITHHELD)
BY = ("--by", "triage team")


@pytest.fixture
def pipeline(tmp_path: Path, url: str) -> Iterator[Pipeline]:
    with Pipeline(tmp_path, store__url=url) as pipeline:
        commit(pipeline, Cycle(incidents=IncidentChange([OPENED, SECOND])))
        commit(pipeline, Cycle(snapshot=telling(HIDDEN, VISIBLE)))
        yield pipeline


def commit(pipeline: Pipeline, cycle: Cycle) -> None:
    store = EvaluatorStore(pipeline.engine, "decisions")
    epoch = store.lease.acquire("me", DAY)
    assert epoch is not None
    store.commit(epoch, cycle, T0)


def resolve(pipeline: Pipeline, one: Incident) -> None:
    commit(pipeline, Cycle(incidents=IncidentChange(changed=[replace(one, resolved_at=T0 + DAY)])))


def telling(*incidents: ShownIncident, rows: tuple[SliceRow, ...] = ()) -> Snapshot:
    total = WindowTable("7d", SliceRow("", {}), (GroupTable("channel", rows),))
    table = ContractTable(
        "synthetic", "1", "tests", True, 1, "7d", {}, {}, {}, {}, (total,), incidents=incidents
    )
    return Snapshot(T0, None, (table,))


def invoke(pipeline: Pipeline, *arguments: str) -> Result:
    runner = CliRunner(env={"SLICEWATCH__STORE__URL": pipeline.settings.store.url})
    settings = str(pipeline.path.with_name("settings.toml"))
    return runner.invoke(cli, ["incident", *arguments, "-s", settings], standalone_mode=False)


def said(pipeline: Pipeline, *arguments: str) -> str:
    result = invoke(pipeline, *arguments)
    assert result.exception is None, result.exception
    return result.output


def refused(pipeline: Pipeline, *arguments: str) -> str:
    before = acts(pipeline)
    result = invoke(pipeline, *arguments)
    assert isinstance(result.exception, SlicewatchError), result.output
    assert "\n" not in str(result.exception)
    assert acts(pipeline) == before
    return str(result.exception)


def listed(pipeline: Pipeline, *options: str) -> dict[int, dict[str, Any]]:
    return {one["id"]: one for one in json.loads(said(pipeline, "list", "--json", *options))}


def acts(pipeline: Pipeline, number: int = 1) -> tuple[Act, ...]:
    with db.reading(pipeline.engine) as connection:
        return read_acts(connection, incident.c.id == number).get(number, ())


def day(ahead: int) -> str:
    return (datetime.now(UTC) + timedelta(days=ahead)).date().isoformat()


def test_what_stands_is_listed(pipeline: Pipeline) -> None:
    text = said(pipeline, "list")
    (first, second) = (line.split() for line in text.splitlines() if line.strip()[:1].isdigit())
    assert first == [
        "1",
        "page",
        "open",
        "synthetic",
        "tpr",
        WITHHELD,
        "-",
        "-",
        "2026-06-01T10:00Z",
        "-",
    ]
    assert second[5:9] == [SHOWN, "-", "about", "half"]


def test_a_slice_that_is_hidden_is_withheld_everywhere(pipeline: Pipeline) -> None:
    """Also its numbers, and although the store's own row has them."""
    said(pipeline, "ack", "1", *BY)
    outputs = [
        said(pipeline, *arguments)
        for arguments in (
            ("list",), ("list", "--all"), ("list", "--json"), ("show", "1"),
            ("show", "1", "--json"), ("close", "1", "--outcome", "fixed", *BY), ("show", "1"),
        )
    ]  # fmt: skip
    for text in outputs:
        assert "conversational" not in text
        assert "0.77" not in text
    for text in outputs[:-2]:
        assert WITHHELD in text
    found = json.loads(outputs[4])
    assert (found["slice"], found["group_by"], found["share"], found["first"]) == (
        WITHHELD, "", None, None,
    )  # fmt: skip


def test_what_no_snapshot_tells_of_yet_is_withheld(pipeline: Pipeline) -> None:
    commit(pipeline, Cycle(incidents=IncidentChange([replace(OPENED, id=3, crossings=(3,))])))
    assert listed(pipeline)[3]["slice"] == WITHHELD


def test_the_newest_snapshot_decides_what_is_shown(pipeline: Pipeline) -> None:
    """What stands and is hidden by now is not told from an older one."""
    assert listed(pipeline)[2]["slice"] == SHOWN
    commit(pipeline, Cycle(snapshot=telling(HIDDEN, replace(HIDDEN, id=2))))
    assert listed(pipeline)[2]["slice"] == WITHHELD
    commit(pipeline, Cycle(snapshot=telling()))
    assert listed(pipeline)[2]["slice"] == WITHHELD


def test_what_is_resolved_is_told_as_it_was_first_shown(pipeline: Pipeline) -> None:
    for one in (OPENED, SECOND):
        resolve(pipeline, one)
    commit(pipeline, Cycle(snapshot=telling()))
    assert said(pipeline, "list") == "no incident is open\n"
    assert listed(pipeline) == {}
    found = listed(pipeline, "--all")
    assert (found[1]["slice"], found[2]["slice"]) == (WITHHELD, SHOWN)
    assert {one["state"] for one in found.values()} == {"resolved"}
    assert found[2]["resolved_at"] == "2026-06-02T10:00:00Z"
    assert "resolved" in said(pipeline, "list", "--all")


def test_where_there_never_was_one(tmp_path: Path) -> None:
    with Pipeline(tmp_path) as pipeline:
        assert said(pipeline, "list") == "no incident is open\n"
        assert said(pipeline, "list", "--all") == "there never was an incident\n"
        assert listed(pipeline, "--all") == {}


def test_everything_that_is_known_is_shown(pipeline: Pipeline) -> None:
    said(pipeline, "ack", "2", *BY, "--note", "[red]looking[/red]")
    until = day(30)
    accepted = ("--outcome", "accepted", "--until", day(29))
    said(pipeline, "close", "2", *accepted, "--by", "the officer")
    text = said(pipeline, "show", "2")
    for part in (
        "2 (page)", f"accepted until {until}T00:00Z", "synthetic, tpr", SHOWN, "about half",
        "channel=chat,language_variety=formal", "gap +22 [+15 to +29] points, in data to",
        "gap \N{EN DASH} points, in data to 2026-06-02 10:00 UTC",
        "mostly in the judge's score", "2026-06-01T05:00Z",
        "5 % of what is served", "2026-06-10T10:00Z", "/snapshot/1", "[red]looking[/red]",
        "triage team", "the officer",
        "ready replies served less often", "p1 -> p2",
    ):  # fmt: skip
        assert part in text, part
    found = json.loads(said(pipeline, "show", "2", "--json"))
    assert (found["state"], found["by"], found["outcome"], found["accepted_until"]) == (
        "accepted", "the officer", "accepted", f"{until}T00:00:00Z",
    )  # fmt: skip
    assert [one["action"] for one in found["acts"]] == ["ack", "close"]
    assert found["acts"][0]["note"] == "[red]looking[/red]"
    assert found["stage"] == {"stage": "score", "share": "most"}
    assert found["versions_changed"] == [{"component": "policy", "before": "p1", "after": "p2"}]
    assert found == listed(pipeline)[2]


def test_who_looks_after_it_is_named(pipeline: Pipeline) -> None:
    text = said(pipeline, "ack", "1", *BY, "--note", " looking at the judge ")
    assert text == "incident 1 is acknowledged by triage team; metrics show it within 10s\n"
    (act,) = acts(pipeline)
    assert (act.by, act.note, act.outcome) == ("triage team", "looking at the judge", None)
    assert time.time() * 1e6 - act.at < HOUR
    found = listed(pipeline)
    assert (found[1]["state"], found[1]["by"]) == ("acknowledged", "triage team")
    assert (found[2]["state"], found[2]["by"]) == ("open", None)


@pytest.mark.parametrize("outcome", ["fixed", "not_real", "bad_data"])
def test_it_is_closed_once(pipeline: Pipeline, outcome: str) -> None:
    text = said(pipeline, "close", "1", "--outcome", outcome, *BY)
    assert text.startswith(f"incident 1 is closed as {outcome}: ")
    assert "within one cycle (10s)" in text
    (act,) = acts(pipeline)
    assert (act.outcome, act.until) == (Outcome(outcome), None)
    assert f"closed: {outcome}" in said(pipeline, "list"), "until the evaluator has taken it over"
    again = ("close", "1", "--outcome", "fixed", *BY)
    assert "incident 1 was closed at" in refused(pipeline, *again)
    said(pipeline, "ack", "1", *BY)
    resolve(pipeline, SECOND)
    assert "incident 2 was resolved at" in refused(pipeline, "close", "2", *again[2:])


def test_what_is_accepted_can_be_closed(pipeline: Pipeline) -> None:
    text = said(pipeline, "close", "1", "--outcome", "accepted", "--until", day(1), *BY)
    assert text.startswith(f"incident 1 is accepted until the end of {day(1)} (UTC): it stays vis")
    (act,) = acts(pipeline)
    assert act.until == to_micros(datetime.fromisoformat(f"{day(2)}T00:00:00+00:00"))
    said(pipeline, "close", "1", "--outcome", "accepted", "--until", day(365), *BY)
    said(pipeline, "close", "1", "--outcome", "fixed", *BY)
    assert listed(pipeline)[1]["state"] == "closed"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "9"), "there is no incident 9; to list all: slicewatch incident list --all"),
        (("ack", "9", *BY), "there is no incident 9"),
        (("close", "9", "--outcome", "fixed", *BY), "there is no incident 9"),
        (("ack", "1"), "--by is missing; slicewatch incident ack --help"),
        (("ack", "1", "--by", "  "), "--by is missing"),
        (("ack", "1", "--by", "two\nlines"), "--by must be one line"),
        (("ack", "1", "--by", "x" * 81), "--by must have at most 80 characters"),
        (("ack", "1", *BY, "--note", "a\x1b[2J"), "--note must be one line"),
        (("ack", "1", *BY, "--note", "x" * 501), "--note must have at most 500 characters"),
        (("close", "1", *BY), "--outcome must be one of fixed, not_real, accepted,"),
        (("close", "1", "--outcome", "fine", *BY), "--outcome must be one of"),
        (("close", "1", "--outcome", "fixed"), "--by is missing; slicewatch incident close"),
        (("close", "1", "--outcome", "accepted", *BY), "--outcome accepted needs --until DATE"),
        (("close", "1", "--outcome", "fixed", "--until", day(9), *BY), "--until is only for"),
        (("close", "1", "--outcome", "accepted", "--until", "soon", *BY), "--until must be a day,"),
        (("close", "1", "--outcome", "accepted", "--until", day(0), *BY), "a future day"),
        (("close", "1", "--outcome", "accepted", "--until", day(-9), *BY), "a future day"),
        (("close", "1", "--outcome", "accepted", "--until", day(368), *BY), "within a year"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    with Pipeline(tmp_path) as pipeline:
        commit(pipeline, Cycle(incidents=IncidentChange([OPENED])))
        assert words in refused(pipeline, *arguments)


def test_a_refusal_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "slicewatch.toml").write_text(SETTINGS)
    done = subprocess.run(
        [sys.executable, "-m", "monitor", "incident", "list"],
        cwd=tmp_path,
        env={**os.environ, "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/none.db"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "does not exist yet" in done.stderr


def test_every_command_has_an_example(tmp_path: Path) -> None:
    for name in ("list", "show", "ack", "close"):
        text = CliRunner().invoke(cli, ["incident", name, "--help"]).output
        assert f"Example: slicewatch incident {name}" in text


def test_what_is_over_names_the_slices_it_gained_as_far_as_they_are_shown(
    pipeline: Pipeline,
) -> None:
    """Its own Snapshot was made before it gained any."""
    names = ("channel=email", "channel=phone")
    rates = {Metric.TPR: ShownRate(0.5, 0.4, 0.6, 50)}
    rows = (SliceRow(names[0], {}, rates), SliceRow(names[1], {}))
    commit(pipeline, Cycle(snapshot=telling(rows=rows)))
    resolve(pipeline, replace(SECOND, further=names))
    resolve(pipeline, replace(OPENED, further=names))
    over = listed(pipeline, "--all")
    assert (over[2]["slice"], over[2]["further"]) == (SHOWN, [names[0]])
    assert (over[1]["slice"], over[1]["further"]) == (WITHHELD, [])
