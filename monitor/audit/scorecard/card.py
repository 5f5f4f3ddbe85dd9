"""Scorecard: every dimension with its score, its limit and its verdict, and no total."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from monitor.audit.scorecard.measured import ScorePart


class DimensionVerdict(enum.StrEnum):
    """Verdict on one dimension of a scorecard, for a release."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"  # beyond its limit
    WORSE = "worse"  # within its limit, and worse than the baseline
    INCONCLUSIVE = "inconclusive"  # of real people: the interval contains the limit
    NOT_COMPARED = "not_compared"  # the baseline is of another set, version or measure
    NOT_MEASURED = "not_measured"  # the records say too little
    DIAGNOSTIC = "diagnostic"  # it has no limit

    @property
    def blocks(self) -> bool:
        """Return True if the verdict blocks a release."""
        return self not in (DimensionVerdict.PASS, DimensionVerdict.DIAGNOSTIC)


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """Change of a dimension's score since an earlier scorecard.

    Attributes:
        measured: day of the earlier score, ISO.
        score: the earlier score.
        worse_by: how much worse the score is now; below 0: better.
    """

    measured: str
    score: float
    worse_by: float


@dataclass(frozen=True, slots=True)
class ScoredDimension:
    """Dimension of a scorecard, with its score, limit and verdict.

    Other fields are those of its ``Dimension`` in the file, ``Measure`` and ``MeasuredScore``.

    Attributes:
        measure: name of the measure.
        verdict: verdict by its limit and the baseline.
        why: what keeps it from being measured or compared; otherwise empty.
        score: None where it could not be measured.
        low: lower end of its 95 % interval; None without one.
        limit: highest allowed score, or the lowest where lower is worse; None: diagnostic.
        lower_is_worse: the limit is the lowest allowed score.
        few: fewer items than a set should have, as declared.
        moved: which parts are furthest apart, or which category moved; none for real people.
        overdue: what makes a new measurement due: age, or another model; otherwise empty.
        parts: parts by variant, slice or set; none for records of real people.
        urgent: has high priority.
        synthetic: invented test conditions; False: reviewed data of real people.
        measured: day, ISO.
        previous: change since the last scorecard.
        recalibrate: it has drifted since then: a ticket.
        baseline: change against the model in use.
    """

    name: str
    title: str
    measure: str
    meaning: str
    scale: str
    source: str
    verdict: DimensionVerdict
    why: str
    score: float | None
    low: float | None
    high: float | None
    limit: float | None
    lower_is_worse: bool
    unit: str
    items: int
    left_out: int
    few: bool
    moved: str
    overdue: str
    parts: tuple[ScorePart, ...]
    p_value: float | None
    urgent: bool
    synthetic: bool
    probe_set: str
    probe_version: str
    model: str
    rubric: str | None
    measured: str
    cadence: str
    owner: str
    limitation: str | None
    previous: ScoreChange | None = None
    recalibrate: bool = False
    baseline: ScoreChange | None = None

    @property
    def blocks(self) -> bool:
        """Return True if the dimension blocks a release: by its verdict, or because it is due."""
        return self.verdict.blocks or (self.limit is not None and bool(self.overdue))


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """Result of a public benchmark on a scorecard, without a verdict.

    The fields are those of a ``Benchmark`` in the file; ``measured`` is ISO text.
    """

    name: str
    benchmark: str
    metric: str
    value: float
    items: int
    model: str
    measured: str
    owner: str
    limitation: str


@dataclass(frozen=True, slots=True)
class Scorecard:
    """Scorecard with the verdicts on all dimensions, and no total.

    Attributes:
        name: name of the product.
        developer: who made the model; None where nobody said.
        made: day, ISO.
        version: version of slicewatch.
        dimensions: in the order of the file; at least one.
        benchmarks: in the order of the file.
    """

    name: str
    developer: str | None
    made: str
    version: str
    dimensions: tuple[ScoredDimension, ...]
    benchmarks: tuple[BenchmarkRow, ...] = ()

    @property
    def blocked(self) -> tuple[ScoredDimension, ...]:
        """Return the dimensions that block a release."""
        return tuple(dimension for dimension in self.dimensions if dimension.blocks)

    @property
    def exit_code(self) -> int:
        """Return 0 if no dimension blocks the release, else 1."""
        return int(bool(self.blocked))
