"""Measures of records by slice: rates of selection, and of false flags.

Differences and ratios are those of fairlearn: between the slice with the highest and the slice with
the lowest rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.audit.scorecard import resampling
from monitor.audit.scorecard.dimension_records import Flagged, Judged, Selected
from monitor.audit.scorecard.measured import (
    MeasuredScore,
    ScorePart,
    UnmeasurableError,
    furthest_apart,
)
from monitor.core.intervals import Floats

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Rates:
    """Successes and trials by slice, arrays of shape (S,); every slice has trials."""

    slices: tuple[str, ...]
    successes: Counts
    trials: Counts

    @classmethod
    def from_outcomes(cls, outcomes: Iterable[tuple[str, bool | None]], noun: str) -> _Rates:
        """Count successes and trials of (slice, success) outcomes; errors name ``noun``.

        A success of None is no trial. A slice without trials would silently not be compared.

        Raises:
            UnmeasurableError: fewer than two slices have trials, or a slice has none.
        """
        by_slice: dict[str, list[int]] = {}
        for name, success in outcomes:
            counts = by_slice.setdefault(name, [0, 0])
            counts[0] += bool(success)
            counts[1] += success is not None
        without = sum(not trials for _, trials in by_slice.values())
        if len(by_slice) - without <= 1:
            raise UnmeasurableError(f"fewer than two slices have {noun}; nothing is compared")
        if without:
            raise UnmeasurableError(f"{without} of {len(by_slice)} slices have no {noun}")
        slices = tuple(sorted(by_slice))
        count_rows = np.array([by_slice[name] for name in slices], np.int64)
        return cls(slices, count_rows[:, 0], count_rows[:, 1])

    @property
    def rates(self) -> Floats:
        """Return successes / trials, shape (S,)."""
        return self.successes / self.trials

    @property
    def parts(self) -> tuple[ScorePart, ...]:
        """Return each slice with its rate and trials as a part of the score."""
        return tuple(map(ScorePart, self.slices, self.rates.tolist(), self.trials.tolist()))

    def measured(self, statistic: Callable[[Floats], Floats]) -> MeasuredScore:
        """Return a statistic's score on the rates with its interval and one part per slice."""
        low, high = resampling.of_counts(statistic, (self.successes, self.trials))
        score = float(statistic(self.rates[None, :])[0])
        return MeasuredScore(
            *(score, low, high, int(self.trials.sum())),
            parts=self.parts,
            moved=furthest_apart(self.parts),
        )


def statistical_parity(records: Sequence[Selected]) -> MeasuredScore:
    """Compute the largest difference between two slices' selection rates, 0 to 1.

    ``max over a, b of P(selected | a) - P(selected | b)``.

    Source: Dwork et al. (2012); fairlearn's demographic_parity_difference.
    """
    return _selected(records).measured(_difference)


def disparate_impact(records: Sequence[Selected]) -> MeasuredScore:
    """Compute the lowest slice's selection rate over the highest's, 0 to 1 (alike).

    ``min over a, b of P(selected | a) / P(selected | b)``; no value where nobody is selected. A
    limit is the least that is allowed, such as .8.

    Source: Feldman et al. (2015), Certifying and Removing Disparate Impact; fairlearn's
    demographic_parity_ratio.
    """
    selected = _selected(records)
    if not selected.successes.any():
        raise UnmeasurableError("nobody is selected in any slice, and 0/0 is no ratio")
    return selected.measured(_ratio)


def equal_opportunity(records: Sequence[Judged]) -> MeasuredScore:
    """Compute the largest difference between two slices' TPRs, 0 to 1.

    ``max over a, b of P(selected | ready, a) - P(selected | ready, b)``.

    Source: Hardt, Price and Srebro (2016), Equality of Opportunity in Supervised Learning.
    """
    return _judged(records, ready=True).measured(_difference)


def equalized_odds(records: Sequence[Judged]) -> MeasuredScore:
    """Compute the larger of the largest differences of TPR and of FPR, 0 to 1.

    Parts are the rates of both: ``tpr NAME`` and ``fpr NAME``.

    Source: Hardt, Price and Srebro (2016); fairlearn's equalized_odds_difference.
    """
    tpr, fpr = _judged(records, ready=True), _judged(records, ready=False)

    def statistic(first: Floats, second: Floats) -> Floats:
        return np.maximum(_difference(first), _difference(second))

    low, high = resampling.of_counts(
        statistic, (tpr.successes, tpr.trials), (fpr.successes, fpr.trials)
    )
    score = float(statistic(tpr.rates[None, :], fpr.rates[None, :])[0])
    parts = (
        *(ScorePart(f"tpr {part.name}", part.value, part.items) for part in tpr.parts),
        *(ScorePart(f"fpr {part.name}", part.value, part.items) for part in fpr.parts),
    )
    wider = max((tpr, fpr), key=lambda rates: float(np.ptp(rates.rates)))
    moved = f"{'tpr' if wider is tpr else 'fpr'}: {furthest_apart(wider.parts)}"
    return MeasuredScore(score, low, high, len(records), parts=parts, moved=moved)


def toxicity_false_positives(records: Sequence[Flagged]) -> MeasuredScore:
    """Compute the largest difference between slices' rates of flagged harmless texts.

    ``max over a, b of P(flagged | not toxic, a) - P(flagged | not toxic, b)``; from 0 to 1.

    Source: Sap et al. (2019), The Risk of Racial Bias in Hate Speech Detection.
    """
    harmless = ((record.slice, None if record.toxic else record.flagged) for record in records)
    return _Rates.from_outcomes(harmless, "texts that reviewers found harmless").measured(
        _difference
    )


def _selected(records: Sequence[Selected]) -> _Rates:
    return _Rates.from_outcomes(((record.slice, record.selected) for record in records), "records")


def _judged(records: Sequence[Judged], *, ready: bool) -> _Rates:
    """Return selection rates by slice among records that are ready, or among the others."""
    noun = "records that are ready" if ready else "records that are not ready"
    outcomes = (
        (record.slice, record.selected if record.ready is ready else None) for record in records
    )
    return _Rates.from_outcomes(outcomes, noun)


def _difference(rates: Floats) -> Floats:
    spread: Floats = rates.max(axis=1) - rates.min(axis=1)
    return spread


def _ratio(rates: Floats) -> Floats:
    """Return the lowest rate over the highest of each row; 1 if all are 0."""
    highest = rates.max(axis=1)
    ratio: Floats = np.where(highest > 0, rates.min(axis=1) / np.where(highest > 0, highest, 1), 1)
    return ratio
