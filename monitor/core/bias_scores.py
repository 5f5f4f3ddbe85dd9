"""Scores of bias evaluations, compared with their limits and with earlier scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_EXACT = 1e-9
"""Slack for decimals in floating point: .09 - .06 is .03."""


@dataclass(frozen=True, slots=True)
class BiasDimension:
    """Dimension of bias evaluations as the settings declare it: limit, direction and drift.

    Attributes:
        name: name of the dimension in its results.
        limit: largest allowed score, or smallest with ``at_least``; None without a limit.
        at_least: True if a lower score is worse.
        drift: worsening since the last time from which it is a ticket.
        max_age: days after which a score is due to be measured again; None if it never is.
    """

    name: str
    limit: float | None
    at_least: bool
    drift: float
    max_age: int | None = None

    def worse_by(self, score: float, reference: float) -> float:
        """Return by how much ``score`` is worse than ``reference``; below 0 if it is better."""
        return reference - score if self.at_least else score - reference


@dataclass(frozen=True, slots=True)
class BiasScore:
    """Result of one bias evaluation: the score of one dimension on one day.

    Attributes:
        dimension: name of the dimension.
        day: day of the measurement, in days since 1970.
        items: number of items in the set.
        probe_set: name of the set.
        probe_version: version of the set.
        model: version of the model that answered.
        rubric: version of the rubric that judged the answers; empty without one.
    """

    dimension: str
    day: int
    score: float
    items: int
    probe_set: str
    probe_version: str
    model: str
    rubric: str = ""


@dataclass(frozen=True, slots=True)
class CurrentScore:
    """Newest score of a dimension, with its worsening since the previous score of the same set.

    Attributes:
        worse_by: worsening since the previous result of the same set; None without one.
        due: day, in days since 1970, from which a new measurement is due; None if none will be.
    """

    dimension: BiasDimension
    score: BiasScore
    worse_by: float | None
    due: int | None = None

    @property
    def beyond(self) -> bool | None:
        """True when the score is beyond its limit; None without a limit."""
        limit = self.dimension.limit
        return None if limit is None else self.dimension.worse_by(self.score.score, limit) > _EXACT

    @property
    def drifted(self) -> bool | None:
        """True when the score worsened by the dimension's drift or more; None for a first score."""
        return None if self.worse_by is None else self.worse_by >= self.dimension.drift - _EXACT


def current_scores(
    dimensions: Iterable[BiasDimension], results: Sequence[BiasScore]
) -> list[CurrentScore]:
    """Return a CurrentScore for each dimension with results, in the order of ``dimensions``.

    A score is due when it is too old, or on the day of a newer result that is of another model.

    Args:
        dimensions: declared dimensions.
        results: results in any order, at most one per day and dimension.
    """
    scores = []
    latest = max(results, key=lambda r: r.day, default=None)
    for dimension in dimensions:
        dimension_results = sorted(
            (r for r in results if r.dimension == dimension.name), key=lambda r: r.day
        )
        if not dimension_results:
            continue
        *earlier, newest = dimension_results
        same_set = [r for r in earlier if _set_of(r) == _set_of(newest)]
        worse_by = dimension.worse_by(newest.score, same_set[-1].score) if same_set else None
        due = None if dimension.max_age is None else newest.day + dimension.max_age
        if latest is not None and latest.model != newest.model and latest.day > newest.day:
            due = min(latest.day, latest.day if due is None else due)
        scores.append(CurrentScore(dimension, newest, worse_by, due))
    return scores


def _set_of(score: BiasScore) -> tuple[str, str]:
    return score.probe_set, score.probe_version
