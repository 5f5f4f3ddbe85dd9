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
    >>> completeness(counts, np.array([0.05, 1.0])).round(2).tolist()
    [0.86, 1.0]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Z95, Floats, divide
from monitor.core.metric import Among, Metric
from monitor.core.tables.bands import Bools
from monitor.core.tables.counted import Counted
from monitor.core.tables.rates import LabelledCounts

_TOLERATED = 0.02
"""Share of missing labels that verdicts need not allow for. A usual loss is 1 to 1.5 %; if each of
these labels said the worst, hardly any FPR at audits of 5 % would be within a limit of .10."""

_FEWEST = 11
"""Fewest missing labels of a part that verdicts allow for: a band of the usual k begins there."""

_SURE = 3.0
"""Normal quantile of the draw of audits up to which labels may have been requested."""


@dataclass(frozen=True, slots=True)
class MissingLabels:
    """Requested labels that have not come, as bounds.

    Attributes:
        least: smallest missing share of the part that lacks most, shape (rows,).
        most: largest number in each part, shape (parts, rows).
    """

    least: Floats
    most: Floats

    @property
    def matter(self) -> Bools:
        """Return True for each row whose verdicts must allow for any answers of them."""
        return np.asarray(self.least > _TOLERATED)


def completeness(counts: LabelledCounts, audit_rates: Floats, z: float = Z95) -> Floats:
    """Return the largest share of requested labels that each row may have, shape (rows,).

    It is that of the row's worst stratum; 1 where a table does not show the row.

    Args:
        counts: bands of decisions and labels of the spans, added up.
        audit_rates: share of the decisions of each stratum that a label is asked for, 0 to 1,
            shape (strata,).
        z: normal quantile of the draw of audits.
    """
    asked = _labels_asked(counts.decisions.low, audit_rates[:, None], -z)
    most = divide(counts.labels_high, asked, empty=1).min(axis=0, initial=1)
    return np.where(counts.shown, most, 1.0)


def missing_labels(
    counts: LabelledCounts, audit_rates: Floats, week: LabelledCounts, unanswered: Counted
) -> MissingLabels:
    """Return how many labels of some spans are missing, by the shares that a week shows.

    Args:
        counts: bands of decisions and labels of the spans.
        audit_rates: as in :func:`completeness`.
        week: those of the week.
        unanswered: bands of its requested labels that have not come.
    """
    lowest, highest = week.labels_low, week.labels_high
    told = (unanswered.low >= _FEWEST) & unanswered.shown & week.shown
    least = np.where(told, divide(unanswered.low, unanswered.low + highest, empty=0), 0)
    share = np.where(week.shown, divide(unanswered.high, unanswered.high + lowest, empty=0), 0)
    asked = _labels_asked(counts.decisions.high, audit_rates[:, None], _SURE)
    most = np.minimum(asked * share, (asked - counts.labels_low).clip(min=0))
    return MissingLabels(least.max(axis=0, initial=0), np.ceil(most))


def with_worst_answers(
    counts: LabelledCounts, missing: Floats, metric: Metric, *, raises: bool
) -> LabelledCounts:
    """Return the counts as if each missing label had come, and said what moves the rate most.

    Args:
        counts: bands of decisions and labels.
        missing: labels that may be missing, shape (parts, rows).
        metric: TPR, FPR, READY or PRECISION.
        raises: True to raise the rate, False to lower it.
    """
    served = counts.served[:, None]
    says_ready = np.full_like(served, raises)
    if not metric.of_ready:
        says_ready = served == (raises == (metric.row.among is Among.READY))
    ready, not_ready = np.where(says_ready, missing, 0), np.where(says_ready, 0, missing)
    return replace(
        counts, ready=counts.ready.plus(ready), not_ready=counts.not_ready.plus(not_ready)
    )


def _labels_asked(decisions: Int64s, rates: Floats, z: float) -> Floats:
    """Return expected label requests plus z standard deviations, at least 0, (strata, rows)."""
    mean = decisions * rates
    spread = np.sqrt(decisions * rates * (1 - rates))
    return np.asarray((mean + z * spread).clip(min=0))
