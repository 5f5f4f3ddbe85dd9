"""Scores of bias evaluations, as they were sent, beside their limits and the last ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_EXACT = 1e-9
"""Decimals in floating point: .09 - .06 is .03."""


@dataclass(frozen=True, slots=True)
class BiasDimension:
    """A declared dimension.

    Attributes:
        name: by which its results are known.
        limit: the most that is allowed, or the least; None: it has none.
        at_least: whether a lower score is worse.
        drift: so much worse than the last time is a ticket.
        owner: who answers for it.
    """

    name: str
    limit: float | None
    at_least: bool
    drift: float
    owner: str

    def worse_by(self, score: float, than: float) -> float:
        """Amount by which a score is worse than another one; below 0: better."""
        return than - score if self.at_least else score - than


@dataclass(frozen=True, slots=True)
class BiasScore:
    """One result.

    Attributes:
        dimension: name.
        day: that it was measured on, in days since 1970.
        score: of the set as it is.
        items: of the set.
        probe_set: name of the set.
        probe_version: its version.
        model: version of what answered.
        rubric: version of what judged the answers; empty where nothing did.
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
    """The newest result of a dimension.

    Attributes:
        dimension: as declared.
        score: the newest.
        worse_by: than the last one of the same set before it; None: there is none.
    """

    dimension: BiasDimension
    score: BiasScore
    worse_by: float | None

    @property
    def beyond(self) -> bool | None:
        """True when it is beyond its limit; None without one."""
        limit = self.dimension.limit
        return None if limit is None else self.dimension.worse_by(self.score.score, limit) > _EXACT

    @property
    def drifted(self) -> bool | None:
        """True when it has drifted since the last time; None where there is nothing to compare."""
        return None if self.worse_by is None else self.worse_by >= self.dimension.drift - _EXACT


def current_scores(
    dimensions: Iterable[BiasDimension], results: Sequence[BiasScore]
) -> list[CurrentScore]:
    """The newest result of each dimension that has any.

    Args:
        dimensions: declared ones.
        results: in any order; of a day and dimension there is one.
    """
    found = []
    for dimension in dimensions:
        mine = sorted((r for r in results if r.dimension == dimension.name), key=lambda r: r.day)
        if not mine:
            continue
        *earlier, now = mine
        alike = [r for r in earlier if _set_of(r) == _set_of(now)]
        worse_by = dimension.worse_by(now.score, alike[-1].score) if alike else None
        found.append(CurrentScore(dimension, now, worse_by))
    return found


def _set_of(score: BiasScore) -> tuple[str, str]:
    return score.probe_set, score.probe_version
