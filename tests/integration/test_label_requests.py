"""A broken sampler: found by its requests and published with the day, long before any label."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from adversary.service import settings_text
from adversary.worlds import AUDIT_RATES, AUTO, BLOCKED, DAY, HOUR, REVIEW, START, Shape, World
from releasing import MARGIN, Releasing, instants, prompt

from alerts.exposition.renderer import Renderer
from monitor.core.counts.cells import Route
from monitor.core.publish.annotations import Fault
from monitor.core.publish.snapshot import ContractTable, RequestsAtFault, decode
from monitor.core.time import TimeSpan
from monitor.store.exclusions import Declaration, add_exclusion

pytestmark = pytest.mark.full

DAYS, A_DAY = 5, 4_800
BROKEN = START + 2 * DAY + 6 * HOUR
LATER = 3 * DAY  # no label comes before
AUDITED = AUDIT_RATES.index(0.5)
FULLY = AUDIT_RATES.index(1.0)


def broken() -> World:
    """Two slices alike; half of auto_serve is audited, until half of those requests are lost.

    A tenth is blocked, with an audit rate of 1, and nobody asks for a label of it.
    """
    rng, size = np.random.default_rng(11), DAYS * A_DAY
    at = START + np.arange(size) * (DAY // A_DAY) + 1
    route = rng.choice([AUTO, REVIEW, BLOCKED], size, p=[0.6, 0.3, 0.1])
    rate = np.where(route == AUTO, AUDITED, FULLY)
    share = np.where((route == AUTO) & (at >= BROKEN), 0.5, 1.0) * (route != BLOCKED)
    asked = rng.random(size) < np.array(AUDIT_RATES)[rate] * share
    says, zero = np.flatnonzero(asked), np.zeros(size, np.int64)
    world = World(
        seed=11, shape=Shape((2,), DAYS), attributes={"a": ("a0", "a1")}, atoms=(("a0",), ("a1",)),
        at=at, arrives=at, atom=rng.permutation(np.arange(size) % 2), route=route,
        band=rng.integers(0, 3, size), rate=rate, asked=zero, version=zero, says=says,
        said_at=at[says], labelled=np.ones(len(says), np.int64), ready=says % 2,
    )  # fmt: skip
    quick = prompt(world)
    return replace(quick, said_at=quick.said_at + LATER)


WORLD = broken()
END = START + DAYS * DAY - HOUR + MARGIN
MOMENTS = instants(WORLD, 3 * HOUR, END)


@contextmanager
def site(folder: Path, clock: str = "live") -> Iterator[Releasing]:
    folder.mkdir()
    text = settings_text(WORLD, exact=False).replace('clock = "history"', f'clock = "{clock}"')
    with Releasing(WORLD, folder, text) as made:
        yield made


def tables(one: Releasing) -> list[ContractTable]:
    """Of every Snapshot, the contract."""
    return [table for body in one.snapshots() for table in decode(body).contracts]


def ends(table: ContractTable) -> int | None:
    """Where the deciding window ends."""
    (window,) = (one for one in table.windows if one.window == table.window)
    return window.decisions.end if window.decisions else None


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Releasing]:
    """After all of it, looked at every three hours by one evaluator that is never disturbed."""
    with site(tmp_path_factory.mktemp("alone") / "store") as one:
        for now in MOMENTS:
            one.until(now)
        yield one


def test_it_is_published_with_its_day_and_long_before_its_labels(alone: Releasing) -> None:
    shown = tables(alone)
    first = next(table for table in shown if table.requests_at_fault)
    (fault,) = first.requests_at_fault
    stratum = Route.AUTO_SERVE, 0.5, Fault.TOO_FEW
    assert fault == RequestsAtFault(*stratum, fault.count, fault.latest)
    assert fault.latest == START + 3 * DAY == ends(first)
    (last,) = shown[-1].requests_at_fault
    assert last == RequestsAtFault(*stratum, last.count, last.latest)
    assert last.count > 3
    newest = max(int(str(row[0])) for row in alone.detection()["cohort"])
    assert (newest + 1) * HOUR < BROKEN, "the cohort has not even had its turn"


def test_it_is_exported(alone: Releasing) -> None:
    snapshot = decode(alone.snapshots()[-1])
    (fault,) = snapshot.contracts[0].requests_at_fault
    page = Renderer(10_000).render(snapshot).plain.decode()
    labels = '{contract="replies",route="auto_serve",audit_rate="0.5",fault="too_few"}'
    assert f"slicewatch_label_request_faults{labels} {fault.count:.1f}\n" in page
    name = "slicewatch_label_request_fault_timestamp_seconds"
    (line,) = (line for line in page.splitlines() if line.startswith(name + labels))
    assert float(line.split()[-1]) == fault.latest / 1e6


def test_nothing_moves_but_at_the_ends_of_days(alone: Releasing) -> None:
    moved = [
        (after.requests_at_fault[0].latest, ends(after))
        for before, after in pairwise(tables(alone))
        if before.requests_at_fault != after.requests_at_fault
    ]
    assert moved == [(START + 3 * DAY,) * 2, (START + 4 * DAY,) * 2]


def test_an_old_store_is_looked_through_from_its_oldest_hour_on(
    alone: Releasing, tmp_path: Path
) -> None:
    """Its check was of another form: what it held is found again, in the same hours."""
    with site(tmp_path / "store") as one:
        for now in MOMENTS[:20]:
            one.until(now)
        with one.engine.begin() as connection:
            query = "UPDATE detector SET body = :body WHERE name = '~requests/replies'"
            assert connection.execute(sa.text(query), {"body": b"old"}).rowcount == 1
        one.restart()
        for now in MOMENTS[20:]:
            one.until(now)
        assert one.detection() == alone.detection()


def test_excluded_hours_are_not_at_fault(tmp_path: Path) -> None:
    """Declared before their turn: the fault lies in them alone."""
    with site(tmp_path / "store") as one:
        bad = Declaration(TimeSpan(BROKEN, BROKEN + 10 * DAY), None, "a test", "somebody")
        add_exclusion(one.engine, bad, START)
        for now in instants(WORLD, 7 * HOUR, END):
            one.until(now)
        assert not any(table.requests_at_fault for table in tables(one))
