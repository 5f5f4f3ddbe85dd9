"""True rates per slice, known to the generator, over any run of whole hours."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from monitor.core.counts.cells import OTHER, Int64s, Route, parse_atom
from monitor.core.time import HOUR
from monitor.demo.router import ATTRIBUTES, Decisions

KEEP = 10 * 24
"""Hours that are remembered: more than any window of the demo and its labels' delay."""

_SLICES = {
    f"{name}={value}": (column, code)
    for column, (name, values) in enumerate(ATTRIBUTES.items())
    for code, value in enumerate(values)
}


class Truth:
    """Counts of every slice by hour: ready requests, and those of them that were auto-served.

    Evidence passed only, as in the TPR. One thread adds, others may read.
    """

    def __init__(self) -> None:
        self._hours: dict[int, dict[str, Int64s]] = {}

    def add(self, decisions: Decisions) -> None:
        """Remember decisions."""
        rows = decisions.take(decisions.passed & decisions.ready)
        hours = rows.at // HOUR
        for hour in np.unique(hours).tolist():
            self._add_hour(hour, rows.take(hours == hour))

    def _add_hour(self, hour: int, rows: Decisions) -> None:
        served = rows.route == Route.AUTO_SERVE
        table = dict(self._hours.get(hour, {}))
        for text, (column, code) in _SLICES.items():
            inside = rows.values[:, column] == code
            fresh = np.array([inside.sum(), (inside & served).sum()], np.int64)
            table[text] = table.get(text, np.zeros(2, np.int64)) + fresh
        self._hours[hour] = table  # replaced as a whole, for the thread that reads
        self._hours.pop(hour - KEEP, None)

    def tpr(self, text: str, start: int, end: int, shown: Iterable[str] = ()) -> float | None:
        """The realised P(auto_serve | ready) of a slice in [start, end), microseconds.

        Args:
            text: slice text; ``name=__other__`` is every value that is not in ``shown``.
            start: whole hours.
            end: whole hours.
            shown: the slices that are listed next to ``__other__``.

        Returns:
            None without ready requests.
        """
        (name, value), *_ = parse_atom(text).items()
        texts = {text}
        if value == OTHER:
            texts = {one for one in _SLICES if one.startswith(f"{name}=")} - set(shown)
        ready, served = self._sum(texts, range(start // HOUR, end // HOUR))
        return served / ready if ready else None

    def _sum(self, texts: Iterable[str], hours: range) -> tuple[int, int]:
        tables = [table for hour in hours if (table := self._hours.get(hour)) is not None]
        total = sum((table[text] for table in tables for text in texts), np.zeros(2, np.int64))
        ready, served = total.tolist()
        return ready, served
