"""Releases of weeks and their signatures, on each kind of database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import sqlalchemy as sa
from published_lesson import BOTH, full, lesson

from monitor.core.contract import Severity
from monitor.core.metric import Metric
from monitor.core.publish.act_input import ActInput, Closing
from monitor.core.publish.annotations import Annotation, IncidentKind, Outcome
from monitor.core.publish.incidents import Incident, Stand
from monitor.core.publish.release import (
    Release,
    ReleasedFinding,
    ReleasedIncident,
    Revision,
    Signature,
    StoredReport,
    StoredWeek,
    encode,
    released_incidents,
)
from monitor.core.time import DAY, IsoWeek
from monitor.errors import FencedError
from monitor.store import database as db
from monitor.store.evaluator import weekly_releases
from monitor.store.evaluator.published_values import forget_published
from monitor.store.evaluator.store import Cycle, EvaluatorStore
from monitor.store.evaluator.stored_incidents import IncidentChange, close
from monitor.store.evaluator.weekly_releases import (
    find_revision,
    newest_stored,
    newest_weeks,
    read_signatures,
    stored_report,
    stored_weeks,
)
from monitor.store.upkeep.reported_incidents import reports_between

WEEK = IsoWeek.named("2024-W40")
NEXT = IsoWeek.containing(WEEK.end)
NOW = WEEK.end + DAY
WHO = ActInput("A. Person", "seen")
CHAT = ReleasedIncident(
    *(
        1,
        IncidentKind.BREACH,
        Severity.PAGE,
        "lesson",
        Metric.TPR,
        "channel",
        "channel=chat",
        WEEK.start,
    ),
    *(Stand.OPEN, None, None),
)
FOUND = ReleasedFinding("lesson", "channel", "channel=chat", Annotation.DRIFT, Metric.TPR, WEEK.end)


def revision(number: int, week: IsoWeek = WEEK, completeness: float = 0.98) -> Revision:
    tables = lesson(full("channel=chat", completeness), *BOTH[1:], at=week.end).contracts
    made = Release(week.name, week.start, week.end, tables, (CHAT,), (FOUND,))
    return Revision(week.name, number, week.end + number * DAY, encode(made))


@pytest.fixture
def store(engine: sa.Engine) -> EvaluatorStore:
    return EvaluatorStore(engine, "decisions")


def commit(store: EvaluatorStore, *revisions: Revision) -> None:
    epoch = store.lease.acquire("me", DAY)
    assert epoch is not None
    store.commit(epoch, Cycle(weeks=revisions), NOW)


def signatures(engine: sa.Engine) -> list[Signature]:
    with db.reading(engine) as connection:
        return read_signatures(connection, WEEK.name)


def test_revisions_are_kept_and_the_newest_is_found(store: EvaluatorStore) -> None:
    first, second, other = revision(1), revision(2, completeness=0.99), revision(1, WEEK.before)
    commit(store, first, other)
    commit(store, second)
    assert store.read(find_revision, WEEK.name) == second
    assert store.read(find_revision, WEEK.name, 1) == first
    assert store.read(find_revision, WEEK.name, 3) is None
    assert store.read(find_revision, "2024-W41") is None
    assert store.read(stored_weeks) == [WEEK.before.name, WEEK.name]
    assert first.digest != second.digest


def test_a_week_is_told_from_when_it_was_first_stored(store: EvaluatorStore) -> None:
    assert store.read(newest_stored) is None
    epoch = store.lease.acquire("me", DAY)
    assert epoch is not None
    store.commit(epoch, Cycle(weeks=[revision(1, WEEK.before), revision(1)]), NOW)
    store.commit(epoch, Cycle(weeks=[revision(2, completeness=0.99)]), NOW + DAY)
    assert store.read(newest_stored) == (WEEK.name, NOW)


def test_weeks_are_listed_with_what_is_kept_and_signed(
    store: EvaluatorStore, engine: sa.Engine
) -> None:
    first, second = revision(1), revision(2, completeness=0.99)
    commit(store, revision(1, WEEK.before), first, second)
    signed = weekly_releases.sign(engine, first, WHO, NOW)
    found = store.read(newest_weeks, 9)
    assert found == [
        StoredWeek(WEEK.name, (1, 2), len(second.body), (signed,)),
        StoredWeek(WEEK.before.name, (1,), len(revision(1, WEEK.before).body)),
    ]
    assert store.read(newest_weeks, 1) == found[:1]
    before = revision(1, WEEK.before)
    assert store.read(stored_report, WEEK, 1) == StoredReport(
        first, 2, before, (signed,), None, (before,)
    )
    assert store.read(stored_report, WEEK, 2) == StoredReport(
        second, 2, before, (signed,), first, (before,), last_signed=first
    )
    commit(store, revision(1, NEXT))
    following = store.read(stored_report, NEXT)
    assert following is not None
    assert following.last_signed == first, "of an earlier week, too"
    assert store.read(stored_report, WEEK, 3) is None


def test_an_evaluator_that_was_replaced_releases_nothing(store: EvaluatorStore) -> None:
    epoch = store.lease.acquire("me", DAY)
    assert epoch is not None
    store.lease.release("me")
    assert store.lease.acquire("other", DAY) is not None
    with pytest.raises(FencedError):
        store.commit(epoch, Cycle(weeks=[revision(1)]), NOW)
    assert store.read(stored_weeks) == []


def test_two_who_sign_at_once_are_both_on_record(store: EvaluatorStore, engine: sa.Engine) -> None:
    commit(store, revision(1))
    with ThreadPoolExecutor(4) as threads:
        people = [ActInput(f"person {number}") for number in range(8)]
        list(threads.map(lambda who: weekly_releases.sign(engine, revision(1), who, NOW), people))
    found = signatures(engine)
    assert [one.number for one in found] == list(range(1, 9))
    assert {one.by for one in found} == {who.by for who in people}
    assert {one.digest for one in found} == {revision(1).digest}


def test_forgetting_reaches_every_revision_and_what_was_signed_is_of_other_bytes(
    store: EvaluatorStore, engine: sa.Engine
) -> None:
    commit(store, revision(1), revision(2, completeness=0.99))
    signed = weekly_releases.sign(engine, revision(2, completeness=0.99), WHO, NOW)
    with db.writing(engine) as connection:
        forget_published(connection, {("channel", "chat")})
    for number in (1, 2):
        left = store.read(find_revision, WEEK.name, number)
        assert left is not None
        assert b"channel=chat" not in left.body
        assert left.digest != signed.digest
        assert left.release.findings == ()
        assert left.release.incidents == (replace(CHAT, group_by="", slice="withheld"),)
    assert signatures(engine) == [signed]
    before = store.read(find_revision, WEEK.name)
    with db.writing(engine) as connection:
        forget_published(connection, {("language", None)})
    assert store.read(find_revision, WEEK.name) == before, "nothing of it is there"


def test_incidents_of_a_week_are_those_open_in_it_as_snapshots_showed_them(
    store: EvaluatorStore, engine: sa.Engine
) -> None:
    def page(number: int, since: int, resolved: int | None) -> Incident:
        return Incident(
            number, IncidentKind.BREACH, "lesson", Metric.TPR, since, NOW, "channel", "channel=fax",
            crossings=(number,), resolved_at=resolved,
        )  # fmt: skip

    before, inside, after = WEEK.start - DAY, WEEK.start + DAY, WEEK.end + DAY
    spans = [
        (before, WEEK.start), (before, inside), (before, None), (inside, inside + DAY),
        (inside, after), (after, None),
    ]  # fmt: skip
    opened = tuple(page(number, *span) for number, span in enumerate(spans, 1))
    epoch = store.lease.acquire("me", DAY)
    assert epoch is not None
    store.commit(epoch, Cycle(incidents=IncidentChange(opened)), NOW)
    close(engine, 3, Closing(Outcome.NOT_REAL), WHO, NOW)
    found = released_incidents(WEEK, reports_between(engine, WEEK.start, WEEK.end, NOW))
    assert [one.id for one in found] == [2, 3, 4, 5]
    assert [one.state for one in found] == [
        Stand.RESOLVED, Stand.CLOSED, Stand.RESOLVED, Stand.RESOLVED,
    ]  # fmt: skip
    assert found[1].outcome is Outcome.NOT_REAL
    assert {one.slice for one in found} == {"withheld"}, "no Snapshot showed it"


def test_of_an_old_week_first_newest_and_signed_revisions_stay(
    store: EvaluatorStore, engine: sa.Engine
) -> None:
    numbers = range(1, 7)
    commit(store, *(revision(one, completeness=0.9 + one / 100) for one in numbers))
    commit(store, *(revision(one, WEEK.before) for one in (1, 2, 3)))
    for one in (2, 4):
        weekly_releases.sign(engine, revision(one, completeness=0.9 + one / 100), WHO, NOW)

    def kept() -> list[tuple[str, tuple[int, ...]]]:
        return [(one.week, one.revisions) for one in store.read(newest_weeks, 9)]

    weekly_releases.thin_before(engine, WEEK.end)
    assert kept() == [(WEEK.name, tuple(numbers)), (WEEK.before.name, (1, 3))]
    for _ in range(2):
        weekly_releases.thin_before(engine, WEEK.end + 1)
        assert kept() == [(WEEK.name, (1, 2, 4, 6)), (WEEK.before.name, (1, 3))]
    stored = store.read(stored_report, WEEK)
    assert stored is not None
    assert stored.earlier is not None
    assert (stored.newest, stored.earlier.number) == (6, 4)


def test_weeks_are_deleted_when_they_are_too_old(store: EvaluatorStore, engine: sa.Engine) -> None:
    commit(store, revision(1), revision(1, WEEK.before))
    weekly_releases.sign(engine, revision(1), WHO, NOW)
    weekly_releases.delete_before(engine, WEEK.end)
    assert store.read(stored_weeks) == [WEEK.name]
    weekly_releases.delete_before(engine, WEEK.end + 1)
    assert store.read(stored_weeks) == []
    assert signatures(engine) == []


def test_the_weeks_before_are_read_by_their_newest_revisions(
    engine: sa.Engine, store: EvaluatorStore
) -> None:
    first, second, third = WEEK.before.before.before, WEEK.before.before, WEEK.before
    commit(store, revision(1, first), revision(1, third), revision(2, third), revision(1))
    with db.reading(engine) as connection:
        found = weekly_releases.weeks_before(connection, WEEK, 3)
        assert [(one.week, one.number) for one in found] == [(first.name, 1), (third.name, 2)]
        assert [one.week for one in weekly_releases.weeks_before(connection, WEEK, 1)] == [
            third.name
        ]
        assert weekly_releases.weeks_before(connection, first, 51) == []
    assert second.name not in {one.week for one in found}
