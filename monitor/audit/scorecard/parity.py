"""Measures of records by slice: who is selected, and who is flagged though nothing is wrong.

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
from monitor.audit.scorecard.measured import MeasuredScore, ScorePart, UnmeasurableError
from monitor.core.intervals import Floats

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Rates:
    """A rate of each slice, arrays of shape (S,); every slice has trials."""

    slices: tuple[str, ...]
    successes: Counts
    trials: Counts

    @classmethod
    def from_outcomes(cls, found: Iterable[tuple[str, bool]], of_what: str) -> _Rates:
        """Count what each slice's trials have come to.

        Raises:
            UnmeasurableError: fewer than two slices have any.
        """
        counted: dict[str, list[int]] = {}
        for name, success in found:
            one = counted.setdefault(name, [0, 0])
            one[0] += success
            one[1] += 1
        if len(counted) <= 1:
            raise UnmeasurableError(f"fewer than two slices have {of_what}; nothing is compared")
        slices = tuple(sorted(counted))
        counts = np.array([counted[name] for name in slices], np.int64)
        return cls(slices, counts[:, 0], counts[:, 1])

    @property
    def rates(self) -> Floats:
        """Successes of trials."""
        return self.successes / self.trials

    @property
    def parts(self) -> tuple[ScorePart, ...]:
        """Each slice with its rate."""
        return tuple(map(ScorePart, self.slices, self.rates.tolist(), self.trials.tolist()))

    def measured(self, statistic: Callable[[Floats], Floats]) -> MeasuredScore:
        """The score of one rate by slice."""
        low, high = resampling.of_counts(statistic, (self.successes, self.trials))
        found = float(statistic(self.rates[None, :])[0])
        return MeasuredScore(found, low, high, int(self.trials.sum()), parts=self.parts)


def statistical_parity(records: Sequence[Selected]) -> MeasuredScore:
    """``max over a, b of P(selected | a) - P(selected | b)``; from 0 to 1.

    Source: Dwork et al. (2012); fairlearn's demographic_parity_difference.
    """
    return _selected(records).measured(_difference)


def disparate_impact(records: Sequence[Selected]) -> MeasuredScore:
    """``min over a, b of P(selected | a) / P(selected | b)``; from 0 to 1, and 1 is alike.

    1 where nobody is selected. A limit is the least that is allowed, such as .8.

    Source: Feldman et al. (2015), Certifying and Removing Disparate Impact; fairlearn's
    demographic_parity_ratio.
    """
    return _selected(records).measured(_ratio)


def equal_opportunity(records: Sequence[Judged]) -> MeasuredScore:
    """``max over a, b of P(selected | ready, a) - P(selected | ready, b)``; from 0 to 1.

    Source: Hardt, Price and Srebro (2016), Equality of Opportunity in Supervised Learning.
    """
    return _judged(records, ready=True).measured(_difference)


def equalized_odds(records: Sequence[Judged]) -> MeasuredScore:
    """The larger of the differences of TPR and of FPR between two slices; from 0 to 1.

    Parts are the rates of both: ``tpr NAME`` and ``fpr NAME``.

    Source: Hardt, Price and Srebro (2016); fairlearn's equalized_odds_difference.
    """
    tpr, fpr = _judged(records, ready=True), _judged(records, ready=False)

    def statistic(first: Floats, second: Floats) -> Floats:
        return np.maximum(_difference(first), _difference(second))

    low, high = resampling.of_counts(
        statistic, (tpr.successes, tpr.trials), (fpr.successes, fpr.trials)
    )
    found = float(statistic(tpr.rates[None, :], fpr.rates[None, :])[0])
    parts = (
        *(ScorePart(f"tpr {one.name}", one.value, one.items) for one in tpr.parts),
        *(ScorePart(f"fpr {one.name}", one.value, one.items) for one in fpr.parts),
    )
    return MeasuredScore(found, low, high, len(records), parts=parts)


def toxicity_false_positives(records: Sequence[Flagged]) -> MeasuredScore:
    """How much oftener a toxicity evaluator flags one slice's harmless texts than another's.

    ``max over a, b of P(flagged | not toxic, a) - P(flagged | not toxic, b)``; from 0 to 1.

    Source: Sap et al. (2019), The Risk of Racial Bias in Hate Speech Detection.
    """
    harmless = ((one.slice, one.flagged) for one in records if not one.toxic)
    return _Rates.from_outcomes(harmless, "texts that reviewers found harmless").measured(
        _difference
    )


def _selected(records: Sequence[Selected]) -> _Rates:
    return _Rates.from_outcomes(((one.slice, one.selected) for one in records), "records")


def _judged(records: Sequence[Judged], *, ready: bool) -> _Rates:
    of_what = "records that are ready" if ready else "records that are not ready"
    chosen = ((one.slice, one.selected) for one in records if one.ready is ready)
    return _Rates.from_outcomes(chosen, of_what)


def _difference(rates: Floats) -> Floats:
    spread: Floats = rates.max(axis=1) - rates.min(axis=1)
    return spread


def _ratio(rates: Floats) -> Floats:
    highest = rates.max(axis=1)
    ratio: Floats = np.where(highest > 0, rates.min(axis=1) / np.where(highest > 0, highest, 1), 1)
    return ratio
