"""Reader of the content of pages: published values, and acts of people."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.privacy.bands import SHOWN_STEP
from monitor.core.publish.act_input import ActInput, Closing
from monitor.core.publish.history import HistoryPoint, SliceKey, Trends
from monitor.core.publish.incident_reports import IncidentReport
from monitor.core.publish.pipeline import Pipeline, TopicFacts
from monitor.core.publish.release import Revision, StoredReport, StoredWeek
from monitor.core.publish.snapshot import Snapshot, decode, numbered
from monitor.core.state import State
from monitor.core.time import MINUTE, Grain, IsoWeek, to_datetime
from monitor.errors import StoreError
from monitor.shard_status import ShardStatus
from monitor.store.database import reading
from monitor.store.evaluator import stored_incidents
from monitor.store.evaluator.published_tables import DECISIONS, LABELLED
from monitor.store.evaluator.records import RecordStore
from monitor.store.evaluator.weekly_releases import find_revision, newest_weeks, stored_report
from monitor.store.schema import (
    published_contract,
    published_limit,
    published_rate,
    published_window,
    snapshot,
)
from monitor.store.shard_rows import read_statuses
from monitor.store.upkeep.reported_incidents import find_report, newest_reports

TREND_DAYS = 28
"""Four weeks: the longest window."""
_TURN_SECONDS = 1.0
_SHOWN = (
    *("value", "lower", "upper", "at_least", "at_most", "support"),
    *("reference", "gap", "gap_lower", "gap_upper"),
)


class PublishedReader:
    """Reader of published values for the web pages: any number of threads, one at a time.

    Pages must not take the connections that the service works with. A thread that has waited a
    second for its turn gets an error: the store is busy.
    """

    def __init__(self, engine: sa.Engine, topics: Sequence[str]) -> None:
        """Create a reader that has read nothing yet.

        Args:
            engine: the store.
            topics: topics of the settings; the first one has the decisions.
        """
        self._engine = engine
        self._topics = topics
        self._records = RecordStore(engine)
        self._turn = threading.Lock()
        self._seen: tuple[int, Snapshot] | None = None

    def newest(self) -> tuple[int, Snapshot] | None:
        """Return number and content of the newest Snapshot; None before the first."""
        with self._one_at_a_time():
            newer = self._records.newest_snapshot(self._seen[0] if self._seen else 0)
            if newer is not None:
                number, body = newer
                self._seen = number, numbered(decode(body), number)
            return self._seen

    def at(self, instant: int) -> tuple[int, Snapshot] | None:
        """Return number and Snapshot with the newest watermark up to an instant, or None.

        Args:
            instant: event time, microseconds.
        """
        query = sa.select(snapshot.c.id, snapshot.c.body).where(snapshot.c.watermark <= instant)
        with self._one_at_a_time(), reading(self._engine) as connection:
            row = connection.execute(query.order_by(snapshot.c.id.desc()).limit(1)).one_or_none()
        return None if row is None else (row.id, numbered(decode(bytes(row.body)), row.id))

    def history(self, key: SliceKey) -> list[HistoryPoint]:
        """Return the published figures of a slice and metric by day; empty without any."""
        with self._one_at_a_time(), reading(self._engine) as connection:
            rows = connection.execute(_history(key)).all()
        return [_point(row) for row in rows]

    def trends(self, contract: str, window: str, metric: Metric) -> Trends:
        """Return (day, rate) of the newest TREND_DAYS days by (group-by, slice); no hidden rates.

        Args:
            contract: name.
            window: name.
            metric: the rate.
        """
        trends: Trends = {}
        with self._one_at_a_time(), reading(self._engine) as connection:
            for row in connection.execute(_trends(contract, window, metric)):
                trends.setdefault((row.group_by, row.slice), []).append((row.day, row.value))
        return trends

    def incidents(self, now: int, limit: int) -> list[IncidentReport]:
        """Return reports of the newest incidents, resolved ones too, the newest first.

        Args:
            now: wall clock.
            limit: most incidents to return.
        """
        with self._one_at_a_time():
            return newest_reports(self._engine, now, limit)

    def incident(self, number: int, now: int) -> IncidentReport | None:
        """Return the report of an incident; None where there is none of that number."""
        with self._one_at_a_time():
            return find_report(self._engine, number, now)

    def pipeline(self) -> Pipeline:
        """Return the state of the pipeline, from the broker to the newest Snapshot."""
        with self._one_at_a_time():
            statuses = [
                status for status in read_statuses(self._engine) if status.retired_at is None
            ]
            with reading(self._engine) as connection:
                query = sa.select(snapshot.c.stored_at).order_by(snapshot.c.id.desc()).limit(1)
                stored = connection.execute(query).scalar()
        times = [s.max_decided_at for s in statuses if s.shard.topic == self._topics[0]]
        return Pipeline(
            tuple(_topic(name, statuses) for name in self._topics),
            _floored(times, Grain.MINUTES5),
            _floored([stored], MINUTE),
        )

    def weeks(self, limit: int) -> list[StoredWeek]:
        """Return the newest weeks that have a Release, the newest first.

        Args:
            limit: most weeks to return.
        """
        with self._one_at_a_time(), reading(self._engine) as connection:
            return newest_weeks(connection, limit)

    def report(self, week: IsoWeek, number: int | None = None) -> StoredReport | None:
        """Return a revision of a week with the rest of its report; None if it is not stored."""
        with self._one_at_a_time(), reading(self._engine) as connection:
            return stored_report(connection, week, number)

    def revision(self, week: IsoWeek, number: int) -> Revision | None:
        """Return a revision of a Release, without the rest of its report; None without one."""
        with self._one_at_a_time(), reading(self._engine) as connection:
            return find_revision(connection, week.name, number)

    def acknowledge(self, number: int, act_input: ActInput, now: int) -> None:
        """Record that somebody looks after an incident.

        Raises:
            StoreError: there is no such incident.
        """
        stored_incidents.acknowledge(self._engine, number, act_input, now)

    def close(self, number: int, closing: Closing, act_input: ActInput, now: int) -> None:
        """Record how an incident was closed.

        Raises:
            StoreError: there is no such incident, or it is over.
        """
        stored_incidents.close(self._engine, number, closing, act_input, now)

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """Let one reader into the block; others wait, and a StoreError ends a long wait."""
        if not self._turn.acquire(timeout=_TURN_SECONDS):
            raise StoreError("the store is busy; try again in a moment")
        try:
            yield
        finally:
            self._turn.release()


def _history(key: SliceKey) -> sa.Select[Any]:
    """Return the query for the published figures of a slice and metric, a row per day.

    Days come from the small table of contracts, so the large table is read by its key.
    """
    day, rate, window, limit = (
        published_contract.c,
        published_rate.c,
        published_window.c,
        published_limit.c,
    )
    of_slice = sa.and_(
        rate.day == day.day,
        rate.contract == day.contract,
        rate.window_name == key.window,
        rate.group_by == key.group_by,
        rate.slice == key.slice,
        rate.metric == key.metric.value,
    )
    of_window = sa.and_(
        window.day == day.day,
        window.contract == day.contract,
        window.window_name == key.window,
        window.group_by == key.group_by,
        window.kind == (LABELLED if key.metric.labelled else DECISIONS),
    )
    of_metric = sa.and_(
        limit.day == day.day, limit.contract == day.contract, limit.metric == key.metric.value
    )
    return (
        sa.select(
            day.day,
            day.version,
            window.ends_at,
            sa.func.coalesce(rate.own_max_gap, limit.max_gap).label("max_gap"),
            rate.state,
            *(rate[name] for name in _SHOWN),
            rate.verdict,
        )
        .select_from(published_contract)
        .join(published_rate, of_slice)
        .outerjoin(published_window, of_window)
        .outerjoin(published_limit, of_metric)
        .where(day.contract == key.contract)
        .order_by(day.day)
    )


def _trends(contract: str, window: str, metric: Metric) -> sa.Select[Any]:
    """Return the query for the rates of all slices on the newest days, oldest first."""
    days = (
        sa.select(published_contract.c.day)
        .where(published_contract.c.contract == contract)
        .order_by(published_contract.c.day.desc())
        .limit(TREND_DAYS)
        .subquery()
    )
    rate = published_rate.c
    return (
        sa.select(rate.day, rate.group_by, rate.slice, rate.value)
        .join(days, rate.day == days.c.day)
        .where(rate.contract == contract, rate.window_name == window)
        .where(rate.metric == metric.value, rate.value.is_not(None))
        .order_by(rate.day)
    )


def _point(row: sa.Row[Any]) -> HistoryPoint:
    """Return a day of a slice's history from its row."""
    return HistoryPoint(
        day=row.day,
        ends_at=_aware(row.ends_at),
        version=row.version,
        limit=row.max_gap,
        state=State(row.state),
        **{name: getattr(row, name) for name in _SHOWN},
        verdict=None if row.verdict is None else Verdict(row.verdict),
    )


def _aware(at: datetime | None) -> datetime | None:
    """Return an instant with zone UTC, which SQLite omits; None stays None."""
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)


def _topic(name: str, statuses: Sequence[ShardStatus]) -> TopicFacts:
    """Return what pages say of a topic; the number of events is rounded up."""
    statuses_of_topic = [status for status in statuses if status.shard.topic == name]
    return TopicFacts(
        name,
        partitions=len(statuses_of_topic),
        unowned=sum(status.owner is None for status in statuses_of_topic),
        parked=sum(status.parked is not None for status in statuses_of_topic),
        flushed_at=_floored([status.flushed_at for status in statuses_of_topic], MINUTE),
        arrived=_stepped_up(sum(status.tallies.events for status in statuses_of_topic)),
        unreadable=sum(sum(status.tallies.dead_letters.values()) for status in statuses_of_topic),
    )


def _stepped_up(number: int) -> int:
    return -(-number // SHOWN_STEP) * SHOWN_STEP


def _floored(times: Sequence[int | None], grain: int) -> datetime | None:
    """Return the newest of the instants, rounded down to a grain, as datetime; None without any."""
    newest = max((at for at in times if at is not None), default=None)
    return None if newest is None else to_datetime(newest - newest % grain)
