"""Known-bad data on record: ids without gaps, spans by version, taken back without a trace lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from monitor.core.counts.cells import content_id
from monitor.core.time import DAY, HOUR, MINUTE, Grain, TimeSpan
from monitor.errors import StoreError
from monitor.store import database as db
from monitor.store.exclusions import (
    Declaration,
    Exclusion,
    add_exclusion,
    excluded_spans,
    lift_exclusion,
    read_exclusions,
)
from monitor.store.schema import COUNTER_COLUMNS, cell, counts, version

T0 = 480_000 * HOUR
NOW = T0 + 30 * HOUR
GOOD, BAD = "judge=1,threshold=0.7", "judge=2,threshold=0.7"


def declare(
    start: int = T0, end: int = T0 + HOUR, text: str | None = None, reason: str = "a test"
) -> Declaration:
    return Declaration(TimeSpan(start, end), text, reason, "somebody")


def spans(engine: sa.Engine) -> tuple[TimeSpan, ...]:
    with db.reading(engine) as connection:
        return excluded_spans(connection)


def on_record(engine: sa.Engine) -> list[Exclusion]:
    with db.reading(engine) as connection:
        return read_exclusions(connection)


def count(
    engine: sa.Engine, text: str, *hours: int, n: int = 5, q: int = 0, grain: int = Grain.HOUR
) -> None:
    """Counts of a version in these hours after T0, in two cells."""
    with db.writing(engine) as connection:
        known = connection.execute(sa.select(version.c.text)).scalars().all()
        if text not in known:
            connection.execute(sa.insert(version).values(id=content_id(text), text=text))
        for stratum in (0, 1):
            key = content_id(f"{text}/{stratum}/{n}/{q}")
            row = {"id": key, "atom": 1, "version": content_id(text), "stratum": stratum}
            if not connection.execute(sa.select(cell).where(cell.c.id == key)).first():
                connection.execute(sa.insert(cell).values(row))
            for hour in hours:
                values = dict.fromkeys(COUNTER_COLUMNS, 0) | {"n": n, "q": q}
                where = {"grain": int(grain), "pane": T0 // grain + hour, "cell": key}
                connection.execute(sa.insert(counts).values(where | values))


def test_what_is_declared_is_kept_as_it_was_said(engine: sa.Engine) -> None:
    first, second = declare(reason="one"), declare(T0 + 7, T0 + 8, reason="two")
    assert add_exclusion(engine, first, NOW) == Exclusion(1, first, NOW)
    assert add_exclusion(engine, second, NOW + 1).id == 2
    assert on_record(engine) == [Exclusion(1, first, NOW), Exclusion(2, second, NOW + 1)]
    assert spans(engine) == (first.span, second.span)


def test_without_a_version_the_span_is_what_was_declared(engine: sa.Engine) -> None:
    count(engine, GOOD, 0)
    add_exclusion(engine, declare(T0 + MINUTE, T0 + 9 * HOUR + 1), NOW)
    assert spans(engine) == (TimeSpan(T0 + MINUTE, T0 + 9 * HOUR + 1),)


def test_lifting_takes_it_back_and_keeps_the_row(engine: sa.Engine) -> None:
    for _ in range(3):
        add_exclusion(engine, declare(), NOW)
    lifted = lift_exclusion(engine, 2, NOW + 5)
    assert lifted == Exclusion(2, declare(), NOW, NOW + 5)
    assert [one.lifted_at for one in on_record(engine)] == [None, NOW + 5, None]
    assert len(spans(engine)) == 2
    assert add_exclusion(engine, declare(), NOW).id == 4, "no id is given away twice"


def test_what_is_not_in_force_cannot_be_lifted(engine: sa.Engine) -> None:
    with pytest.raises(
        StoreError, match=r"there is no exclusion 1; .* slicewatch db exclude --list"
    ):
        lift_exclusion(engine, 1, NOW)
    add_exclusion(engine, declare(), NOW)
    lift_exclusion(engine, 1, NOW)
    with pytest.raises(StoreError, match=r"exclusion 1 was lifted at \d{4}-.*Z already"):
        lift_exclusion(engine, 1, NOW + HOUR)
    assert [one.lifted_at for one in on_record(engine)] == [NOW]


def test_of_a_version_the_hours_in_which_it_decided(engine: sa.Engine) -> None:
    count(engine, BAD, 0, 2, 3, 4, 8)
    count(engine, GOOD, *range(12))
    add_exclusion(engine, declare(T0, T0 + 9 * HOUR, BAD), NOW)
    assert spans(engine) == (
        TimeSpan(T0, T0 + HOUR),
        TimeSpan(T0 + 2 * HOUR, T0 + 5 * HOUR),
        TimeSpan(T0 + 8 * HOUR, T0 + 9 * HOUR),
    )


def test_of_a_version_nothing_beyond_what_was_declared(engine: sa.Engine) -> None:
    count(engine, BAD, *range(6))
    start, end = T0 + HOUR + 20 * MINUTE, T0 + 4 * HOUR + MINUTE
    add_exclusion(engine, declare(start, end, BAD), NOW)
    assert spans(engine) == (TimeSpan(start, end),)
    lift_exclusion(engine, 1, NOW)
    add_exclusion(engine, declare(T0 + HOUR, T0 + 2 * HOUR, BAD), NOW)
    assert spans(engine) == (TimeSpan(T0 + HOUR, T0 + 2 * HOUR),), "the end is exclusive"


def test_a_version_that_decided_nothing_excludes_nothing(engine: sa.Engine) -> None:
    """Only decisions count: neither labels, nor rows that became zero, nor other grains."""
    count(engine, BAD, 0, n=0, q=3)
    count(engine, BAD, 12, grain=Grain.MINUTES5)
    add_exclusion(engine, declare(T0, T0 + 3 * HOUR, BAD), NOW)
    assert spans(engine) == ()
    count(engine, BAD, 1)
    assert spans(engine) == (TimeSpan(T0 + HOUR, T0 + 2 * HOUR),), "what is counted later counts"


def test_where_no_hour_of_a_day_is_kept_a_version_excludes_the_day(engine: sa.Engine) -> None:
    """Or windows of four weeks would have the bad data again once retention is past its hours."""
    count(engine, BAD, 0, 1, 2, 4, grain=Grain.DAY)
    count(engine, GOOD, 3, grain=Grain.DAY)
    count(engine, BAD, 2 * 24 + 5)
    add_exclusion(engine, declare(T0 + 20 * HOUR, T0 + 4 * DAY, BAD), NOW)
    assert spans(engine) == (
        TimeSpan(T0 + 20 * HOUR, T0 + 2 * DAY),
        TimeSpan(T0 + 2 * DAY + 5 * HOUR, T0 + 2 * DAY + 6 * HOUR),
    )


def test_an_unknown_version_is_refused_by_naming_the_known(engine: sa.Engine) -> None:
    with pytest.raises(StoreError, match="there are: none, nothing was counted yet"):
        add_exclusion(engine, declare(text=BAD), NOW)
    count(engine, GOOD)
    with pytest.raises(StoreError) as caught:
        add_exclusion(engine, declare(text=BAD), NOW)
    assert str(caught.value) == f"--version: no such version was counted; there are: {GOOD}"
    for number in range(14):
        count(engine, f"judge=m{number:02}")
    with pytest.raises(StoreError, match=r"judge=m08; and 5 more$"):
        add_exclusion(engine, declare(text=BAD), NOW)
    assert on_record(engine) == []


def test_two_who_declare_at_once_both_get_an_id(engine: sa.Engine) -> None:
    together = threading.Barrier(4)

    def add(number: int) -> int:
        together.wait(60)
        return add_exclusion(engine, declare(reason=str(number)), NOW).id

    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(add, range(4)))
    assert sorted(ids) == [1, 2, 3, 4]
    assert {one.id: one.declared.reason for one in on_record(engine)} == {
        key: str(number) for number, key in enumerate(ids)
    }


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)  # SQLite never waits
def test_who_evaluates_is_not_held_up(engine: sa.Engine) -> None:
    with db.writing(engine) as connection:
        connection.execute(sa.text("LOCK TABLE exclusion IN SHARE ROW EXCLUSIVE MODE"))
        assert spans(engine) == ()
