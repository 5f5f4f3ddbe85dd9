"""The label's side of the join, inside the label owner's flush.

The owner of the label partition alone joins: it looks its new labels, and those still waiting,
up among the decisions stored so far. A decision's flush never looks at labels, so two flushes
that run at once cannot miss each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from monitor.core.counts.cells import COUNTERS, Int64s
from monitor.core.counts.labels import LabelColumns
from monitor.core.time import DAY, HOUR, MINUTE, Grain, pane_of
from monitor.flushes import LabelRequest, OtherIds
from monitor.id_key import NEAR
from monitor.records import Shard
from monitor.shard_status import Tallies
from monitor.store import bulk
from monitor.store.erasure import NO_DECISION
from monitor.store.ingest.double_labels import count_pairs, reviewer_answers
from monitor.store.ingest.recent import FoundDecisions
from monitor.store.ingest.stored_decisions import StoredDecisions, find_decisions, others_of
from monitor.store.schema import label_state, waiting_label

WAIT = DAY
"""A label waits for its decision until the watermark has passed decided_at by this long."""

_NOBODY = -1  # rank of a row that was made only to be locked
_NEVER = -(2**62)
_ORDER = "rank, revision, labelled_at, label"
_KEY = ("hour", "id", "complaint")
_SAME_KEY = "s.hour = w.hour AND s.id = w.id AND s.complaint = w.complaint"
_Key = tuple[int, int, int]
_Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Joined:
    """Outcome of joining a flush's labels: added counts, and where each label ended."""

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

    def add(self, decided_at: Int64s, cells: Int64s, values: Int64s) -> None:
        """Append counters of cells to the counts, in the panes of ``decided_at``."""
        panes = pane_of(decided_at, Grain.MINUTES5)
        self.panes = np.concatenate([self.panes, panes])
        self.cells = np.concatenate([self.cells, cells])
        self.values = np.concatenate([self.values, values])

    def win(self, labels: LabelColumns, decisions: FoundDecisions) -> None:
        """Append the counts of labels that count from now on, and their delays (seconds)."""
        self.add(decisions.ts, decisions.cell, labels.contributions(decisions.ts))
        delays = np.maximum(labels.labelled_at - decisions.ts, 0) / (MINUTE / 60)
        self.delays = np.concatenate([self.delays, delays])

    def add_to(self, tallies: Tallies) -> None:
        """Add the outcomes to a shard's tallies."""
        tallies.counted += self.counted
        tallies.stale += self.stale
        tallies.duplicates += self.duplicates
        tallies.thinned += self.thinned
        tallies.waiting += self.waiting
        for reason, number in self.unmatched.items():
            tallies.unmatched[reason] = tallies.unmatched.get(reason, 0) + number


@dataclass(frozen=True, slots=True)
class Matched:
    """Labels of one shard, with the decisions found for them.

    Attributes:
        labels: labels that waited, then fresh ones.
        other_ids: other ids of all labels, as in a flush.
        waited: number of labels that waited.
        decisions: the decision of each label.
        due: labels that have waited long enough without a decision.
    """

    shard: Shard
    labels: LabelColumns
    other_ids: OtherIds
    waited: int
    decisions: FoundDecisions
    due: _Bools

    @property
    def hit(self) -> _Bools:
        """Return a mask of the labels whose decision was found."""
        return np.asarray(self.decisions.hour >= 0)

    @property
    def counts(self) -> _Bools:
        """Return a mask of labels that count: those of decisions in the sample."""
        return np.asarray(self.decisions.request == LabelRequest.KEPT)

    @property
    def keys(self) -> list[_Key]:
        """Return the ``label_state`` keys (hour, id, complaint) of the labels that count."""
        rows = self.counts
        columns = (self.decisions.hour[rows], self.decisions.id[rows], self.labels.complaint[rows])
        return list(zip(*(column.tolist() for column in columns), strict=True))


def match(
    stored: StoredDecisions,
    shard: Shard,
    fresh: LabelColumns,
    other_ids: OtherIds,
    reached: int | None = None,
) -> Matched:
    """Find the decisions of a shard's fresh labels, and of those that wait; return both.

    Args:
        stored: the decisions.
        shard: the label shard that owns ``fresh``.
        fresh: labels of this flush; may be empty.
        other_ids: other ids of ``fresh``, as in a flush.
        reached: labels that wait are tried up to this decided_at; None: all of them.
    """
    watermark = stored.watermark
    waited, all_other_ids = _read_waiting(stored.connection, shard, watermark, reached)
    labels, all_other_ids = LabelColumns.concat([waited, fresh]), {**all_other_ids, **other_ids}
    decisions = find_decisions(stored, labels, all_other_ids)
    late = labels.ts < (_NEVER if watermark is None else watermark - WAIT)
    return Matched(
        shard, labels, all_other_ids, len(waited), decisions, late & (decisions.hour < 0)
    )


def lock_states(connection: sa.Connection, matched: Sequence[Matched | None]) -> None:
    """Lock the ``label_state`` rows of a flush's labels, after inserting missing ones.

    The rows are locked at once and in the order of their keys: two flushes with labels of the same
    decisions would otherwise wait for each other. A decision's first label has no row yet to lock:
    a row is made that loses against every label. SQLite has one writer at a time and needs no lock.
    """
    if connection.dialect.name == "sqlite":
        return
    keys = sorted(
        {key for shard_labels in matched if shard_labels is not None for key in shard_labels.keys}
    )
    if not keys:
        return
    hours, ids, complaints = (list(column) for column in zip(*keys, strict=True))
    names = ("revision", "labelled_at", "label", "ready", "reviewer")
    nobody = {name: [0] * len(keys) for name in names}
    columns = {"hour": hours, "id": ids, "complaint": complaints, "rank": [_NOBODY] * len(keys)}
    blind = {"blind": [False] * len(keys)}
    bulk.insert(connection, label_state, {**columns, **nobody, **blind})
    for head, parameters in bulk.with_keys(connection, label_state, _KEY, keys):
        query = (
            f"{head} SELECT COUNT(*) FROM (SELECT 1 FROM w, label_state s WHERE {_SAME_KEY}"
            " ORDER BY s.hour, s.id, s.complaint FOR UPDATE OF s) AS locked"
        )
        connection.exec_driver_sql(query, parameters)


def join(connection: sa.Connection, matched: Matched) -> Joined:
    """Write labels that count, wait or wait no more; return the added counts and outcomes."""
    labels, decisions, hit, counts = matched.labels, matched.decisions, matched.hit, matched.counts
    joined = _write_labels(connection, labels.take(counts), decisions.take(counts))
    joined.thinned = int((hit & (decisions.request == LabelRequest.THINNED)).sum())
    if matched.due.any():
        joined.unmatched[NO_DECISION] = int(matched.due.sum())
    is_fresh = np.arange(len(labels)) >= matched.waited
    settled = (hit | matched.due) & ~is_fresh
    removed = _stop_waiting(connection, matched.shard, labels.take(settled))
    parked = labels.take(~hit & ~matched.due & is_fresh)
    inserted = _start_waiting(connection, matched.shard, parked, matched.other_ids)
    joined.duplicates += len(parked) - inserted
    joined.waiting = inserted - removed
    return joined


def _hours(labels: LabelColumns) -> Int64s:
    return pane_of(labels.ts, Grain.HOUR)


def _has_decision(key: str, shift: str = "") -> str:
    hour = f"(w.ts {shift}) / {HOUR}" if shift else "w.hour"
    return f"EXISTS (SELECT 1 FROM pending p WHERE p.hour = {hour} AND p.id = w.{key})"


def _beyond_edge(shift: str) -> str:
    by_id, by_other_id = (_has_decision(key, shift) for key in ("id", "other_id"))
    return f"(w.ts {shift}) / {HOUR} <> w.hour AND ({by_id} OR w.other_id <> 0 AND {by_other_id})"


_WAITING = sa.text(
    "SELECT id, ts, complaint, rank, revision, labelled_at, label, ready, blind, reviewer, other_id"
    " FROM waiting_label w WHERE topic = :topic AND part = :part AND (ts < :due OR ts <= :reached"
    f" AND ({_has_decision('id')} OR {_beyond_edge(f'- {NEAR}')} OR {_beyond_edge(f'+ {NEAR}')}))"
)


def _read_waiting(
    connection: sa.Connection, shard: Shard, watermark: int | None, reached: int | None
) -> tuple[LabelColumns, OtherIds]:
    """Return waiting labels whose decision may have come or is overdue, and their other ids."""
    rows = connection.execute(
        _WAITING,
        {
            "topic": shard.topic,
            "part": shard.partition,
            "due": _NEVER if watermark is None else watermark - WAIT,
            "reached": -_NEVER if reached is None else reached,
        },
    ).all()
    other_ids = {(row[0], row[1]): row[-1] for row in rows if row[-1]}
    return LabelColumns.from_rows([row[:-1] for row in rows]), other_ids


def _write_labels(
    connection: sa.Connection, labels: LabelColumns, decisions: FoundDecisions
) -> Joined:
    """Let each label compete with the stored one, write the winners; return the added counts."""
    none = np.empty(0, np.int64)
    joined = Joined(none, none, np.empty((0, COUNTERS), np.int64), np.empty(0, np.float64))
    firsts = _insert_firsts(connection, labels, decisions)
    joined.win(labels.take(firsts), decisions.take(firsts))
    joined.counted += len(firsts)
    competing = np.delete(np.arange(len(labels)), firsts)
    if len(competing):
        _let_compete(connection, joined, labels.take(competing), decisions.take(competing))
    return joined


def _insert_firsts(
    connection: sa.Connection, labels: LabelColumns, decisions: FoundDecisions
) -> Int64s:
    """Insert labels that nothing competes with; return their rows in the order of their keys.

    The worker's view of earlier labels may be wrong: another worker may have stored a label. Then
    the insert finds a stored row, and no label is first. Only SQLite needs this, where nobody
    else writes meanwhile; elsewhere :func:`lock_states` has made all rows.
    """
    none = np.empty(0, np.int64)
    if connection.dialect.name != "sqlite" or not len(labels):
        return none
    columns = np.stack([decisions.hour, decisions.id, labels.complaint.astype(np.int64)])
    order = np.lexsort(columns[::-1])
    alone = order[_differ_from_neighbours(columns[:, order])]
    firsts: Int64s = alone[decisions.labelled[alone] == 0]
    if not len(firsts):
        return none
    savepoint = connection.begin_nested()
    keys = dict(zip(_KEY, columns[:, firsts], strict=True))
    label_columns = _columns(labels.take(firsts))
    if bulk.insert(connection, label_state, {**keys, **label_columns}) == len(firsts):
        savepoint.commit()
        return firsts
    savepoint.rollback()
    return none


def _differ_from_neighbours(columns: Int64s) -> _Bools:
    """Return a mask of the sorted columns that occur once."""
    differs = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
    return np.asarray(np.append(True, differs) & np.append(differs, True))


def _let_compete(
    connection: sa.Connection, joined: Joined, labels: LabelColumns, decisions: FoundDecisions
) -> None:
    """Choose the label of each decision among new and stored ones; a beaten one is subtracted."""
    keys = list(
        zip(decisions.hour.tolist(), decisions.id.tolist(), labels.complaint.tolist(), strict=True)
    )
    before = _read_states(connection, keys)
    winners, contested = _compete(joined, labels, keys, before)
    rows = np.array(list(winners.values()), np.int64)
    joined.win(labels.take(rows), decisions.take(rows))
    _write_states(connection, list(winners), labels.take(rows))
    if beaten := [row for key, row in winners.items() if key in before]:
        old = LabelColumns.from_rows([before[key] for key in winners if key in before])
        ts = decisions.ts[beaten]
        joined.add(ts, decisions.cell[beaten], -old.contributions(ts))
    if contested:
        rows, values = _store_pairs(connection, labels, keys, before, contested)
        joined.add(decisions.ts[rows], decisions.cell[rows], values)


def _store_pairs(
    connection: sa.Connection,
    labels: LabelColumns,
    keys: Sequence[_Key],
    before: Mapping[_Key, tuple[int, ...]],
    contested: Set[_Key],
) -> tuple[Int64s, Int64s]:
    """Store new reviews; return a row of ``labels`` per such decision, and the counts to add."""
    rows = np.flatnonzero([key in contested for key in keys])
    places = {keys[row][:2]: row for row in rows.tolist()}
    newer = reviewer_answers(labels.take(rows), [keys[row][:2] for row in rows.tolist()])
    stored_keys = [key for key in contested if key in before]
    old = LabelColumns.from_rows([before[key] for key in stored_keys])
    earlier = reviewer_answers(old, [key[:2] for key in stored_keys])
    return np.array([places[key] for key in newer], np.int64), count_pairs(
        connection, earlier, newer
    )


def _compete(
    joined: Joined, labels: LabelColumns, keys: Sequence[_Key], before: dict[_Key, tuple[int, ...]]
) -> tuple[dict[_Key, int], set[_Key]]:
    """Return the winners of competing labels; count duplicates and losers in ``joined``.

    Returns:
        The winning row by key, and the keys of the sample that have several labels.
    """
    # Rows are (id, ts, complaint, rank, revision, labelled_at, label, ready, blind, reviewer).
    leading = {key: row[3:7] for key, row in before.items()}
    winners: dict[_Key, int] = {}
    contested: set[_Key] = set()
    orders = zip(
        labels.rank.tolist(),
        labels.revision.tolist(),
        labels.labelled_at.tolist(),
        labels.label.tolist(),
        strict=True,
    )
    for row, (key, order) in enumerate(zip(keys, orders, strict=True)):
        current = leading.get(key)
        if current == order:
            joined.duplicates += 1
            continue
        if current is not None and not key[2]:
            contested.add(key)
        if current is None or order > current:
            leading[key], winners[key] = order, row
            joined.counted += 1
        else:
            joined.stale += 1
    return winners, contested


def _read_states(connection: sa.Connection, keys: Sequence[_Key]) -> dict[_Key, tuple[int, ...]]:
    """Return the stored winning label of each key that has one, as columns."""
    states: dict[_Key, tuple[int, ...]] = {}
    for head, parameters in bulk.with_keys(connection, label_state, _KEY, sorted(set(keys))):
        query = (
            f"{head} SELECT s.hour, s.id, s.complaint, {_ORDER}, ready, blind, reviewer"
            f" FROM w, label_state s WHERE {_SAME_KEY} AND rank > {_NOBODY}"
        )
        for hour, key, complaint, *rest in connection.exec_driver_sql(query, parameters):
            states[hour, key, complaint] = (key, 0, complaint, *rest)
    return states


def _write_states(connection: sa.Connection, keys: Sequence[_Key], won: LabelColumns) -> None:
    """Insert or replace the winning label of each key."""
    if not keys:
        return
    order = sorted(range(len(keys)), key=keys.__getitem__)
    hours, ids, complaints = zip(*(keys[row] for row in order), strict=True)
    label_columns = _columns(won.take(np.array(order, np.int64)))
    bulk.insert(
        connection,
        label_state,
        {"hour": hours, "id": ids, "complaint": complaints, **label_columns},
        bulk.replacing(label_state),
    )


def _columns(labels: LabelColumns) -> dict[str, Int64s]:
    names = ("rank", "revision", "labelled_at", "label", "ready", "blind", "reviewer")
    return {name: getattr(labels, name).astype(np.int64) for name in names}


def _start_waiting(
    connection: sa.Connection, shard: Shard, labels: LabelColumns, other_ids: OtherIds
) -> int:
    """Insert labels that wait for their decision; return how many were not stored already."""
    columns = {
        "topic": [shard.topic] * len(labels),
        "part": [shard.partition] * len(labels),
        "hour": _hours(labels).tolist(),
        "id": labels.ids.tolist(),
        "ts": labels.ts.tolist(),
        "complaint": labels.complaint.tolist(),
        "other_id": others_of(labels, other_ids).tolist(),
        **_columns(labels),
    }
    return bulk.insert(connection, waiting_label, columns)


def _stop_waiting(connection: sa.Connection, shard: Shard, labels: LabelColumns) -> int:
    """Delete these labels from those that wait; return how many did."""
    columns: bulk.Columns = {
        "topic": [shard.topic] * len(labels),
        "part": [shard.partition] * len(labels),
        "hour": _hours(labels).tolist(),
        "id": labels.ids.tolist(),
        "label": labels.label.tolist(),
    }
    return bulk.delete(connection, waiting_label, columns)
