"""Incidents through the real store and evaluator: one cause, one page, from crossing to resolve."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from releasing import Releasing
from repaired import MOMENTS, REPAIR, TPR, WORSE, alone_crossing, site

from alerts.exposition.renderer import Renderer
from monitor.core.contract import State
from monitor.core.publish.act_input import ActInput, Closing
from monitor.core.publish.annotations import IncidentKind, Outcome
from monitor.core.publish.snapshot import ContractTable, ShownIncident, Snapshot, decode
from monitor.store.evaluator.stored_incidents import acknowledge, close

pytestmark = pytest.mark.full


def snapshots(one: Releasing) -> list[Snapshot]:
    return [decode(body) for body in one.snapshots()]


def pages(snapshot: Snapshot) -> list[ShownIncident]:
    (table,) = snapshot.contracts
    return [one for one in table.incidents if one.kind is IncidentKind.BREACH and one.metric is TPR]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Releasing]:
    with site(tmp_path_factory.mktemp("alone") / "store") as one:
        for now in MOMENTS:
            one.until(now)
        yield one


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
            shown = row(table)
            if shown is None or shown[0] is State.SUPPRESSED:
                assert (one.slice, one.latest, one.first) == ("withheld", None, None)
            elif one.latest is not None:
                assert (one.latest.value, one.latest.lower, one.latest.upper) == shown[1]


def row(table: ContractTable) -> tuple[State, tuple[float | None, ...] | None] | None:
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


def test_restarts_tell_the_same_of_every_incident(alone: Releasing, tmp_path: Path) -> None:
    with site(tmp_path / "store") as one:
        for now in MOMENTS:
            one.until(now)
            one.restart()
        assert one.snapshots() == alone.snapshots()


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
