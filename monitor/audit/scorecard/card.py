"""The scorecard: every dimension with its score, its limit and its verdict, and never a total."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from monitor.audit.scorecard.measured import ScorePart


class DimensionVerdict(enum.StrEnum):
    """Answer of a dimension for a release."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"  # beyond its limit
    WORSE = "worse"  # within its limit, and worse than the baseline
    OVERDUE = "overdue"  # measured longer ago than its cadence allows
    NOT_MEASURED = "not_measured"  # the records say too little
    DIAGNOSTIC = "diagnostic"  # it has no limit

    @property
    def blocks(self) -> bool:
        """True when a release has to wait."""
        return self not in (DimensionVerdict.PASS, DimensionVerdict.DIAGNOSTIC)


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """A score beside an earlier one of the same measure on the same set.

    Attributes:
        measured: the day of the earlier one, ISO.
        score: the earlier one.
        worse_by: how much worse it is now; below 0: better.
    """

    measured: str
    score: float
    worse_by: float


@dataclass(frozen=True, slots=True)
class ScoredDimension:
    """One dimension.

    Attributes:
        name: of it.
        title: of its measure.
        measure: name of the measure.
        meaning: the score in a sentence.
        scale: its range.
        source: of the formula.
        verdict: beside its limit and the baseline.
        why: what keeps it from being measured or compared; empty else.
        score: None where it could not be measured.
        low: lower end of its 95 % interval; None where there is none.
        high: upper end.
        limit: the most that is allowed, or the least where lower is worse; None: diagnostic.
        lower_is_worse: whether the limit is the least that is allowed.
        items: matched items, or records.
        left_out: items that lack a variant.
        few: so few items that another set might well give another verdict.
        parts: by variant, slice or set; none for records of real people.
        p_value: of the measure's test.
        urgent: has high priority.
        synthetic: invented test conditions; False: reviewed data of real people.
        probe_set: name of the set.
        probe_version: its version.
        model: version of what answered.
        rubric: version of what judged the answers; None where nothing did.
        measured: day, ISO.
        cadence: how often.
        owner: who answers for it.
        limitation: what it does not say; None where nobody wrote any.
        previous: beside the score of the last time.
        recalibrate: it has drifted since then: a ticket.
        baseline: beside the score of what is in use.
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
    items: int
    left_out: int
    few: bool
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


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """A result of a public benchmark, with what it does not say.

    Attributes:
        name: of the row.
        benchmark: whose set it is.
        metric: as the benchmark calls it.
        value: as it was measured.
        items: of the set.
        model: version of what answered.
        measured: day, ISO.
        owner: who answers for it.
        limitation: what it does not say.
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
    """All dimensions.

    Attributes:
        name: of what they are of.
        made: day, ISO.
        version: of slicewatch.
        dimensions: in the order of the file; at least one.
        benchmarks: in the order of the file.
    """

    name: str
    made: str
    version: str
    dimensions: tuple[ScoredDimension, ...]
    benchmarks: tuple[BenchmarkRow, ...] = ()

    @property
    def blocked(self) -> tuple[ScoredDimension, ...]:
        """The dimensions for which a release has to wait."""
        return tuple(one for one in self.dimensions if one.verdict.blocks)

    @property
    def exit_code(self) -> int:
        """0: no dimension blocks; 1: at least one does."""
        return int(bool(self.blocked))
