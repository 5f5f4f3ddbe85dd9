"""Audit reports made by hand, with the lesson's numbers: what renderers are tested on.

Invented test conditions, not groups of people.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from monitor.audit.audit_report import (
    REPAIRED_SENTENCE,
    AuditReport,
    CalibrationLine,
    Check,
    Comparison,
    FlipCounts,
    Part,
    Point,
    Recommendation,
    ReleaseDecision,
    Requirement,
    RequirementLine,
    Run,
    ShownFlip,
    SliceLine,
    SupportCheck,
    VariantOutcome,
    WhatIfLine,
)
from monitor.audit.inputs import Excluded, RunVersions
from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.probes.flips import FlipCause, FlipDirection, FlipStage
from monitor.core.publish.snapshot import ShownRate

VARIETY = "language_variety"
FORMAL, CONVERSATIONAL = f"{VARIETY}=formal", f"{VARIETY}=conversational"
NEEDED = {Metric.TPR: 50, Metric.FPR: 30}


def outcome(variety: str, score: float, **more: object) -> VariantOutcome:
    route = "auto_serve" if score >= 0.7 else "human_review"
    return replace(
        VariantOutcome(variety, {VARIETY: variety}, route, score, 0.7, True),
        **more,  # type: ignore[arg-type]
    )


def flip(pair: str, ready: bool, formal: float, conversational: float) -> ShownFlip:
    return ShownFlip(
        pair,
        VARIETY,
        ready,
        outcome("formal", formal),
        outcome("conversational", conversational),
        FlipDirection.HELD_BACK,
        FlipStage.JUDGE_OR_ROUTE,
        FlipCause.JUDGE_SCORE,
    )


AT_GATE = ShownFlip(
    "g1",
    VARIETY,
    True,
    outcome("formal", 0.66),
    outcome("conversational", 0.9, evidence_passed=False, route="blocked_by_evidence"),
    FlipDirection.HELD_BACK,
    FlipStage.EVIDENCE_GATE,
    None,
)
FLIPS = (flip("p4", True, 0.78, 0.67), flip("p5", True, 0.74, 0.56), flip("n1", False, 0.71, 0.60))
COUNTS = FlipCounts(
    by=VARIETY,
    expected_ready=True,
    compared=6,
    flips=2,
    directions={FlipDirection.HELD_BACK: 2, FlipDirection.SERVED: 0},
    stages={"judge_or_route/judge_score": 2},
    at_gate=0,
    p_value=0.5,
)
COUNTS_NOT_READY = replace(
    COUNTS,
    expected_ready=False,
    compared=4,
    flips=1,
    directions={FlipDirection.HELD_BACK: 1, FlipDirection.SERVED: 0},
    stages={"judge_or_route/judge_score": 1},
    p_value=1.0,
)
SLICES = (
    SliceLine(
        VARIETY,
        FORMAL,
        {
            Metric.SELECTION: ShownRate(0.6, 0.313, 0.832, 10),
            Metric.TPR: ShownRate(5 / 6, 0.4365, 0.9699, 6),
            Metric.FPR: ShownRate(0.25, 0.0456, 0.6994, 4),
            Metric.BLOCKED: ShownRate(0.0, 0.0, 0.278, 10),
        },
        {Metric.TPR: 6, Metric.FPR: 4},
        NEEDED,
    ),
    SliceLine(
        VARIETY,
        CONVERSATIONAL,
        {
            Metric.SELECTION: ShownRate(0.3, 0.108, 0.603, 10),
            Metric.TPR: ShownRate(0.5, 0.1876, 0.8124, 6),
            Metric.FPR: ShownRate(0.0, 0.0, 0.4899, 4),
        },
        {Metric.TPR: 6, Metric.FPR: 4},
        NEEDED,
    ),
    SliceLine(
        f"channel+{VARIETY}",
        f"channel=chat,{CONVERSATIONAL}",
        {Metric.TPR: ShownRate(1.0, 0.4385, 1.0, 3)},
        {Metric.TPR: 3},
        NEEDED,
    ),
)


def gap(metric: Metric, value: float, lower: float, upper: float) -> Check:
    return Check(
        name=f"{metric.value}_gap",
        metric=metric,
        slice=CONVERSATIONAL,
        against=FORMAL,
        limit=0.1,
        value=value,
        lower=lower,
        upper=upper,
        point=Point.FAIL,
        verdict=Verdict.INSUFFICIENT_SUPPORT,
        worse_off=CONVERSATIONAL if value > 0 else FORMAL,
    )


CHECKS = (gap(Metric.TPR, 1 / 3, -0.1722, 0.6741), gap(Metric.FPR, -0.25, -0.6991, 0.2811))
PART = Part(
    name="regression",
    pairs=10,
    flips=FLIPS,
    flips_withheld=False,
    counts=(COUNTS, COUNTS_NOT_READY),
    slices=SLICES,
    checks=CHECKS,
    supports=(SupportCheck(Metric.TPR, CONVERSATIONAL, 6, 50, met=False),),
    calibration=(
        CalibrationLine(CONVERSATIONAL, "0.70 to 0.90", 3, ShownRate(1.0, 0.438, 1.0, 3), False),
        CalibrationLine(FORMAL, "0.90 and above", 1, ShownRate(1.0, 0.2065, 1.0, 1), False),
    ),
    what_if=(
        WhatIfLine(0.65, False, 2, {FORMAL: 1.0}, {FORMAL: 0.5}, 1 / 3, -0.5),
        WhatIfLine(0.7, True, 3, {FORMAL: 5 / 6, CONVERSATIONAL: None}, {}, 1 / 3, -0.25),
    ),
    advice=(Recommendation("judge_score", "Look at the rubric.", "Rewriting customers' text."),),
)
QUIET = replace(
    PART,
    flips=(),
    counts=tuple(
        replace(one, flips=0, directions={}, stages={}, p_value=1.0)
        for one in (COUNTS, COUNTS_NOT_READY)
    ),
    checks=(replace(CHECKS[0], value=0.0, lower=-0.4, upper=0.4, point=Point.PASS, worse_off=""),),
    advice=(),
)
BASELINE = Run("baseline", (RunVersions("j1", "r1", "p1", "t1"),), (0.7,), (PART,))
CANDIDATE = Run("candidate", (RunVersions("j2", "r1", "p1", "t1"),), (0.7,), (QUIET,))


def decision(*met: Requirement) -> ReleaseDecision:
    lines = tuple(
        RequirementLine(
            requirement=one,
            met=one in met,
            by="release board" if one in met else "",
            at=date(2026, 6, 1) if one in met else None,
            why="signed off" if one in met else "nobody has signed it off",
        )
        for one in Requirement
    )
    return ReleaseDecision(len(met) == len(lines), lines)


BLOCKED = AuditReport(
    dataset="ten-pairs 1",
    digest="0123456789abcdef" * 4,
    results_digest="fedcba9876543210" * 4,
    made_on=date(2026, 6, 1),
    program="slicewatch 0.1.0",
    synthetic=True,
    contract="ten-pairs 1",
    k=1,
    excluded=(),
    baseline=BASELINE,
    candidate=None,
    comparison=None,
    decision=decision(),
)
APPROVED = replace(
    BLOCKED, baseline=replace(BASELINE, parts=(QUIET,)), decision=decision(*Requirement)
)
EXCLUDED = replace(
    BLOCKED, excluded=(Excluded("p9", "variant conversational is missing: add it"),), decision=None
)
COMPARED = replace(
    BLOCKED,
    candidate=CANDIDATE,
    comparison=Comparison(
        repaired=("n1", "p4", "p5"),
        still_failing=(),
        newly_failing=(),
        newly_held_back=(),
        newly_served=("n2/formal",),
        sentence=REPAIRED_SENTENCE,
    ),
    decision=decision(Requirement.PAIRS),
)
HELD_OUT = replace(
    BLOCKED, baseline=replace(BASELINE, parts=(QUIET, replace(PART, name="held_out", pairs=2)))
)
GUARDED = replace(
    BLOCKED,
    synthetic=False,
    k=11,
    baseline=replace(
        BASELINE,
        parts=(
            replace(
                PART,
                pairs=400,
                flips=(),
                flips_withheld=True,
                counts=(
                    replace(COUNTS, compared=394, flips=23),
                    replace(COUNTS, by="channel", compared=0, flips=0, withheld=True),
                ),
                slices=(
                    SliceLine(
                        VARIETY,
                        FORMAL,
                        {
                            Metric.TPR: ShownRate(0.83, 0.74, 0.9, 118),
                            Metric.FPR: ShownRate(None, 0.0, 0.11, 94, at_most=0.1),
                        },
                        {Metric.TPR: 118, Metric.FPR: 94},
                        NEEDED,
                    ),
                ),
                what_if=(),
            ),
        ),
    ),
)
"""Reviewed data of real people: guarded numbers, and no pair."""
