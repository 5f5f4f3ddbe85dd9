"""Deltas: what one flush of one shard adds, appended and never changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import sqlalchemy as sa

from monitor.core.cells import COUNTERS, Counter, Counts
from monitor.core.dominance import UnitCounts
from monitor.core.probes import ProbeDecision
from monitor.core.time import Grain, pane_of
from monitor.ports import DecisionColumns, Request, ShardFlush
from monitor.store import payload
from monitor.store.schema import delta


def decision_payload(
    decisions: DecisionColumns, probes: Sequence[ProbeDecision] = ()
) -> payload.Payload:
    """The cell increments of counted decisions, summed by (pane, cell), and those of probe sets."""
    cells, cell_of = np.unique(decisions.cells, return_inverse=True)
    key = pane_of(decisions.ts, Grain.MINUTES5) * max(len(cells), 1) + cell_of
    rows, row_of = np.unique(key, return_inverse=True)
    values = np.zeros((len(rows), COUNTERS), np.int64)
    values[:, Counter.N] = np.bincount(row_of, minlength=len(rows))
    asked = decisions.request == Request.KEPT
    values[:, Counter.Q] = np.bincount(row_of[asked], minlength=len(rows))
    panes, positions = np.divmod(rows, max(len(cells), 1))
    units = None
    if len(decisions.units):
        units = UnitCounts.of(row_of, decisions.units, decisions.ts)
    keys, arrivals = decisions.keys, decisions.arrivals
    return payload.Payload(panes, cells[positions], values, keys, arrivals, units, probes)


def summed(body: payload.Payload) -> payload.Payload:
    """Add up rows of equal (pane, cell); rows that cancel out are dropped."""
    cells, cell_of = np.unique(body.cells, return_inverse=True)
    key = body.panes * max(len(cells), 1) + cell_of
    total = Counts.of(key, body.values)
    alive = total.values.any(axis=1)
    rows = total.keys[alive]
    units = body.units
    if units is not None:  # their rows hold decisions, which never cancel out
        units = units.moved(np.searchsorted(rows, key[units.rows]))
    panes, positions = np.divmod(rows, max(len(cells), 1))
    values = total.values[alive]
    return replace(body, panes=panes, cells=cells[positions], values=values, units=units)


def write_delta(connection: sa.Connection, flush: ShardFlush, body: payload.Payload) -> None:
    """Append the delta; an empty one is not written, so the sequence stays gap-free."""
    if not len(body.panes) and not len(body.keys) and not body.probes:
        return
    shard = {"topic": flush.shard.topic, "part": flush.shard.partition}
    seq = connection.execute(
        sa.text(
            "UPDATE ownership SET seq = seq + 1 WHERE topic = :topic AND part = :part RETURNING seq"
        ),
        shard,
    ).scalar_one()
    connection.execute(
        sa.insert(delta),
        {
            **shard,
            "seq": seq,
            "start_offset": flush.expected_offset,
            "next_offset": flush.next_offset,
            "arrived": int(body.arrivals.max()) if len(body.arrivals) else None,
            "payload": payload.encode(body),
        },
    )
