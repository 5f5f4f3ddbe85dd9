"""Completeness of the labels of a row, computed from published bands and from nothing else.

    completeness = min_s labels_s / asked_s,   asked_s = N_s a_s +- z sqrt(N_s a_s (1 - a_s))

with the decisions N_s and the audit rate a_s of stratum s: of the few audits none may be missing
because the many reviews are there. All counts are at the ends of their bands, and the second term
is there because audits are drawn.

Example:
    >>> from monitor.core.tables.bands import row_rule
    >>> from monitor.core.tables.counted import Counted
    >>> decisions, ready, not_ready = (
    ...     Counted.from_bands(row_rule(np.array(table), 11))
    ...     for table in ([[8000, 900], [40, 60]], [[270, 300], [2, 5]], [[90, 440], [1, 2]])
    ... )
    >>> counts = LabelledCounts(decisions, ready, not_ready, np.array([True, False]))
    >>> shown = completeness(counts, np.array([0.05, 1.0]), limit=0.95)
    >>> for low, high in zip(shown.low, shown.high):
    ...     print(f"{low:.2f} {high:.2f}")
    0.77 0.86
    0.00 1.00
    >>> shown.complete.tolist()
    [False, True]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Z95, Floats, divide
from monitor.core.tables.bands import Bools
from monitor.core.tables.rates import LabelledCounts


@dataclass(frozen=True, slots=True)
class Completeness:
    """Share of the requested labels that have arrived, as bounds in arrays of shape (rows,).

    Attributes:
        low: smallest share that the bands allow; 0 where a table does not show the row.
        high: largest one, at most 1; 1 where a table does not show the row.
        complete: False where the share is certainly below the limit.
        shown: rows that all tables show.
    """

    low: Floats
    high: Floats
    complete: Bools
    shown: Bools


def completeness(
    counts: LabelledCounts, audit_rates: Floats, limit: float, z: float = Z95
) -> Completeness:
    """Return bounds of the share of requested labels that each row has, in its worst stratum.

    Args:
        counts: bands of decisions and labels of one span.
        audit_rates: share of the decisions of each stratum that a label is asked for, 0 to 1,
            shape (strata,).
        limit: smallest share of complete labels.
        z: normal quantile of the draw of audits.
    """
    rates = audit_rates[:, None]
    labels_low = counts.ready.low + counts.not_ready.low
    labels_high = counts.ready.high + counts.not_ready.high
    asked_low = _labels_asked(counts.decisions.low, rates, -z)
    asked_high = _labels_asked(counts.decisions.high, rates, z)
    shown = counts.decisions.shown & counts.ready.shown & counts.not_ready.shown
    least = divide(labels_low, asked_high, empty=1).min(axis=0, initial=1)
    most = divide(labels_high, asked_low, empty=1).min(axis=0, initial=1)
    low, high = np.where(shown, least, 0.0), np.where(shown, most, 1.0)
    return Completeness(low, high, high >= limit, shown)


def _labels_asked(decisions: Int64s, rates: Floats, z: float) -> Floats:
    """Return expected label requests plus z standard deviations, at least 0, (strata, rows)."""
    mean = decisions * rates
    spread = np.sqrt(decisions * rates * (1 - rates))
    return np.asarray((mean + z * spread).clip(min=0))
