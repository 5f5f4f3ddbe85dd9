"""The label's side of the join, inside the label owner's flush.

The owner of the label partition alone joins: it looks its new labels, and those still waiting,
up among the decisions stored so far. A decision's flush never looks at labels, so two flushes
that run at once cannot miss each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sa

from monitor.core.cells import COUNTERS, Int64s
from monitor.core.labels import LabelColumns
from monitor.core.time import DAY, HOUR, MINUTE, Grain, pane_of
from monitor.ports import Request, Shard, Tallies

WAIT = DAY
"""A label waits for its decision until the watermark has passed decided_at by this long."""

NEAR = MINUTE
"""A label may repeat its decision's time this inexactly, also across the edge of an hour."""

_CHUNK = 5_000  # rows of one look-up: its text stays far below every SQL length limit
_NEVER = -(2**62)
_ORDER = "rank, revision, labelled_at, label"
_Key = tuple[int, int, int]


@dataclass(slots=True)
class Joined:
    """What a flush's labels added, and where each of them ended."""

    panes: Int64s
    cells: Int64s
    values: Int64s
    delays: np.ndarray[tuple[int], np.dtype[np.float64]]
    counted: int = 0
    stale: int = 0
    duplicates: int = 0
    thinned: int = 0
    waiting: int = 0  # net change
    unmatched: dict[str, int] = field(default_factory=dict)

    def settle(self, tallies: Tallies) -> None:
        """Add the outcomes to a shard's totals."""
        tallies.counted += self.counted
        tallies.stale += self.stale
        tallies.duplicates += self.duplicates
        tallies.thinned += self.thinned
        tallies.waiting += self.waiting
        for reason, number in self.unmatched.items():
            tallies.unmatched[reason] = tallies.unmatched.get(reason, 0) + number


@dataclass(frozen=True, slots=True)
class _Found:
    """Pending rows of labels, -1 in ``hour`` where there is none."""

    hour: Int64s
    ts: Int64s
    cell: Int64s
    request: Int64s


def join(
    connection: sa.Connection, shard: Shard, fresh: LabelColumns, watermark: int | None
) -> Joined:
    """Join labels to decisions and write label_state and waiting_label.

    Args:
        connection: the flush's transaction, its fence already passed.
        shard: the label shard that owns ``fresh``.
        fresh: labels of this flush; may be empty.
        watermark: event time the decisions are complete to; None when unknown.
    """
    waited = _read_waiting(connection, shard, watermark)
    labels = LabelColumns.concat([waited, fresh])
    found = _find(connection, labels)
    hit = found.hour >= 0
    sampled = found.request == Request.KEPT
    unasked = hit & (found.request == Request.NONE)
    counts = sampled | (unasked & (labels.complaint == 1))
    joined = _apply(connection, labels.take(counts), _pick(found, counts))
    joined.thinned = int((hit & (found.request == Request.THINNED)).sum())
    if (stray := unasked & ~counts).any():
        joined.unmatched["not_requested"] = int(stray.sum())
    due = ~hit & (labels.ts < (_NEVER if watermark is None else watermark - WAIT))
    if due.any():
        joined.unmatched["no_decision"] = int(due.sum())
    is_fresh = np.arange(len(labels)) >= len(waited)
    removed = _stop_waiting(connection, shard, labels.take((hit | due) & ~is_fresh))
    parked = labels.take(~hit & ~due & is_fresh)
    inserted = _start_waiting(connection, shard, parked)
    joined.duplicates += len(parked) - inserted
    joined.waiting = inserted - removed
    return joined


def _pick(found: _Found, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> _Found:
    return _Found(found.hour[rows], found.ts[rows], found.cell[rows], found.request[rows])


def _hours(labels: LabelColumns) -> Int64s:
    return pane_of(labels.ts, Grain.HOUR)


def _read_waiting(connection: sa.Connection, shard: Shard, watermark: int | None) -> LabelColumns:
    """Waiting labels whose decision may have come, or which waited long enough."""
    rows = connection.execute(
        sa.text(
            "SELECT id, ts, complaint, rank, revision, labelled_at, label, ready, blind"
            " FROM waiting_label w WHERE topic = :topic AND part = :part AND (ts < :due OR EXISTS"
            " (SELECT 1 FROM pending p WHERE p.id = w.id"
            " AND p.hour IN (w.hour, w.hour - 1, w.hour + 1)))"
        ),
        {
            "topic": shard.topic,
            "part": shard.partition,
            "due": _NEVER if watermark is None else watermark - WAIT,
        },
    ).all()
    return LabelColumns.of_rows([tuple(row) for row in rows])


def _values(rows: Sequence[tuple[int, ...]]) -> Iterator[str]:
    """SQL VALUES lists of integers, chunk by chunk."""
    for start in range(0, len(rows), _CHUNK):
        yield ",".join(str(row) for row in rows[start : start + _CHUNK])


def _find(connection: sa.Connection, labels: LabelColumns) -> _Found:
    """Look labels up by (hour, id); a miss close to an edge also tries the hour beyond it."""
    n = len(labels)
    found = _Found(*(np.full(n, -1, np.int64) for _ in range(4)))
    hours, into = _hours(labels), labels.ts % HOUR
    for shift, may in ((0, into >= 0), (-1, into < NEAR), (1, into > HOUR - NEAR)):
        rows = np.flatnonzero((found.hour < 0) & may)
        if len(rows):
            _find_in_hours(connection, found, labels, rows, hours[rows] + shift)
    return found


def _find_in_hours(
    connection: sa.Connection, found: _Found, labels: LabelColumns, rows: Int64s, hours: Int64s
) -> None:
    keys = list(zip(hours.tolist(), labels.ids[rows].tolist(), strict=True))
    hits: dict[tuple[int, int], tuple[int, int, int]] = {}
    for values in _values(sorted(set(keys))):
        query = (
            f"WITH w(hour, id) AS (VALUES {values}) SELECT p.hour, p.id, p.ts, p.cell, p.request"
            " FROM w, pending p WHERE p.hour = w.hour AND p.id = w.id"
        )
        for hour, key, ts, cell, request in connection.exec_driver_sql(query):
            hits[hour, key] = (ts, cell, request)
    for row, key, said in zip(rows.tolist(), keys, labels.ts[rows].tolist(), strict=True):
        hit = hits.get(key)
        # In its own hour the id alone decides; beyond an edge the same id may be another decision.
        if hit is not None and (said // HOUR == key[0] or abs(hit[0] - said) <= NEAR):
            found.hour[row] = key[0]
            found.ts[row], found.cell[row], found.request[row] = hit


def _apply(connection: sa.Connection, labels: LabelColumns, found: _Found) -> Joined:
    """Let each label compete with the one that stands; write the winners."""
    keys = list(
        zip(found.hour.tolist(), labels.ids.tolist(), labels.complaint.tolist(), strict=True)
    )
    before = _read_states(connection, keys)
    joined, winners = _compete(labels, keys, before)
    rows = np.array(list(winners.values()), np.int64)
    won = labels.take(rows)
    ts, cells = found.ts[rows], found.cell[rows]
    values = won.contributions(ts)
    beaten = [i for i, key in enumerate(winners) if key in before]
    if beaten:
        old = LabelColumns.of_rows([before[key] for i, key in enumerate(winners) if key in before])
        values[beaten] -= old.contributions(ts[beaten])
    _write_states(connection, list(winners), won)
    joined.panes = pane_of(ts, Grain.MINUTES5)
    joined.cells, joined.values = cells, values
    joined.delays = np.maximum(won.labelled_at - ts, 0) / (MINUTE / 60)
    return joined


def _compete(
    labels: LabelColumns, keys: Sequence[_Key], before: dict[_Key, tuple[int, ...]]
) -> tuple[Joined, dict[_Key, int]]:
    """Walk the labels in arrival order; the result by key does not depend on that order."""
    none = np.empty(0, np.int64)
    joined = Joined(none, none, np.empty((0, COUNTERS), np.int64), np.empty(0, np.float64))
    # Rows are (id, ts, complaint, rank, revision, labelled_at, label, ready, blind).
    standing = {key: row[3:7] for key, row in before.items()}
    winners: dict[_Key, int] = {}
    orders = zip(
        labels.rank.tolist(),
        labels.revision.tolist(),
        labels.labelled_at.tolist(),
        labels.label.tolist(),
        strict=True,
    )
    for row, (key, order) in enumerate(zip(keys, orders, strict=True)):
        current = standing.get(key)
        if current is None or order > current:
            standing[key], winners[key] = order, row
            joined.counted += 1
        elif order == current:
            joined.duplicates += 1
        else:
            joined.stale += 1
    return joined, winners


def _read_states(connection: sa.Connection, keys: Sequence[_Key]) -> dict[_Key, tuple[int, ...]]:
    states: dict[_Key, tuple[int, ...]] = {}
    for values in _values(sorted(set(keys))):
        query = (
            f"WITH w(hour, id, complaint) AS (VALUES {values})"
            f" SELECT s.hour, s.id, s.complaint, {_ORDER}, ready, blind"
            " FROM w, label_state s"
            " WHERE s.hour = w.hour AND s.id = w.id AND s.complaint = w.complaint"
        )
        for hour, key, complaint, *rest in connection.exec_driver_sql(query):
            states[hour, key, complaint] = (key, 0, complaint, *rest)
    return states


def _write_states(connection: sa.Connection, keys: Sequence[_Key], won: LabelColumns) -> None:
    rows = [
        {"hour": key[0], "id": key[1], "complaint": key[2], **columns}
        for key, columns in zip(keys, _columns(won), strict=True)
    ]
    if not rows:
        return
    rows.sort(key=lambda row: (row["hour"], row["id"], row["complaint"]))
    connection.execute(
        sa.text(
            f"INSERT INTO label_state (hour, id, complaint, {_ORDER}, ready, blind) VALUES"
            " (:hour, :id, :complaint, :rank, :revision, :labelled_at, :label, :ready, :blind)"
            " ON CONFLICT (hour, id, complaint) DO UPDATE SET rank = excluded.rank,"
            " revision = excluded.revision, labelled_at = excluded.labelled_at,"
            " label = excluded.label, ready = excluded.ready, blind = excluded.blind"
        ),
        rows,
    )


def _columns(labels: LabelColumns) -> Iterator[dict[str, int]]:
    names = ("rank", "revision", "labelled_at", "label", "ready", "blind")
    columns = (getattr(labels, name).tolist() for name in names)
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _start_waiting(connection: sa.Connection, shard: Shard, labels: LabelColumns) -> int:
    """Keep labels until their decision comes; returns how many were not kept already."""
    rows = [
        {"topic": shard.topic, "part": shard.partition, "hour": hour, "id": key, "ts": ts,
         "complaint": complaint, **columns}
        for hour, key, ts, complaint, columns in zip(
            _hours(labels).tolist(), labels.ids.tolist(), labels.ts.tolist(),
            labels.complaint.tolist(), _columns(labels), strict=True,
        )
    ]  # fmt: skip
    if not rows:
        return 0
    return connection.execute(
        sa.text(
            "INSERT INTO waiting_label"
            f" (topic, part, hour, id, ts, complaint, {_ORDER}, ready, blind) VALUES"
            " (:topic, :part, :hour, :id, :ts, :complaint,"
            " :rank, :revision, :labelled_at, :label, :ready, :blind) ON CONFLICT DO NOTHING"
        ),
        rows,
    ).rowcount


def _stop_waiting(connection: sa.Connection, shard: Shard, labels: LabelColumns) -> int:
    rows = [
        {"topic": shard.topic, "part": shard.partition, "hour": hour, "id": key, "label": label}
        for hour, key, label in zip(
            _hours(labels).tolist(), labels.ids.tolist(), labels.label.tolist(), strict=True
        )
    ]
    if not rows:
        return 0
    return connection.execute(
        sa.text(
            "DELETE FROM waiting_label WHERE topic = :topic AND part = :part"
            " AND hour = :hour AND id = :id AND label = :label"
        ),
        rows,
    ).rowcount
