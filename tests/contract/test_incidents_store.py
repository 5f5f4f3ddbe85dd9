"""Incidents, and what people said of them: written as the evaluator and people do, on each kind."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import sqlalchemy as sa

from monitor.core.contract import COMPLEMENT, Severity
from monitor.core.counts.coding import Attribute, Coding, CodingHistory
from monitor.core.metric import Metric
from monitor.core.publish.act_input import ActInput, Closing
from monitor.core.publish.annotations import IncidentKind, Outcome, Share, Stage
from monitor.core.publish.incidents import Act, Action, Incident, Stand, standing
from monitor.core.publish.snapshot import (
    WITHHELD,
    ContractTable,
    PublishedValue,
    ShownIncident,
    ShownStage,
    SliceRow,
    Snapshot,
    WindowTable,
    decode,
    encode,
)
from monitor.core.time import DAY, HOUR
from monitor.detection.pages.streams import Direction, Stream, StreamKind
from monitor.errors import FencedError, StoreError
from monitor.store import database as db
from monitor.store.codings import write_eras
from monitor.store.evaluator.records import RecordStore
from monitor.store.evaluator.store import Cycle, EvaluatorStore
from monitor.store.evaluator.stored_detection import Crossing, DetectionChange, read_detection
from monitor.store.evaluator.stored_incidents import (
    Acts,
    IncidentChange,
    StoredIncidents,
    acknowledge,
    close,
    find_incident,
    read_acts,
    read_incidents,
    read_standing,
)
from monitor.store.schema import incident, incident_act, incident_crossing, incident_stream
from monitor.store.upkeep import retention
from monitor.store.upkeep.recode import drop_unlisted
from monitor.store.upkeep.retention_guard import RetentionPolicy

HOUR0 = 480_000
T0 = HOUR0 * HOUR
NOW = T0 + 2 * HOUR
CHAT = Stream(
    "replies", "channel", Metric.TPR, StreamKind.GAP, "channel=chat", COMPLEMENT,
    Direction.SLICE_WORSE, Fraction("0.10"),
)  # fmt: skip
FAX = replace(CHAT, slice="channel=fax")
PLAIN = replace(CHAT, group_by="tone", slice="tone=plain")
STREAMS = (CHAT, FAX, PLAIN)
SHOWN = PublishedValue(0.22, 0.15, 0.29, T0)
WHO = ActInput("triage", "looking")
FIXED = Closing(Outcome.FIXED)


def page(number: int, *crossings: int, of: Stream = CHAT) -> Incident:
    return Incident(
        number, IncidentKind.BREACH, of.contract, of.metric, T0, NOW, of.group_by, of.slice,
        crossings=crossings,
    )  # fmt: skip


def ticket(number: int, *streams: Stream) -> Incident:
    keys = tuple(sorted(stream.key for stream in streams))
    return replace(page(number, of=streams[0]), kind=IncidentKind.LISTED, streams=keys)


def crossings(*streams: Stream) -> DetectionChange:
    numbered = enumerate(streams, 1)
    return DetectionChange(
        opened=[Crossing(number, stream.key, HOUR0, True, T0, T0) for number, stream in numbered]
    )


@pytest.fixture
def store(engine: sa.Engine) -> EvaluatorStore:
    return EvaluatorStore(engine, "decisions")


def commit(store: EvaluatorStore, cycle: Cycle) -> int | None:
    epoch = store.lease.acquire("me", DAY)
    assert epoch is not None
    return store.commit(epoch, cycle, NOW)


def change(
    store: EvaluatorStore,
    *opened: Incident,
    changed: tuple[Incident, ...] = (),
    detection: DetectionChange | None = None,
) -> None:
    detection = detection or DetectionChange()
    commit(store, Cycle(detection=detection, incidents=IncidentChange(opened, changed)))


def everything(engine: sa.Engine) -> list[Incident]:
    with db.reading(engine) as connection:
        return read_incidents(connection, resolved=True)


def acts_of(engine: sa.Engine, number: int) -> tuple[Act, ...]:
    with db.reading(engine) as connection:
        return read_acts(connection, incident.c.id == number).get(number, ())


def acts(store: EvaluatorStore) -> Acts:
    return store.read(read_acts)


# The evaluator's side


def test_nothing_has_happened_yet(engine: sa.Engine, store: EvaluatorStore) -> None:
    assert store.read(read_standing) == StoredIncidents((), 1)
    assert (acts(store), everything(engine)) == ({}, [])
    change(store)
    assert store.read(read_standing) == StoredIncidents((), 1)


def test_incidents_are_read_as_they_were_opened(engine: sa.Engine, store: EvaluatorStore) -> None:
    full = replace(
        page(1, 1, 2), share=Share.ABOUT_HALF, first=SHOWN, versions_changed_at=T0 - HOUR,
        settings_changed_at=T0 - DAY,
    )  # fmt: skip
    coded = replace(page(2, 3, of=PLAIN), first=PublishedValue(None, None, 0.3, T0))
    listed = ticket(3, FAX, PLAIN)
    change(store, full, coded, listed, detection=crossings(*STREAMS))
    assert store.read(read_standing) == StoredIncidents((full, coded, listed), 4)
    with db.reading(engine) as connection:
        assert find_incident(connection, 2) == coded
        assert find_incident(connection, 4) is None


def test_what_changes_while_it_stands_is_written(engine: sa.Engine, store: EvaluatorStore) -> None:
    change(store, page(1, 1), ticket(2, CHAT, FAX), detection=crossings(*STREAMS))
    refined = replace(
        page(1, 1, 3), group_by="tone", slice="tone=plain", share=Share.MOST, first=SHOWN
    )
    fewer = replace(ticket(2, CHAT, FAX), streams=(FAX.key,))
    change(store, changed=(refined, fewer))
    assert store.read(read_standing) == StoredIncidents((refined, fewer), 3)
    over = replace(refined, resolved_at=T0 + DAY)
    change(store, changed=(over,))
    assert store.read(read_standing) == StoredIncidents((fewer,), 3)
    assert everything(engine) == [over, fewer]


def test_identity_and_opening_never_change(engine: sa.Engine, store: EvaluatorStore) -> None:
    change(store, page(1, 1), detection=crossings(CHAT))
    other = replace(
        page(1, 1), kind=IncidentKind.LISTED, contract="another", metric=Metric.FPR, opened_at=0,
        opened_wall=0, snapshot=77,
    )  # fmt: skip
    change(store, changed=(other,))
    assert everything(engine) == [page(1, 1)]


@pytest.mark.parametrize("second", [page(1, 2), page(2, 1)], ids=["id", "crossing"])
def test_an_id_is_given_once_and_a_crossing_has_one_incident(
    engine: sa.Engine, store: EvaluatorStore, second: Incident
) -> None:
    change(store, page(1, 1), detection=crossings(CHAT, FAX))
    with pytest.raises(StoreError):
        change(store, second, detection=DetectionChange(parts={"pages": b"1"}))
    assert everything(engine) == [page(1, 1)]
    assert store.read(read_detection).parts == {}, "nothing of that cycle is left"


def test_who_was_overtaken_opens_none(engine: sa.Engine, store: EvaluatorStore) -> None:
    with pytest.raises(FencedError):
        store.commit(7, Cycle(incidents=IncidentChange([page(1)])), NOW)
    assert everything(engine) == []


# The Snapshot it leads to


def shown(number: int, of: Stream = CHAT, text: str | None = None) -> ShownIncident:
    group_by, slice_ = (of.group_by, of.slice) if text is None else ("", text)
    inherited = (FAX.slice, PLAIN.slice)
    return ShownIncident(
        number, IncidentKind.BREACH, Severity.PAGE, of.metric, T0, group_by, slice_, Share.MOST,
        inherited,
        first=SHOWN, latest=SHOWN, stage=ShownStage(Stage.SCORE, Share.MOST),
        further=(*inherited, WITHHELD),
    )  # fmt: skip


def telling(*incidents: ShownIncident, watermark: int = T0) -> Snapshot:
    total = WindowTable("7d", SliceRow("", {}), ())
    table = ContractTable(
        "replies", "1", "team", False, 11, "7d", {}, {}, {}, {}, (total,), incidents=incidents
    )
    return Snapshot(watermark, None, (table,))


def test_it_leads_to_the_snapshot_that_first_told_of_it(store: EvaluatorStore) -> None:
    change(store, page(1, 1), page(2, 2), detection=crossings(CHAT, FAX))
    assert commit(store, Cycle()) is None
    assert commit(store, Cycle(snapshot=telling())) == 1
    assert commit(store, Cycle(snapshot=telling(shown(2)))) == 2
    assert commit(store, Cycle(snapshot=telling(shown(1), shown(2)))) == 3
    assert [one.snapshot for one in store.read(read_standing).standing] == [3, 2]


def test_a_snapshot_is_found_by_its_number(engine: sa.Engine, store: EvaluatorStore) -> None:
    first, second = telling(), telling(shown(1))
    for one in (first, second):
        commit(store, Cycle(snapshot=one))
    found = RecordStore(engine).snapshot_at
    assert [found(number) for number in (1, 2, 3)] == [encode(first), encode(second), None]


# People's side


def test_acts_are_kept_as_they_were_said(engine: sa.Engine, store: EvaluatorStore) -> None:
    change(store, page(1, 1), page(2, 2), detection=crossings(CHAT, FAX))
    accepted = Closing(Outcome.ACCEPTED, NOW + 9 * DAY)
    assert acknowledge(engine, 2, WHO, NOW) == Act(1, NOW, Action.ACK, "triage", note="looking")
    close(engine, 2, accepted, ActInput("the officer"), NOW + 1)
    close(engine, 2, FIXED, WHO, NOW + 2)
    expected = (
        Act(1, NOW, Action.ACK, "triage", note="looking"),
        Act(2, NOW + 1, Action.CLOSE, "the officer", Outcome.ACCEPTED, NOW + 9 * DAY),
        Act(3, NOW + 2, Action.CLOSE, "triage", Outcome.FIXED, note="looking"),
    )
    assert acts(store) == {2: expected}
    acknowledge(engine, 1, WHO, NOW)
    assert acts(store)[1][0].number == 1, "each incident has numbers of its own"


def test_the_evaluator_reads_what_stands_alone(engine: sa.Engine, store: EvaluatorStore) -> None:
    change(store, page(1, 1), page(2, 2), detection=crossings(CHAT, FAX))
    for number in (1, 2):
        acknowledge(engine, number, WHO, NOW)
    change(store, changed=(replace(page(1, 1), resolved_at=T0),))
    assert list(acts(store)) == [2]
    assert len(acts_of(engine, 1)) == 1


def test_what_is_over_cannot_be_closed_but_noted(engine: sa.Engine, store: EvaluatorStore) -> None:
    change(store, page(1, 1), page(2, 2), detection=crossings(CHAT, FAX))
    close(engine, 1, FIXED, WHO, NOW)
    with pytest.raises(StoreError, match=r"incident 1 was closed at \d{4}-.*Z already"):
        close(engine, 1, Closing(Outcome.NOT_REAL), WHO, NOW)
    change(store, changed=(replace(page(2, 2), resolved_at=T0),))
    with pytest.raises(StoreError, match=r"incident 2 was resolved at \d{4}-.*Z already"):
        close(engine, 2, Closing(Outcome.ACCEPTED, NOW + DAY), WHO, NOW)
    acknowledge(engine, 2, WHO, NOW)
    assert [len(acts_of(engine, number)) for number in (1, 2)] == [1, 1]


def test_what_there_is_not_is_refused(engine: sa.Engine) -> None:
    told = r"there is no incident 5; .* slicewatch incident list --all"
    with pytest.raises(StoreError, match=told):
        acknowledge(engine, 5, WHO, NOW)
    with pytest.raises(StoreError, match=told):
        close(engine, 5, FIXED, WHO, NOW)


def test_of_two_at_once_both_are_kept(engine: sa.Engine, store: EvaluatorStore) -> None:
    change(store, page(1, 1), detection=crossings(CHAT))
    people = [f"person {number}" for number in range(8)]
    together = threading.Barrier(len(people))

    def act(who: str) -> Act:
        together.wait(60)
        return acknowledge(engine, 1, ActInput(who), NOW)

    with ThreadPoolExecutor(len(people)) as pool:
        done = list(pool.map(act, people))
    assert sorted(one.number for one in done) == list(range(1, 9))
    assert sorted(one.by for one in acts_of(engine, 1)) == people


def test_of_two_who_close_at_once_one_is_told(engine: sa.Engine, store: EvaluatorStore) -> None:
    change(store, page(1, 1), detection=crossings(CHAT))
    together = threading.Barrier(4)

    def act(outcome: Outcome) -> str:
        together.wait(60)
        try:
            close(engine, 1, Closing(outcome), WHO, NOW)
        except StoreError as error:
            return str(error)
        return ""

    outcomes = [Outcome.FIXED, Outcome.NOT_REAL, Outcome.BAD_DATA, Outcome.FIXED]
    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(act, outcomes))
    assert said.count("") == 1
    assert all("was closed at" in text for text in said if text)
    (kept,) = acts_of(engine, 1)
    assert kept.outcome is outcomes[said.index("")]


def test_a_cycle_and_people_hold_nobody_up(engine: sa.Engine, store: EvaluatorStore) -> None:
    """Both write the same incident, over and over; nothing of either is lost."""
    change(store, page(1, 1), detection=crossings(CHAT))
    rounds = 20
    together = threading.Barrier(2)

    def evaluate() -> None:
        together.wait(60)
        for number in range(rounds):
            change(store, changed=(replace(page(1, 1), versions_changed_at=number),))

    def acknowledges() -> None:
        together.wait(60)
        for number in range(rounds):
            acknowledge(engine, 1, ActInput(str(number)), NOW)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(evaluate), pool.submit(acknowledges)]:
            done.result()
    assert [one.versions_changed_at for one in everything(engine)] == [rounds - 1]
    assert [one.by for one in acts(store)[1]] == [str(number) for number in range(rounds)]


# Retention


POLICY = RetentionPolicy(
    horizon=3 * DAY, aggregates=60 * DAY, dead_letters=DAY, snapshots=30 * DAY, dedupe_window=0
)


def rows(engine: sa.Engine, table: sa.Table) -> set[int]:
    with db.reading(engine) as connection:
        column = table.c.id if table is incident else table.c.incident
        return set(connection.execute(sa.select(column)).scalars())


def test_incidents_go_long_after_they_were_resolved_with_all_that_is_theirs(
    engine: sa.Engine, store: EvaluatorStore
) -> None:
    edge = NOW - 60 * DAY
    ends = [edge - 1, None, edge, edge - 5 * DAY]
    opened = [
        replace(ticket(number, CHAT), crossings=(number,), resolved_at=end)
        for number, end in enumerate(ends, 1)
    ]
    change(store, *opened)
    for number in range(1, 5):
        acknowledge(engine, number, WHO, NOW)
    retention.apply(engine, POLICY, NOW, NOW)
    assert rows(engine, incident) == {2, 3, 4}
    for table in (incident_act, incident_crossing, incident_stream):
        assert rows(engine, table) == {2, 3}, table.name
    assert store.read(read_standing).next_id == 5, "the newest stays: no id is given twice"


def test_a_snapshot_that_an_incident_leads_to_stays(
    engine: sa.Engine, store: EvaluatorStore
) -> None:
    """Between two hours, and beyond its own time: as long as the incident is known."""
    change(store, page(1, 1), page(2, 2), detection=crossings(CHAT, FAX))
    bodies = [telling(), telling(shown(1)), telling(shown(1), shown(2)), telling(shown(2))]
    for body in bodies:
        commit(store, Cycle(snapshot=body))
    change(store, changed=(replace(page(1, 1), resolved_at=NOW),))

    def left() -> list[int]:
        found = RecordStore(engine).snapshot_at
        return [number for number in range(1, 6) if found(number) is not None]

    assert left() == [1, 2, 3, 4]
    retention.apply(engine, POLICY, NOW, NOW)
    assert left() == [2, 3, 4], "the last of its hour, and what leads to the others"
    commit(store, Cycle(snapshot=telling()))
    retention.apply(engine, POLICY, NOW + 50 * DAY, NOW + 50 * DAY)
    assert left() == [2, 3, 5]
    retention.apply(engine, POLICY, NOW + 61 * DAY, NOW + 61 * DAY)
    assert left() == [3, 5], "the first of them is gone"


# Removal


FULL = Coding((Attribute("channel", ("chat", "fax")), Attribute("tone", ("plain",))))
FEWER = Coding((Attribute("channel", ("chat",)), Attribute("tone", ("plain",))))


def test_what_is_listed_no_more_is_named_by_no_incident(
    engine: sa.Engine, store: EvaluatorStore
) -> None:
    """That there was one stays known; not of whom."""
    with db.writing(engine) as connection:
        write_eras(connection, CodingHistory.always(FULL))
    full = [
        replace(page(1, 1), share=Share.MOST, first=SHOWN, further=(FAX.slice, PLAIN.slice)),
        replace(page(2, 2, of=FAX), share=Share.SOME, first=SHOWN, further=(CHAT.slice,)),
        replace(page(3, 2 + 1, of=PLAIN), resolved_at=T0 + DAY),
        ticket(4, FAX),
        ticket(5, CHAT, FAX),
    ]
    change(store, *full, detection=crossings(*STREAMS))
    acknowledge(engine, 2, WHO, NOW)
    commit(store, Cycle(snapshot=telling(shown(1), shown(2, FAX), shown(3, FAX, WITHHELD))))
    assert drop_unlisted(engine, FEWER) == ("channel=fax",)
    nameless: dict[str, Any] = {"group_by": None, "slice": None, "share": None, "first": None}
    nameless["further"] = ()
    told: dict[str, Any] = {"snapshot": 1}
    assert everything(engine) == [
        replace(full[0], **told, further=(PLAIN.slice,)),
        replace(full[1], **nameless, **told, resolved_at=T0),
        replace(full[2], **told),
        replace(full[3], **nameless, streams=(), resolved_at=T0),
        replace(full[4], streams=(CHAT.key,)),
    ]
    assert len(acts_of(engine, 2)) == 1
    body = RecordStore(engine).snapshot_at(1)
    assert body is not None
    first, second, third = decode(body).contracts[0].incidents
    left: dict[str, Any] = {"inherited": (PLAIN.slice,), "further": (PLAIN.slice, WITHHELD)}
    assert first == replace(shown(1), **left)
    hidden: dict[str, Any] = {"group_by": "", "slice": WITHHELD, "share": None, "stage": None}
    without = replace(first, id=2, **hidden, first=None, latest=None)
    assert second == without
    assert third == replace(shown(3, FAX, WITHHELD), **left)
    assert b"fax" not in body


def test_an_incident_whose_crossings_stand_goes_on_without_a_name(
    engine: sa.Engine, store: EvaluatorStore
) -> None:
    with db.writing(engine) as connection:
        write_eras(connection, CodingHistory.always(FULL))
    change(store, replace(page(1, 1, 2), slice="channel=fax"), detection=crossings(CHAT, FAX))
    drop_unlisted(engine, FEWER)
    (left,) = store.read(read_standing).standing
    assert (left.slice, left.crossings, left.resolved_at) == (None, (1, 2), None)
    assert standing(left, (), NOW).state is Stand.OPEN
