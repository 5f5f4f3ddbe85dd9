"""What pages read of a store: the newest state, an older one, history, incidents, the pipeline."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
import sqlalchemy as sa
from published_lesson import BOTH, CODED, GAP, SHOWN, T0, full, hidden, lesson
from served_site import TOPICS, publish

from monitor.core.contract import Severity
from monitor.core.metric import Metric
from monitor.core.publish.act_input import ActInput, Closing
from monitor.core.publish.annotations import IncidentKind, Outcome
from monitor.core.publish.history import SliceKey
from monitor.core.publish.incidents import Incident, Stand
from monitor.core.publish.snapshot import WITHHELD, LimitKind, OwnLimit, ShownIncident, Snapshot
from monitor.core.state import State
from monitor.core.time import DAY, HOUR, MINUTE, SECOND, to_datetime
from monitor.errors import StoreError
from monitor.records import Shard
from monitor.store.database import writing
from monitor.store.evaluator.stored_incidents import IncidentChange
from monitor.store.schema import ownership
from monitor.store.upkeep.published_reader import PublishedReader

CHAT = SliceKey("lesson", "7d", "channel", "channel=chat", Metric.TPR)
NOW = T0 + HOUR


@pytest.fixture
def reader(engine: sa.Engine) -> PublishedReader:
    return PublishedReader(engine, TOPICS)


def test_at_first_there_is_nothing(reader: PublishedReader) -> None:
    assert (reader.newest(), reader.at(NOW), reader.history(CHAT)) == (None, None, [])
    assert (reader.incidents(NOW, 9), reader.incident(1, NOW)) == ([], None)
    found = reader.pipeline()
    assert [(t.topic, t.partitions, t.flushed_at) for t in found.topics] == [
        ("decisions", 0, None),
        ("labels", 0, None),
    ]
    assert (found.newest_decision, found.stored_at) == (None, None)


def test_the_newest_and_the_one_of_a_time(engine: sa.Engine, reader: PublishedReader) -> None:
    first, second = lesson(*BOTH), lesson(full("channel=chat", 0.5), at=T0 + DAY)
    publish(engine, first, NOW)
    assert reader.newest() == (1, first)
    publish(engine, second, NOW + DAY)
    assert reader.newest() == reader.newest() == (2, second)
    assert reader.at(T0 - 1) is None
    assert reader.at(T0) == reader.at(T0 + DAY - 1) == (1, first)
    assert reader.at(T0 + 99 * DAY) == (2, second)


def test_history_has_the_last_publication_of_each_day_as_it_was_shown(
    engine: sa.Engine, reader: PublishedReader
) -> None:
    publish(engine, lesson(full("channel=chat", 0.5)), NOW)
    publish(engine, lesson(*BOTH, at=T0 + 2 * HOUR), NOW + 2 * HOUR)  # the same day
    later = lesson(hidden("channel=chat"), at=T0 + 2 * DAY)
    publish(engine, _with_version(later, "4"), NOW + 2 * DAY)

    shown, withheld = reader.history(CHAT)
    assert (shown.day, withheld.day) == (date(2024, 10, 4), date(2024, 10, 6))
    assert (shown.version, withheld.version) == ("3", "4")
    assert shown.ends_at == to_datetime(T0 + 2 * HOUR)
    assert (shown.value, shown.lower, shown.upper, shown.support) == (
        *(SHOWN.value, SHOWN.lower, SHOWN.upper, SHOWN.support),
    )
    assert (shown.gap, shown.gap_lower, shown.gap_upper) == (GAP.value, GAP.lower, GAP.upper)
    assert (shown.limit, shown.state, shown.reference) == (0.1, State.INCONCLUSIVE, GAP.reference)
    assert withheld.state is State.SUPPRESSED
    assert {withheld.value, withheld.lower, withheld.upper, withheld.support, withheld.gap} == {
        None
    }

    (coded, _) = reader.history(replace(CHAT, metric=Metric.SELECTION))
    assert (coded.value, coded.at_least, coded.limit) == (None, CODED.at_least, None)
    for other in (
        replace(CHAT, slice="channel=fax"),
        replace(CHAT, window="24h"),
        replace(CHAT, contract="other"),
        replace(CHAT, group_by=""),
    ):
        assert reader.history(other) == []
    assert reader.history(replace(CHAT, group_by="", slice=""))[0].value == SHOWN.value


def test_history_has_the_limit_of_the_slice(engine: sa.Engine, reader: PublishedReader) -> None:
    snapshot = lesson(*BOTH)
    own = OwnLimit("channel", "channel=chat", Metric.TPR, LimitKind.MAX_GAP, 0.05)
    publish(
        engine,
        replace(snapshot, contracts=(replace(snapshot.contracts[0], own_limits=(own,)),)),
        NOW,
    )
    assert [one.limit for one in reader.history(CHAT)] == [0.05]
    assert [one.limit for one in reader.history(replace(CHAT, slice="channel=email"))] == [0.1]


def test_trends_have_the_shown_rates_of_four_weeks(
    engine: sa.Engine, reader: PublishedReader
) -> None:
    assert reader.trends("lesson", "7d", Metric.TPR) == {}
    for day in range(30):
        row = hidden("channel=chat") if day == 10 else full("channel=chat")
        publish(engine, lesson(row, hidden("channel=email"), at=T0 + day * DAY), NOW + day * DAY)
    trends = reader.trends("lesson", "7d", Metric.TPR)
    assert set(trends) == {("", ""), ("channel", "channel=chat")}, "nothing of a hidden slice"
    first = date(2024, 10, 4)
    days = [first + timedelta(days=day) for day in range(2, 30) if day != 10]
    assert trends["channel", "channel=chat"] == [(day, SHOWN.value) for day in days]
    assert reader.trends("lesson", "24h", Metric.TPR) == {}
    assert reader.trends("other", "7d", Metric.TPR) == {}


def _with_version(snapshot: Snapshot, version: str) -> Snapshot:
    (table,) = snapshot.contracts
    return replace(snapshot, contracts=(replace(table, version=version),))


def incident(number: int) -> Incident:
    return Incident(
        *(number, IncidentKind.BREACH, "lesson", Metric.TPR, T0 - DAY, NOW, "channel"),
        "channel=email",
    )


def with_incident(number: int, slice_: str) -> Snapshot:
    snapshot = lesson(*BOTH)
    shown = ShownIncident(
        *(number, IncidentKind.BREACH, Severity.PAGE, Metric.TPR, T0 - DAY),
        "" if slice_ == WITHHELD else "channel",
        slice_,
    )
    (table,) = snapshot.contracts
    return replace(snapshot, contracts=(replace(table, incidents=(shown,)),))


def test_incidents_are_shown_as_the_snapshot_shows_them_and_acts_are_kept(
    engine: sa.Engine, reader: PublishedReader
) -> None:
    publish(engine, with_incident(1, WITHHELD), NOW, IncidentChange([incident(1)]))
    (one,) = reader.incidents(NOW, 9)
    assert (one.slice, one.state) == (WITHHELD, Stand.OPEN), "the store knows more, and says less"

    reader.acknowledge(1, ActInput("triage", "looking"), NOW)
    found = reader.incident(1, NOW)
    assert found is not None
    assert (found.state, found.by, found.acts[0].note) == (Stand.ACKNOWLEDGED, "triage", "looking")
    reader.close(1, Closing(Outcome.FIXED), ActInput("triage"), NOW)
    (closed,) = reader.incidents(NOW, 9)
    assert (closed.state, closed.outcome) == (Stand.CLOSED, Outcome.FIXED)
    with pytest.raises(StoreError, match="closed at"):
        reader.close(1, Closing(Outcome.FIXED), ActInput("triage"), NOW)
    with pytest.raises(StoreError, match="there is no incident 2"):
        reader.acknowledge(2, ActInput("triage"), NOW)


def test_the_newest_incidents_come_first(engine: sa.Engine, reader: PublishedReader) -> None:
    publish(engine, lesson(*BOTH), NOW, IncidentChange([incident(n) for n in (1, 2, 3)]))
    assert [one.id for one in reader.incidents(NOW, 2)] == [3, 2]


def test_the_pipeline_says_nothing_finer_than_five_minutes_and_a_hundred_decisions(
    engine: sa.Engine, reader: PublishedReader
) -> None:
    newest = T0 + 7 * MINUTE + 13 * SECOND
    read = {"tallies": '{"events": 101, "dead_letters": {"missing_field": 7}}'}
    for shard, more in (
        (Shard("decisions", 0), {"owner": "a", "flushed_at": T0, "max_decided_at": newest, **read}),
        (Shard("decisions", 1), {"flushed_at": T0 + 61 * SECOND, "max_decided_at": T0, **read}),
        (Shard("labels", 0), {"owner": "a", "parked": "data loss", "max_decided_at": newest + DAY}),
        (Shard("gone", 0), {"retired_at": T0}),
    ):
        own(engine, shard, **more)
    publish(engine, lesson(*BOTH), NOW + 7)
    found = reader.pipeline()
    decisions, labels = found.topics
    assert (decisions.partitions, decisions.unowned, decisions.parked) == (2, 1, 0)
    assert (labels.partitions, labels.unowned, labels.parked) == (1, 0, 1)
    assert (decisions.arrived, decisions.unreadable, labels.arrived) == (300, 14, 0)
    assert decisions.flushed_at == to_datetime(T0 + MINUTE)
    assert found.newest_decision == to_datetime(T0 + 5 * MINUTE)
    assert found.stored_at == datetime.fromtimestamp(NOW // SECOND, UTC)


def own(engine: sa.Engine, shard: Shard, **more: object) -> None:
    row = {
        **{"topic": shard.topic, "part": shard.partition, "epoch": 1, "seq": 1},
        **{"holds_back": True, "tallies": "{}", "flushes": 0, **more},
    }
    with writing(engine) as connection:
        connection.execute(sa.insert(ownership).values(row))


def test_readers_take_turns_and_are_told_when_it_takes_too_long(
    engine: sa.Engine, reader: PublishedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages take one connection of the pool, however many ask."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(*_: object) -> None:
        begun.set()
        assert go_on.wait(30)

    monkeypatch.setattr(reader._records, "newest_snapshot", slow)
    first = threading.Thread(target=reader.newest)
    first.start()
    assert begun.wait(30)
    with pytest.raises(StoreError, match="busy"):
        reader.history(CHAT)
    go_on.set()
    first.join()
    assert reader.history(CHAT) == []
