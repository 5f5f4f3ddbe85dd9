"""The rows of the surface table for what ``slicewatch audit`` says, in every format."""

from __future__ import annotations

from surface_types import Row, Surface, rows_for

from monitor.core.privacy.rules import PrivacyRule as Rule

_AUDIT = Surface.AUDIT

AUDIT: tuple[Row, ...] = (
    *rows_for(
        _AUDIT, Rule.AUDITED, "flips, one by one in a synthetic set alone",
        "Part.flips Part.flips_withheld ShownFlip.pair ShownFlip.by ShownFlip.expected_ready",
        "ShownFlip.reference ShownFlip.variant ShownFlip.direction ShownFlip.stage ShownFlip.cause",
        "VariantOutcome.variant VariantOutcome.values VariantOutcome.route VariantOutcome.score",
        "VariantOutcome.threshold VariantOutcome.evidence_passed",
    ),
    *rows_for(
        _AUDIT, Rule.AUDITED, "pairs, in bands from k unless synthetic; p of a synthetic set alone",
        "Part.pairs Part.counts FlipCounts.compared FlipCounts.flips FlipCounts.directions",
        "FlipCounts.stages FlipCounts.at_gate FlipCounts.p_value FlipCounts.withheld",
    ),
    *rows_for(
        _AUDIT, Rule.AUDITED, "through the door of the service's own rates",
        "Part.slices Part.supports Part.calibration SliceLine.rates SliceLine.supports",
        "SliceLine.tpr_with_blocked",
        "SupportCheck.support SupportCheck.met CalibrationLine.n CalibrationLine.rate",
        "CalibrationLine.sufficient ShownRate.value ShownRate.lower ShownRate.upper",
        "ShownRate.least ShownRate.most ShownRate.if_wrong",
        "ShownRate.support ShownRate.at_least ShownRate.at_most",
    ),
    *rows_for(
        _AUDIT, Rule.AUDITED, "of shown rates; by fractions in a synthetic set",
        "Part.checks Check.value Check.lower Check.upper Check.point Check.verdict Check.matched",
        "Check.worse_off",
    ),
    *rows_for(
        _AUDIT, Rule.AUDITED, "of a synthetic set alone",
        "AuditReport.comparison AuditReport.held_out_comparison Comparison.repaired",
        "Comparison.still_failing Comparison.newly_failing Comparison.newly_held_back",
        "Comparison.newly_served Comparison.sentence Part.what_if WhatIfLine.threshold",
        "WhatIfLine.current WhatIfLine.flips WhatIfLine.tpr WhatIfLine.fpr WhatIfLine.tpr_gap",
        "WhatIfLine.fpr_gap",
    ),
    *rows_for(
        _AUDIT, Rule.AUDITED, "excluded pairs: by id in a synthetic set, else by line",
        "AuditReport.excluded Excluded.pair Excluded.reason",
    ),
    *rows_for(
        _AUDIT, Rule.AUDITED, "of a training set: a table with a small cell is hidden whole",
        "AuditReport.training DatasetReport.rows DatasetReport.tables Representation.slices",
        "Representation.withheld Representation.ready_withheld Representation.balancing",
        "SliceShare.rows SliceShare.share SliceShare.points SliceShare.ready ReadyShare.share",
        "ReadyShare.difference ReadyShare.lower ReadyShare.upper Balancing.weights",
        "Balancing.rows_needed Balancing.effective_rows Balancing.points_left Weight.weight",
        "Weight.rows_needed Weight.ready",
    ),
    *rows_for(
        _AUDIT, Rule.AUDITED, "follows from the other rows, and from what people signed",
        "AuditReport.decision ReleaseDecision.approved ReleaseDecision.requirements",
        "RequirementLine.met RequirementLine.why Part.advice Recommendation.stage",
        "ReleaseDecision.limits LimitsLine.verdict",
        "Recommendation.helps Recommendation.does_not_help",
    ),
    *rows_for(
        _AUDIT, Rule.DECLARED, "by the set, the settings or the sign-off",
        "AuditReport.made_on AuditReport.program",
        "AuditReport.dataset AuditReport.digest AuditReport.results_digest",
        "AuditReport.synthetic AuditReport.contract",
        "AuditReport.k Run.versions Run.thresholds RunVersions.judge RunVersions.rubric",
        "RunVersions.policy RunVersions.router Check.limit SliceLine.needed SupportCheck.needed",
        "RequirementLine.by RequirementLine.at DatasetReport.k DatasetReport.synthetic",
        "DatasetReport.target_stated SliceShare.target ReadyShare.target",
    ),
    *rows_for(
        _AUDIT, Rule.LISTED, "from the allow-lists, the contract and the program's own words",
        "AuditReport.baseline AuditReport.candidate Run.title Run.parts Part.name FlipCounts.by",
        "FlipCounts.expected_ready",
        "SliceLine.group_by SliceLine.slice Check.name Check.metric Check.slice Check.against",
        "SupportCheck.metric SupportCheck.slice CalibrationLine.slice CalibrationLine.band",
        "LimitsLine.role LimitsLine.metric Check.role",
        "RequirementLine.requirement Representation.group_by SliceShare.slice Weight.slice",
    ),
    *rows_for(
        _AUDIT, Rule.AUDITED, "of records of real people in hundredths, with k of each outcome",
        "ScoredDimension.score ScoredDimension.low ScoredDimension.high ScoredDimension.items",
        "ScoredDimension.left_out ScoredDimension.few ScoredDimension.p_value",
        "ScoredDimension.parts ScorePart.name ScorePart.value ScorePart.items",
        "ScoreChange.score ScoreChange.worse_by ScoredDimension.previous ScoredDimension.baseline",
        "ScoredDimension.verdict ScoredDimension.why ScoredDimension.urgent",
        "ScoredDimension.recalibrate ScoredDimension.moved",
    ),
    *rows_for(
        _AUDIT, Rule.DECLARED, "by the scorecard file",
        "Scorecard.developer ScoredDimension.overdue",
        "Scorecard.name Scorecard.made Scorecard.version Scorecard.dimensions Scorecard.benchmarks",
        "ScoredDimension.name ScoredDimension.limit ScoredDimension.synthetic",
        "ScoredDimension.probe_set ScoredDimension.probe_version ScoredDimension.model",
        "ScoredDimension.rubric ScoredDimension.measured ScoredDimension.cadence",
        "ScoredDimension.owner ScoredDimension.limitation ScoreChange.measured",
        "BenchmarkRow.name BenchmarkRow.benchmark BenchmarkRow.metric BenchmarkRow.value",
        "BenchmarkRow.items BenchmarkRow.model BenchmarkRow.measured BenchmarkRow.owner",
        "BenchmarkRow.limitation",
    ),
    *rows_for(
        _AUDIT, Rule.LISTED, "the program's own words on a measure",
        "ScoredDimension.title ScoredDimension.measure ScoredDimension.meaning",
        "ScoredDimension.scale ScoredDimension.source ScoredDimension.lower_is_worse",
        "ScoredDimension.unit",
    ),
)  # fmt: skip
