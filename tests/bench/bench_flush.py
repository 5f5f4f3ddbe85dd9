"""What one flush costs on each database, by what is in it.

Run it by ``make bench FOR=flush``.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from common import START, Report, databases, timed

from monitor.clock import SystemClock
from monitor.core.counts.cells import Int64s, Route, Stratum
from monitor.core.counts.labels import LabelColumns
from monitor.core.time import HOUR, MINUTE, to_micros
from monitor.flushes import DecisionColumns, Dictionary, LabelRequest, ShardFlush
from monitor.records import Shard
from monitor.shard_status import Claim, Tallies
from monitor.store import database as db
from monitor.store.ingest.ingest_store import IngestStore

ROWS = 20_000
REPEATS = 9
CELLS = 500
T0 = to_micros(START)
STRATUM = Stratum(Route.HUMAN_REVIEW, 0, 0).code
DICTIONARY = Dictionary(
    {1: "channel=chat"}, {2: "v"}, {i + 1: (1, 2, STRATUM) for i in range(CELLS)}
)


class Site:
    """A store with one shard of decisions and one of labels."""

    def __init__(self, url: str) -> None:
        self._engine = db.create_engine(url)
        self._store = IngestStore(self._engine, "decisions", SystemClock())
        self._rng = np.random.default_rng(5)
        self._next = 0
        shards = [Shard("decisions", 0), Shard("labels", 0)]
        self._store.register(shards)
        self._claims: dict[str, Claim] = {}
        for claim in self._store.claim(shards, "bench"):
            self._store.start(claim, 0)
            self._claims[claim.shard.topic] = replace(claim, next_offset=0, start_offset=0)

    def decisions(self, rows: int, pending: float, keys: bool) -> float:
        """Seconds to flush decisions, a share of them to be remembered."""
        ids = self._ids(rows)
        columns = DecisionColumns(
            ids=ids,
            ts=T0 + self._rng.integers(HOUR, size=rows),
            cells=self._rng.integers(CELLS, size=rows) + 1,
            request=np.where(
                self._rng.random(rows) < pending, LabelRequest.KEPT, LabelRequest.NONE
            ),
            routes=np.ones(rows, np.int64),
            arrivals=np.full(rows if keys else 0, T0 // MINUTE),
            keys=ids * 3 if keys else ids[:0],
        )
        remembered = columns.request == LabelRequest.KEPT
        self._newest = ids[remembered], columns.ts[remembered]
        return self._flush("decisions", decisions=columns)

    def labels(self) -> float:
        """Seconds to flush a label for each decision remembered by the last flush."""
        ids, ts = self._newest
        rows = [
            (key, at, 0, 0, 1, at + int(HOUR), key, 1, 0, 0)
            for key, at in zip(ids.tolist(), ts.tolist(), strict=True)
        ]
        return self._flush("labels", labels=LabelColumns.from_rows(rows)) / max(len(rows), 1)

    def _ids(self, rows: int) -> Int64s:
        return self._rng.integers(2**61, size=rows)

    def _flush(self, topic: str, **parts: object) -> float:
        claim = self._claims[topic]
        start = claim.next_offset or 0
        flush = ShardFlush(
            shard=claim.shard,
            epoch=claim.epoch,
            expected_offset=start,
            next_offset=start + 1,
            max_decided_at=T0,
            watermark=T0,
            holds_back=True,
            tallies=Tallies(),
            **parts,  # type: ignore[arg-type]
        )
        took = timed(lambda: self._store.flush([flush], DICTIONARY))
        self._claims[topic] = replace(claim, next_offset=start + 1)
        return took

    def close(self) -> None:
        self._engine.dispose()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, default=2_000_000, help="rows pending before")
    rows_pending = parser.parse_args().pending
    report = Report(
        f"A flush of {ROWS:,} decisions, {rows_pending:,} pending (medians of {REPEATS})",
        *("store", "ms, none remembered", "ms, 43 % remembered", "the same with de-duplication"),
        *("us a decision", "us a label"),
    )
    with tempfile.TemporaryDirectory() as folder, databases(Path(folder)) as made:
        for kind in made.kinds:
            site = Site(made.new(kind, rows_pending))
            bare = median(site.decisions(ROWS, 0.0, False) for _ in range(REPEATS))
            some = median(site.decisions(ROWS, 0.43, False) for _ in range(REPEATS))
            full, label = [], []
            for _ in range(REPEATS):
                full.append(site.decisions(ROWS, 0.43, True))
                label.append(site.labels())
            report.add(
                *(kind, f"{1e3 * bare:.1f}", f"{1e3 * some:.1f}", f"{1e3 * median(full):.1f}"),
                *(f"{1e6 * median(full) / ROWS:.2f}", f"{1e6 * median(label):.1f}"),
            )
            site.close()
    report.close()


if __name__ == "__main__":
    main()
