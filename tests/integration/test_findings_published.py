"""Findings and incidents as they are published: from a breach to its repair, day by day."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from adversary.service import settings_text
from adversary.worlds import DAY, HOUR, SECOND, START
from releasing import Releasing, instants
from repaired import (
    BREACH,
    END,
    MOMENTS,
    RELEASE,
    REPAIR,
    TPR,
    WORLD,
    WORSE,
    alone_crossing,
    repaired,
    site,
    tables,
)

from alerts.exposition.renderer import Renderer
from monitor.core.metric import Metric
from monitor.core.publish.act_input import ActInput, Closing
from monitor.core.publish.annotations import Annotation, IncidentKind, Outcome
from monitor.core.publish.snapshot import (
    ComponentChange,
    ContractTable,
    GroupTable,
    Noted,
    ShownIncident,
    SliceRow,
    Snapshot,
    decode,
)
from monitor.core.publish.states import CROSSED
from monitor.core.state import State
from monitor.core.time import Grain, pane_start
from monitor.detection.advisory.finding_log import FindingTimes, RateChange, VersionChange
from monitor.store.evaluator.stored_incidents import acknowledge, close

pytestmark = pytest.mark.full


def row(table: GroupTable, text: str = WORSE) -> SliceRow:
    (found,) = (one for one in table.rows if one.slice == text)
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Releasing]:
    """After all of it, looked at every three hours by one evaluator."""
    with site(tmp_path_factory.mktemp("alone") / "store") as one:
        for now in MOMENTS:
            one.until(now)
        yield one


@pytest.fixture(scope="module")
def shown(alone: Releasing) -> list[GroupTable]:
    return tables(alone.snapshots())


def test_a_breach_becomes_visible_at_the_end_of_a_day_and_ends_after_the_repair(
    alone: Releasing, shown: list[GroupTable]
) -> None:
    crossed, resolved = alone_crossing(alone)
    inside = [t for t in shown if row(t).states[TPR] is State.BREACH]
    first, last = inside[0], inside[-1]
    assert inside == [t for t in shown if shown.index(first) <= shown.index(t) <= shown.index(last)]
    assert first.labelled is not None
    assert last.labelled is not None
    edges = sorted({t.labelled.end for t in shown if t.labelled is not None})
    assert first.labelled.end == min(edge for edge in edges if edge >= crossed)
    assert {row(t).breach_since[TPR] for t in inside} == {first.labelled.end}
    assert BREACH < first.labelled.end <= REPAIR < resolved
    assert last.labelled.end == max(edge for edge in edges if edge <= resolved)
    assert row(shown[-1]).states[TPR] in (
        State.WITHIN_CONTRACT,
        State.INCONCLUSIVE,
        State.SUSPECTED,
    )
    assert row(shown[-1]).breach_since == {}


def test_evidence_is_full_while_it_stands_and_only_then(shown: list[GroupTable]) -> None:
    steps = [row(t).evidence[TPR] for t in shown if TPR in row(t).evidence]
    assert {0, CROSSED} <= set(steps) <= set(range(5))
    for table in shown:
        one = row(table)
        assert (one.evidence.get(TPR) == CROSSED) == (one.states[TPR] is State.BREACH)
        hidden = {m for m, state in one.states.items() if state is State.SUPPRESSED}
        noted = {n.metric for n in one.noted}
        assert not hidden & {
            *one.evidence,
            *one.breach_since,
            *one.detectable_gaps,
            *one.label_needs,
            *noted,
        }


def test_nothing_changes_between_the_ends_of_days(
    alone: Releasing, shown: list[GroupTable]
) -> None:
    """Labelled findings of shown rows move at most once a day, though decisions go on."""
    findings = [
        {row.slice: labelled_findings(row) for row in table.rows if Metric.TPR in row.rates}
        for table in shown
    ]
    published = pairwise(zip(watermarks(alone.snapshots()), findings, strict=True))
    moved = [
        end // DAY
        for (_, before), (end, after) in published
        if any(before[name] != after[name] for name in before.keys() & after.keys())
    ]
    assert len(shown) - len(moved) > 10
    assert len(moved) > 3
    assert len({*moved}) == len(moved)


def watermarks(bodies: list[bytes]) -> list[int]:
    """The watermark of every Snapshot that has tables."""
    return [at for body in bodies if (at := decode(body).watermark) is not None]


def labelled_findings(one: SliceRow) -> tuple[object, ...]:
    noted = tuple(n for n in one.noted if n.metric is None or n.metric.labelled)
    parts = (one.evidence, one.breach_since)
    return noted, *({m: found for m, found in part.items() if m.labelled} for part in parts)


def ledger(one: Releasing) -> FindingTimes:
    """What advises, as the store holds it."""
    (body,) = (part for name, part in one.detection()["detector"] if name == "~found")
    assert isinstance(body, bytes)
    return FindingTimes.from_bytes(body)


def test_a_version_change_is_noted_at_the_end_of_its_day(
    alone: Releasing, shown: list[GroupTable]
) -> None:
    change = ledger(alone).tallies[VersionChange("replies", "a", WORSE)]
    assert (change.count, RELEASE <= change.last < RELEASE + 6 * HOUR) == (1, True)
    edges = {t.labelled.end for t in shown if t.labelled is not None}
    expected = Noted(Annotation.VERSION_CHANGE, None, 1, min(e for e in edges if e > change.last))
    for table in shown:
        noted = [n for n in row(table).noted if n.annotation is Annotation.VERSION_CHANGE]
        seen = table.labelled is not None and table.labelled.end >= expected.latest
        assert noted == ([expected] if seen else [])
    assert row(shown[-1]).noted[-1] == expected


def test_which_versions_changed_is_named_of_that_slice_alone(
    alone: Releasing, shown: list[GroupTable]
) -> None:
    change = ComponentChange("router", "1", "2")
    told = [row(t).versions_changed for t in shown]
    noted = [any(n.annotation is Annotation.VERSION_CHANGE for n in row(t).noted) for t in shown]
    assert {*told} == {(), (change,)}
    assert told[-1] == (change,)
    assert all(said for names, said in zip(told, noted, strict=True) if names)
    first = shown[told.index((change,))]
    assert first.decisions is not None
    assert first.decisions.end > RELEASE
    assert {other.versions_changed for t in shown for other in t.rows if other.slice != WORSE} == {
        ()
    }


def test_a_change_that_the_window_has_passed_is_still_named(tmp_path: Path) -> None:
    """Of 24 hours, four days later."""
    text = settings_text(WORLD, exact=False).replace('window = "7d"', 'window = "24h"')
    with Releasing(WORLD, tmp_path, text.replace('clock = "history"', 'clock = "live"')) as one:
        for now in instants(WORLD, 12 * HOUR, END):
            one.until(now)
        newest = tables(one.snapshots())[-1]
    assert newest.decisions is not None
    assert newest.decisions.start > RELEASE + DAY
    assert row(newest).versions_changed == (ComponentChange("router", "1", "2"),)


def test_the_page_says_how_often_and_when_last(alone: Releasing, shown: list[GroupTable]) -> None:
    page = Renderer(10_000).render(decode(alone.snapshots()[-1])).plain.decode()
    samples = dict(line.rsplit(" ", 1) for line in page.splitlines() if line[0] != "#")
    expected: dict[str, float] = {}
    for one in row(shown[-1]).noted:
        metric = one.metric.value if one.metric else ""
        labels = f'contract="replies",metric="{metric}",group_by="a",slice="{WORSE}",window="7d"'
        labels = f'{{{labels},finding="{one.annotation.value}"}}'
        expected[f"slicewatch_slice_findings{labels}"] = one.count
        expected[f"slicewatch_slice_finding_timestamp_seconds{labels}"] = one.latest / SECOND
    assert len(expected) == 10, "both of river's detectors on both rates, and the versions"
    assert {s: float(x) for s, x in samples.items() if "_finding" in s} == expected


def test_river_s_changes_are_counted_up_to_the_end_of_the_newest_day(
    alone: Releasing, shown: list[GroupTable]
) -> None:
    """Every table says what was found before its end, however far the cohorts were by then."""
    hours: dict[tuple[Annotation, Metric], list[int]] = defaultdict(list)
    for subject, timeline in ledger(alone).group_timelines("replies", "a").items():
        if isinstance(subject, RateChange):
            assert timeline.totals == list(range(1, len(timeline.totals) + 1))
            found = (pane_start(hour, Grain.HOUR) for hour in timeline.hours)
            hours[Annotation(subject.detector.value), subject.metric] += found
    assert {Annotation.ADWIN, Annotation.PAGE_HINKLEY} == {annotation for annotation, _ in hours}
    edges = sorted({t.labelled.end for t in shown if t.labelled is not None})
    for table in shown:
        end = table.labelled.end if table.labelled is not None else 0
        expected = {
            Noted(*mark, len(before), min(edge for edge in edges if edge > max(before)))
            for mark, found in hours.items()
            if (before := [at for at in found if at < end])
        }
        assert {n for n in row(table).noted if n.metric is not None} == expected


def test_a_breach_that_lasts_over_the_week_is_noted_of_the_weekly_list(tmp_path: Path) -> None:
    """At the end of Monday, in whose first hour the list is made."""
    with site(tmp_path / "store", repaired(START + 4 * DAY, END)) as one:
        for now in instants(WORLD, 12 * HOUR, START + 8 * DAY + 12 * HOUR):
            one.until(now)
        bodies = one.snapshots()
    expected = Noted(Annotation.GAP, TPR, 1, START + 8 * DAY)
    ends = watermarks(bodies)
    for end, table in zip(ends, tables(bodies), strict=True):
        listed = [n for n in row(table).noted if (n.annotation, n.metric) == (Annotation.GAP, TPR)]
        assert listed == ([expected] if end >= expected.latest else [])
    assert ends[0] < expected.latest < ends[-1]


def test_what_is_noted_is_noted_in_its_slice_alone(shown: list[GroupTable]) -> None:
    assert {one.slice for table in shown for one in table.rows if one.noted} == {WORSE}


def test_restarts_publish_the_same_bytes(alone: Releasing, tmp_path: Path) -> None:
    pick = random.Random(1)
    with site(tmp_path / "store") as one:
        for now in MOMENTS:
            one.until(now)
            if pick.random() < 0.3:
                one.restart()
        assert one.snapshots() == alone.snapshots()


# Incidents


def snapshots(one: Releasing) -> list[Snapshot]:
    return [decode(body) for body in one.snapshots()]


def pages(snapshot: Snapshot) -> list[ShownIncident]:
    (table,) = snapshot.contracts
    return [one for one in table.incidents if one.kind is IncidentKind.BREACH and one.metric is TPR]


def test_a_gap_is_one_incident_that_names_the_worse_slice(alone: Releasing) -> None:
    crossed, resolved = alone_crossing(alone)
    told = [pages(one) for one in snapshots(alone)]
    standing = [one for one in told if one]
    assert {len(one) for one in standing} == {1}
    first, last = standing[0][0], standing[-1][0]
    assert {one.id for (one,) in standing} == {first.id}
    assert {one.since for (one,) in standing} == {first.since}
    assert first.since <= crossed < REPAIR < resolved
    assert told[-1] == []
    assert (last.group_by, last.slice) == ("a", WORSE)
    assert last.first is not None
    assert last.latest is not None


def test_its_numbers_are_those_of_its_row(alone: Releasing) -> None:
    for snapshot in snapshots(alone):
        (table,) = snapshot.contracts
        for one in pages(snapshot):
            shown = gap_row(table)
            if shown is None or shown[0] is State.SUPPRESSED:
                assert (one.slice, one.latest, one.first) == ("withheld", None, None)
            elif one.latest is not None:
                assert (one.latest.value, one.latest.lower, one.latest.upper) == shown[1]


def gap_row(table: ContractTable) -> tuple[State, tuple[float | None, ...] | None] | None:
    for window in table.windows:
        for group in window.groups if window.window == table.window else ():
            for one in group.rows:
                if one.slice == WORSE:
                    gap = one.gaps.get(TPR)
                    shown = None if gap is None else (gap.value, gap.lower, gap.upper)
                    return one.states[TPR], shown
    return None


def test_the_first_published_number_stays_and_the_link_is_to_the_snapshot_that_told(
    alone: Releasing,
) -> None:
    told = [(number, one) for number, s in enumerate(snapshots(alone), 1) for one in pages(s)]
    for (_, before), (_, after) in pairwise(told):
        if before.first is not None and before.slice == after.slice:
            assert after.first == before.first
    assert told[0][1].snapshot == 0
    assert {one.snapshot for _, one in told[1:]} == {told[0][0]}


def test_the_page_is_a_latch_without_a_slice(alone: Releasing) -> None:
    told = next(one for one in snapshots(alone) if pages(one))
    text = Renderer(10_000).render(told).plain.decode()
    lines = [line for line in text.splitlines() if line.startswith("slicewatch_page{")]
    assert any('metric="tpr"' in line and line.endswith(" 1.0") for line in lines)
    assert all("slice=" not in line for line in lines)


def test_people_acknowledge_and_close_and_the_page_ends_at_once(tmp_path: Path) -> None:
    with site(tmp_path / "store") as one:
        moments = iter(MOMENTS)
        while not pages(last := decode(one.snapshots()[-1])) if one.snapshots() else True:
            one.until(next(moments))
        (page,) = pages(last)
        acknowledge(one.engine, page.id, ActInput("triage"), 5)
        one.until(now := next(moments))
        (page,) = pages(decode(one.snapshots()[-1]))
        assert page.acknowledged
        close(one.engine, page.id, Closing(Outcome.FIXED), ActInput("triage"), 6)
        one.until(now + 1)
        assert page.id not in {x.id for x in pages(decode(one.snapshots()[-1]))}
        with one.engine.connect() as connection:
            rows = connection.exec_driver_sql(
                "SELECT COUNT(*) FROM crossing c JOIN incident_crossing i ON i.crossing = c.id"
                " WHERE c.resolved_at IS NULL AND i.incident = ?",
                (page.id,),
            )
            assert rows.scalar() == 0
