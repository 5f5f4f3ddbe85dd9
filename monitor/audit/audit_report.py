"""Report of an audit: the only input of every renderer.

Everything in it may be shown: for reviewed data of real people it holds guarded numbers only, and
no pair.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from monitor.audit.dataset import DatasetReport
from monitor.audit.inputs import Excluded, RunVersions
from monitor.core.contract import Role, Verdict
from monitor.core.metric import Metric
from monitor.core.probes.flips import FlipCause, FlipDirection, FlipStage
from monitor.core.publish.snapshot import ShownRate

FLIP_SENTENCE = "A flip is a case to investigate, not a population disparity."
SYNTHETIC_SENTENCE = "Synthetic test conditions, not a finding about people."
REPAIRED_SENTENCE = "Regression repaired on synthetic pairs, not validated for release."
REGRESSION, HELD_OUT = "regression", "held_out"
"""Names of the parts of a set."""


class Point(enum.StrEnum):
    """Verdict on a limit by the estimate alone, without its interval.

    In production only intervals decide; here it stands beside what the interval says.
    """

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    BETTER_OFF = "better_off"  # beyond the limit, and another check says who is worse off
    NONE = "none"  # there is no point: no trials, nothing shown, or no pair (see Check.matched)


@dataclass(frozen=True, slots=True)
class VariantOutcome:
    """Decision on one variant of a flip, with what led to it."""

    variant: str
    values: Mapping[str, str]
    route: str
    score: float | None
    threshold: float
    evidence_passed: bool


@dataclass(frozen=True, slots=True)
class ShownFlip:
    """Pair whose two variants took different routes; ``cause`` is None at the evidence gate."""

    pair: str
    by: str
    expected_ready: bool
    reference: VariantOutcome
    variant: VariantOutcome
    direction: FlipDirection
    stage: FlipStage
    cause: FlipCause | None


@dataclass(frozen=True, slots=True)
class FlipCounts:
    """Counts of flips on one axis, among pairs with one expected outcome.

    Two kinds of error that are never added up: of ready replies a flip delays one, of others it
    serves one that is not ready.

    Exact for a synthetic set. Of real people these are pairs, not comparisons, and each number is
    one that the truth is at least; 0 says fewer than k, or too close to the whole to be shown.

    Attributes:
        by: attributes compared, joined by ``+``.
        expected_ready: whether reviewers expect these replies to be ready.
        compared: matched comparisons behind the evidence gate (both variants passed it).
        flips: those of them that took different routes.
        directions: flips by direction.
        stages: all flips, those of the evidence gate too, by stage and cause
            (``evidence_gate``, ``judge_or_route/judge_score``, ...); zeros are absent.
        at_gate: flips that are held outside, since the gate stopped one of the variants or both.
        p_value: McNemar's exact two-sided test on the flips, corrected where pairs have several
            comparisons; 1 without any flip. None of real people.
        withheld: too few for any number: every one is 0 and says nothing.
    """

    by: str
    expected_ready: bool
    compared: int
    flips: int
    directions: Mapping[FlipDirection, int]
    stages: Mapping[str, int]
    at_gate: int
    p_value: float | None
    withheld: bool = False


@dataclass(frozen=True, slots=True)
class SliceLine:
    """Rates of one slice; withheld rates, and those without trials, are absent.

    Attributes:
        group_by: attributes joined by ``+``.
        slice: slice text; ``""`` is all.
        rates: selection, TPR, FPR, blocked and ready.
        supports: trials behind TPR and FPR; an effective number unless synthetic.
        needed: support that the contract asks for.
        tpr_with_blocked: P(auto_serve | ready) where ready replies that the evidence gate stopped
            count as not served; of a synthetic set alone, None without ready items.
    """

    group_by: str
    slice: str
    rates: Mapping[Metric, ShownRate]
    supports: Mapping[Metric, int] = field(default_factory=dict)
    needed: Mapping[Metric, int] = field(default_factory=dict)
    tpr_with_blocked: float | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Check of one slice's metric against a limit, by estimate and by interval.

    Attributes:
        name: ``tpr_gap``, ``fpr_gap``, ``blocked_gap``, ``selection_gap``, ``selection_ratio``,
            ``min_tpr``, ``max_fpr``, ``tpr_not_below_baseline``, ``fpr_not_above_baseline``. Those
            of the baseline are, of a synthetic set, over all items, what the evidence gate stopped
            too: else a candidate would pass by stopping what it gets wrong.
        metric: what is limited.
        slice: the slice that is compared; ``""`` is all.
        against: its reference; empty for levels and the baseline.
        limit: inclusive: the contract's number, or the baseline's own rate. Where that is coded (at
            least, at most) it is the code's edge if the check fails by it, and None otherwise, as
            where the baseline has no rate.
        value: the point; None without one. A gap is positive where the slice is worse off (fewer of
            its ready replies served, more of those that are not, more blocked), and negative where
            its reference is: as everywhere else. A ratio is the slice's rate over its reference's,
            and within its limit from that to one over it.
        lower: lower bound of the value's 95 % interval.
        upper: upper bound.
        point: by the point. One that is beyond the limit fails once: of the slice that is worse
            off; of the slice that is furthest better off where no slice of its group-by is behind
            its complement, or where the named reference is behind.
        verdict: by the interval and the support; None where only the point is meant (baseline).
        matched: of a synthetic set: there are pairs that hold variants of both sides, and a gap is
            over those alone; without any it has no number. Of real people: slice and reference
            hold the very same pairs; where not, the gap is also one between different requests.
        role: of the metric in the contract: its primary one, or a guardrail.
        worse_off: of a gap: ``slice`` or ``against``, whichever its value says; empty where they
            are equal, and where there is no value.
    """

    name: str
    metric: Metric
    slice: str
    against: str
    limit: float | None
    value: float | None
    lower: float | None
    upper: float | None
    point: Point
    verdict: Verdict | None
    matched: bool = True
    worse_off: str = ""
    role: Role = Role.PRIMARY


@dataclass(frozen=True, slots=True)
class SupportCheck:
    """Check of a slice's positives (TPR) or negatives (FPR) against the contract's minimum.

    Of real people pairs are counted, which are one request each, however many variants the slice
    holds of them; of a synthetic set variants.
    """

    metric: Metric
    slice: str
    support: int
    needed: int
    met: bool


@dataclass(frozen=True, slots=True)
class CalibrationLine:
    """P(ready | score band) in one slice; bands without items have no line.

    Attributes:
        slice: slice text.
        band: name of the score band.
        n: items in it.
        rate: of them, ready; None where withheld.
        sufficient: at least ten.
    """

    slice: str
    band: str
    n: int
    rate: ShownRate | None
    sufficient: bool


@dataclass(frozen=True, slots=True)
class WhatIfLine:
    """Outcome of another common threshold on the audited items; a look back, no forecast.

    Attributes:
        threshold: applied to every variant.
        current: whether it is among those that decided.
        flips: comparisons behind the evidence gate with different routes.
        tpr: by slice text, of one attribute; None without ready variants behind the gate.
        fpr: the same of those that are not ready.
        tpr_gap: largest gap to the reference slice, positive where the other slice is worse off;
            without a reference between any two, worst to best.
        fpr_gap: the same.
    """

    threshold: float
    current: bool
    flips: int
    tpr: Mapping[str, float | None]
    fpr: Mapping[str, float | None]
    tpr_gap: float | None
    fpr_gap: float | None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Usual remedies for a stage that fails, and what does not help; hypotheses to test."""

    stage: str
    helps: str
    does_not_help: str


@dataclass(frozen=True, slots=True)
class Part:
    """Results of a run on one part of a set: items in use, or held-out ones.

    Attributes:
        name: ``regression`` or ``held_out``.
        pairs: compared pairs.
        flips: first of all; empty also where they are withheld.
        flips_withheld: the set is of real people: flips are counted, never listed.
        counts: flips by axis.
        slices: total first, then the slices of every group-by, intersections too.
        checks: contract checks.
        supports: support checks.
        calibration: by slice and band.
        what_if: thresholds, rising; empty where withheld.
        advice: for the stages at which it failed.
    """

    name: str
    pairs: int
    flips: tuple[ShownFlip, ...]
    flips_withheld: bool
    counts: tuple[FlipCounts, ...]
    slices: tuple[SliceLine, ...]
    checks: tuple[Check, ...]
    supports: tuple[SupportCheck, ...]
    calibration: tuple[CalibrationLine, ...]
    what_if: tuple[WhatIfLine, ...]
    advice: tuple[Recommendation, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Results of one router, baseline or candidate, on the set.

    Attributes:
        title: ``baseline`` or ``candidate``.
        versions: every tuple that decided, sorted; of real people those that decided on at least k
            pairs, so that it may be empty, and one alone need not have decided on all.
        thresholds: those that were applied, rising; of real people by the same rule, since a
            threshold may be somebody's own.
        parts: the regression part, then the held-out one if there is one.
    """

    title: str
    versions: tuple[RunVersions, ...]
    thresholds: tuple[float, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences between candidate and baseline on the pairs of one part.

    Attributes:
        repaired: flips of the baseline that are none any more, by pair (``pair/reference/variant``
            where a pair has several comparisons).
        still_failing: flips of both.
        newly_failing: flips of the candidate alone.
        newly_held_back: ready variants that the baseline served and the candidate does not, as
            ``pair/variant``.
        newly_served: not ready ones that the candidate serves and the baseline did not.
        sentence: what may be said of it.
    """

    repaired: tuple[str, ...]
    still_failing: tuple[str, ...]
    newly_failing: tuple[str, ...]
    newly_held_back: tuple[str, ...]
    newly_served: tuple[str, ...]
    sentence: str


class Requirement(enum.StrEnum):
    """Requirement that must be met before a release."""

    PAIRS = "synthetic_regression_pairs_pass"
    REVIEWED_SET = "representative_reviewed_slice_set"
    SUPPORT = "minimum_positive_and_negative_support"
    PRIVACY_REVIEW = "approved_group_definition_and_privacy_review"
    OWNER = "production_monitoring_owner"


@dataclass(frozen=True, slots=True)
class RequirementLine:
    """Release requirement with its outcome: met or missing, by whom, when and why."""

    requirement: Requirement
    met: bool
    by: str
    at: date | None
    why: str


@dataclass(frozen=True, slots=True)
class LimitsLine:
    """Verdict on all limits of one metric, over all parts and slices.

    Attributes:
        role: primary or guardrail.
        metric: of the limits.
        verdict: the worst of its checks: of a synthetic set by the points, where no point is
            insufficient_support; of real people by the intervals too.
    """

    role: Role
    metric: Metric
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class ReleaseDecision:
    """Decision on a release, with its requirements and the verdicts on the contract's limits."""

    approved: bool
    requirements: tuple[RequirementLine, ...]
    limits: tuple[LimitsLine, ...] = ()

    @property
    def guardrail_alone(self) -> bool:
        """Return True if a guardrail's limit fails, and no limit of the primary metric."""
        failed = {line.role for line in self.limits if line.verdict is Verdict.FAIL}
        return failed == {Role.GUARDRAIL}

    @property
    def word(self) -> str:
        """Return the decision as printed: APPROVED or BLOCKED."""
        return "APPROVED" if self.approved else "BLOCKED"

    @property
    def missing(self) -> tuple[Requirement, ...]:
        """Return the requirements that are not met."""
        return tuple(line.requirement for line in self.requirements if not line.met)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Whole report of an audit, from which every format is rendered.

    Attributes:
        dataset: name and version of the set.
        digest: hash of the set's content.
        results_digest: hash of everything that was decided in the judged run, and in the baseline
            where there is a candidate: of each variant the route, the score and what it met.
        made_on: the day of the report (UTC), by which signatures are judged.
        program: name and version of what made it.
        synthetic: whether the set is invented; said on every output.
        contract: name and version of the contract.
        k: smallest cell shown.
        excluded: pairs that are not compared; any of them makes the exit code 2.
        baseline: the first file.
        candidate: the other one, which the decision is then about; None without one.
        comparison: of the two, on the regression part; None without a candidate or without a pair,
            and where withheld.
        decision: None where it could not be made, because pairs are excluded.
        training: the training set's representation, where its counts were given.
        held_out_comparison: the same on the held-out part.
    """

    dataset: str
    digest: str
    results_digest: str
    made_on: date
    program: str
    synthetic: bool
    contract: str
    k: int
    excluded: tuple[Excluded, ...]
    baseline: Run
    candidate: Run | None
    comparison: Comparison | None
    decision: ReleaseDecision | None
    training: DatasetReport | None = None
    held_out_comparison: Comparison | None = None

    @property
    def notes(self) -> list[str]:
        """Return the sentences that every output must show."""
        return [SYNTHETIC_SENTENCE, FLIP_SENTENCE] if self.synthetic else [FLIP_SENTENCE]

    @property
    def judged(self) -> Run:
        """Return the run that the decision is about: the candidate's, else the baseline's."""
        return self.candidate or self.baseline

    @property
    def exit_code(self) -> int:
        """Return 0 if approved, 1 blocked, 2 not evaluated, 3 blocked by guardrails alone."""
        if self.decision is None:
            return 2
        if self.decision.approved:
            return 0
        return 3 if self.decision.guardrail_alone else 1
