"""Choice of the spans that a window is made of: 1h, 24h, 7d or 28d.

The choice is made once for a table and a metric. It is the newest run of fine spans (24 hours,
7 days, ...) or a longer span that has closed (a day, a week, ...). Fine spans are newer, but their
bands add up, and a count below k stands for 0 to k - 1 of each. So slicewatch takes fine spans only
if all of them show every row that a coarser choice shows, and if the bands of each such row add up
to at most a tenth of its size. Only published sizes decide, never rates: choosing by rates would
bias them. All rows of a table have the same spans, so two rows always cover the same time. Where
counting began within a window, the window has the spans since then.

Example:
    >>> from monitor.core.tables.bands import row_rule
    >>> days = Span(SpanKind.DAY, 6).before(7)
    >>> many, few = (row_rule(np.array([[n, n]]), 11) for n in (5000, 60))
    >>> [span.name for span in chosen_spans("7d", dict.fromkeys(days, many))][-1:]
    ['2024-01-07']
    >>> week = {Span(SpanKind.WEEK, 0): row_rule(np.array([[420, 420]]), 11)}
    >>> [span.name for span in chosen_spans("7d", dict.fromkeys(days, few) | week)]
    ['2024-W01']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from monitor.core.intervals import Floats, divide
from monitor.core.tables.bands import Bands, Bools, Detail
from monitor.core.tables.spans import Span, SpanKind

RUNS: Mapping[str, tuple[tuple[SpanKind, int], ...]] = MappingProxyType(
    {
        "1h": ((SpanKind.HOUR, 1),),
        "24h": ((SpanKind.HOUR, 24), (SpanKind.DAY, 1)),
        "7d": ((SpanKind.DAY, 7), (SpanKind.WEEK, 1)),
        "28d": ((SpanKind.DAY, 28), (SpanKind.WEEK, 4), (SpanKind.FOUR_WEEKS, 1)),
    }
)
"""Of each window the spans it may be made of, the newest choice first."""

_WIDEST = 0.1
_FIRST_HOURS = 48
"""Until a first day has closed, every window is made of the hours that have: fewer than so many."""


def chosen_spans(
    window: str, tables: Mapping[Span, Bands], silent: Mapping[Span, Bools] = MappingProxyType({})
) -> tuple[Span, ...]:
    """Return the spans that a window is made of, oldest first; empty before any choice has closed.

    Args:
        window: its name.
        tables: bands of one measure by span, all of the same rows: every closed span that there
            is. Of labels, those of the first edition.
        silent: rows whose labels do not come in a span. No coarser and older choice is made for
            them.
    """
    runs = [run for kind, count in RUNS[window] if (run := _newest_run(kind, count, tables))]
    # After an outage hours may be missing up to now while days are there: what is finer and older
    # than a coarser choice is no choice.
    latest = [max(run[-1].end for run in runs[place:]) for place in range(len(runs))]
    newest = [run for run, end in zip(runs, latest, strict=True) if run[-1].end >= end]
    closed = newest or [_newest_run(SpanKind.HOUR, _FIRST_HOURS, tables)]
    for place, run in enumerate(closed[:-1]):
        rows = [_shown_in_all(coarser, tables) for coarser in closed[place:]]
        wanted = np.any(rows, axis=0)
        for span in silent.keys() & run:
            wanted = wanted & ~silent[span]
        if (rows[0] >= wanted).all() and (_relative_width(run, tables)[wanted] <= _WIDEST).all():
            return run
    return closed[-1]


def _newest_run(kind: SpanKind, count: int, tables: Mapping[Span, Bands]) -> tuple[Span, ...]:
    """Return the newest ``count`` consecutive spans of a kind, fewer if counting began within.

    Empty if one of them is missing.
    """
    spans = [span for span in tables if span.kind is kind]
    if not spans:
        return ()
    first = min(spans)
    run = tuple(span for span in max(spans).before(count) if span >= first)
    is_whole = len(run) == count or not any(span.end <= run[0].start for span in tables)
    if not is_whole or not all(span in tables for span in run):
        return ()
    return run if len(run) == count else _from_first_shown(run, tables)


def _from_first_shown(run: tuple[Span, ...], tables: Mapping[Span, Bands]) -> tuple[Span, ...]:
    """Return the run from its first span that shows a row; before traffic began, none does."""
    shows = ((tables[span].detail == Detail.COUNTS).any() for span in run)
    return run[next((place for place, shown in enumerate(shows) if shown), 0) :]


def _shown_in_all(run: Sequence[Span], tables: Mapping[Span, Bands]) -> Bools:
    """Return the mask of rows that show their counts in every span of a run."""
    return np.asarray((np.array([tables[s].detail for s in run]) == Detail.COUNTS).all(axis=0))


def _relative_width(run: Sequence[Span], tables: Mapping[Span, Bands]) -> Floats:
    """Return the width of each row's size over the run, relative to its lower end; (rows,)."""
    low = np.sum([tables[span].low[:, 0] for span in run], axis=0)
    high = np.sum([tables[span].high[:, 0] for span in run], axis=0)
    return divide(high - low, low, empty=np.inf)
