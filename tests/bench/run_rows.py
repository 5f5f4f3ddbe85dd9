"""Rows of ``make bench FOR=run``: what one reader has cost, and the cheapest of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from common import Report
from measured import Usage


@dataclass(frozen=True)
class Row:
    """One reader on one load.

    Attributes:
        reader: ``raw`` (the bare client), ``slicewatch``, or another program.
        client: Kafka client; empty where files are read.
        load: ``decisions`` or ``both``, topics or files.
        events: read, copies included.
        usage: of the process.
        stored: seconds by the clock until the last event was stored (slicewatch).
        waited: seconds that its threads waited for a core (slicewatch).
    """

    reader: str
    client: str
    load: str
    events: int
    usage: Usage
    stored: float = 0.0
    waited: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        """What is measured again in every round."""
        return self.reader, self.client, self.load

    @property
    def starved(self) -> bool:
        """Whether others had the cores most of the time."""
        return self.waited > self.usage.cpu

    @property
    def rate(self) -> float:
        """Events per CPU second, start included."""
        return self.events / self.usage.cpu

    @property
    def running(self) -> float:
        """Events per CPU second after the start."""
        return self.events / (self.usage.cpu - self.usage.starting)


class Table:
    """The cheapest row of every reader, and its ratio to the bare client's median."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.best: dict[tuple[str, str, str], Row] = {}
        self._raw: dict[tuple[str, str], list[Row]] = {}

    def add(self, row: Row) -> None:
        """One more row; shown at once."""
        if row.reader == "raw":
            self._raw.setdefault((row.client, row.load), []).append(row)
        best = self.best.get(row.key)
        if best is None or row.usage.cpu < best.usage.cpu:
            self.best[row.key] = row
        use = row.usage
        self._report.add(
            *(row.reader, row.client, row.load, f"{row.events:,}", f"{use.cpu:.2f}"),
            *(f"{use.starting:.2f}", f"{use.wall:.1f}", f"{use.megabytes:.0f}"),
            *(f"{row.rate:,.0f}", f"{row.running:,.0f}"),
            *(f"{one:.3f}" for one in self.ratios(row)),
        )

    def ratios(self, row: Row) -> tuple[float, float]:
        """Of the bare client on the same load, from the start and after it; 0: not measured.

        The bare client is the median of its runs: it takes a third of a second, and one lucky run
        would make the service look a third slower than it is.
        """
        raw = self._raw.get((row.client, row.load))
        if not raw:
            return 0.0, 0.0
        rate, running = median(r.rate for r in raw), median(r.running for r in raw)
        return row.rate / rate, row.running / running

    def rows(self) -> Iterator[dict[str, Any]]:
        """What is kept."""
        for row in self.best.values():
            ratios = self.ratios(row)
            yield {
                **{"reader": row.reader, "client": row.client, "load": row.load},
                **{"events": row.events, "stored": round(row.stored, 2)},
                "waited": round(row.waited, 2),
                **{name: round(value, 2) for name, value in asdict(row.usage).items()},
                **{"per_cpu_second": round(row.rate), "running": round(row.running)},
                "ratio": round(ratios[0], 4),
                "ratio_running": round(ratios[1], 4),
            }
