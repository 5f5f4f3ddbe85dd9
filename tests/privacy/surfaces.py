"""The surface table: every name that leaves the service, and the privacy rule that it obeys.

Closed: a test lists what is exported (metrics, Snapshots, published tables, what commands print,
log lines, error texts) and fails for a name without a row, and for a row without a name. Whoever
adds a name finds here which rules there are, and which one is meant for what later steps add.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from surface_audit import AUDIT
from surface_types import Row, Surface, rows_for

from alerts.exposition.catalogue import CATALOGUE
from monitor.core.privacy.rules import PrivacyRule as Rule

_METRICS = tuple(Row(Surface.METRIC, f.name, f.rule, f.why) for f in CATALOGUE)

_TABLE = "holds what other rows say"
_SNAPSHOT = (
    *rows_for(
        Surface.SNAPSHOT, Rule.RELEASED_RATE, "rounded before it gets here",
        "ShownRate.value ShownGap.value ShownGap.ratio Spread.difference",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.RELEASED_RATE, "shown where both the rate and its complement may be",
        "SliceRow.as_labelled",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.BOUND,
        "of what is shown, and of one rounded effect of units over the whole use case",
        "ShownRate.lower ShownRate.upper ShownGap.lower ShownGap.upper ShownGap.ratio_lower",
        "ShownGap.ratio_upper ShownRate.least ShownRate.most ShownGap.least ShownGap.most",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.CODED, "in place of the value",
        "ShownRate.at_least ShownRate.at_most",
    ),
    *rows_for(Surface.SNAPSHOT, Rule.BAND, "exact in test conditions only", "ShownRate.support"),
    *rows_for(
        Surface.SNAPSHOT, Rule.ROUNDED_SHARE, "the minimum over route and audit rate",
        "SliceRow.completeness",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.STATE, "of published tables", "SliceRow.states ShownGap.verdict",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.CLASS, "five steps, as of the end of a day", "SliceRow.evidence",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.CLASS, "three classes, by what is shown", "SliceRow.label_needs",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.BOUND, "of shown rates and bands alone, in whole points",
        "SliceRow.detectable_gaps",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.PERIOD, "the end of the day that first showed it",
        "SliceRow.breach_since",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.STATE, "which limit a breach that is shown is of",
        "SliceRow.breach_limits",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.DECLARED, "a limit of the contract or of a slice that is shown",
        "ShownLimit.kind ShownLimit.value",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.RELEASED_RATE, "as the page of its day showed it",
        "PublishedValue.value",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.BOUND, "as the page of its day showed it",
        "PublishedValue.lower PublishedValue.upper",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.PERIOD, "ends of calendar spans; whole days for what is to come",
        "PublishedValue.at ShownIncident.versions_changed_at ShownIncident.resolvable_at",
        "ShownIncident.began",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.PAGE, "an incident comes with the cohort that crosses",
        "ShownIncident.id ShownIncident.kind ShownIncident.severity ShownIncident.metric",
        "ShownIncident.since",
        "ShownIncident.snapshot",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.STATE, "of a slice that is shown; else withheld",
        "ShownIncident.group_by ShownIncident.slice ShownIncident.share ShownIncident.inherited",
        "ShownIncident.first ShownIncident.latest ShownIncident.stage ShownIncident.sampling",
        "ShownIncident.behind ShownIncident.limit ShownIncident.further",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.DECLARED, "said by people, or by the settings",
        "ShownIncident.acknowledged ShownIncident.accepted_until",
        "ShownIncident.settings_changed_at",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.COUNTED, "as of the end of a day",
        "Noted.count RequestsAtFault.count",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.PERIOD, "the end of the day that first showed it",
        "Noted.latest RequestsAtFault.latest",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.STATE, "as of the end of a day",
        "Noted.annotation Noted.metric RequestsAtFault.route RequestsAtFault.fault",
        "ShownStage.stage ShownStage.share",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.STATE,
        "of a shown slice, and versions with at least k of its decisions",
        "SliceRow.versions_changed ShownIncident.versions_changed ComponentChange.component",
        "ComponentChange.before ComponentChange.after",
    ),
    *rows_for(Surface.SNAPSHOT, Rule.DECLARED, "by the settings", "RequestsAtFault.audit_rate"),
    *rows_for(
        Surface.SNAPSHOT, Rule.STATE,
        "of slices whose decisions are shown; others are withheld, all in one",
        "LabelsAtFault.slice LabelsAtFault.group_by LabelsAtFault.route LabelsAtFault.fault",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.PERIOD, "the end of the day that first showed it",
        "LabelsAtFault.since",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.CLASS, "in tenths, as last found, of slices that are named",
        "LabelsAtFault.share",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.RELEASED_RATE, "of the bands of pairs", "ShownAgreement.kappa",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.BOUND, "of the bands of pairs",
        "ShownAgreement.lower ShownAgreement.upper ShownAgreement.wrong ShownRate.if_wrong",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.CODED, "in place of kappa", "ShownAgreement.at_least",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.STATE, "the two slices a shown difference is between",
        "Spread.worst Spread.best",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.PERIOD, "edges of calendar spans; five minutes at the finest",
        "Period.start Period.end Snapshot.watermark Snapshot.frontier",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.WHOLE_STREAM, "of partitions, whatever was in them",
        "Period.data_lost",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.DECLARED, "by the settings or by a command",
        "Period.excluded",
        "ContractTable.contract ContractTable.version ContractTable.owner ContractTable.synthetic",
        "ContractTable.k ContractTable.window ContractTable.max_gaps ContractTable.min_levels",
        "ContractTable.max_levels ContractTable.min_ratios ContractTable.min_supports",
        "ContractTable.own_limits OwnLimit.group_by OwnLimit.slice OwnLimit.metric OwnLimit.kind",
        "OwnLimit.value",
        "ContractTable.review_due",
        "ContractTable.primary ContractTable.max_age ContractTable.max_blocked",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.LISTED, "from the allow-lists and the contract",
        "SliceRow.slice ShownGap.reference CalibrationCell.band Spread.metric GroupTable.group_by",
        "WindowTable.window",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.STATE, _TABLE,
        "SliceRow.rates SliceRow.gaps SliceRow.calibration CalibrationCell.rate GroupTable.rows",
        "SliceRow.noted SliceRow.stages SliceRow.agreement ContractTable.requests_at_fault",
        "ContractTable.labels_at_fault",
        "ContractTable.incidents",
        "GroupTable.spreads GroupTable.decisions GroupTable.labelled WindowTable.total",
        "WindowTable.groups WindowTable.decisions WindowTable.labelled ContractTable.windows",
        "Snapshot.contracts",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.DECLARED, "by the settings, or by the set itself",
        "ShownProbeSet.name ShownProbeSet.digest ShownProbeSet.every ShownProbeSet.max_flip_ratio",
        "ShownProbeSet.variants ShownFlips.variant",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.PROBE, "comparisons of signed probes of declared sets",
        "ShownProbeSet.compared ShownProbeSet.incomplete ShownProbeSet.pages",
        "ShownFlips.direction ShownFlips.stage ShownFlips.count ShownFlips.expected",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.PERIOD, "five minutes: it begins with a watermark",
        "ShownProbeSet.covered",
    ),
    *rows_for(
        Surface.SNAPSHOT, Rule.PROBE, _TABLE,
        "Snapshot.probes ShownProbeSet.flips ShownProbeSet.standing",
    ),
)  # fmt: skip


def _published(rule: Rule, table: str, *names: str) -> Iterator[Row]:
    for row in rows_for(Surface.PUBLISHED, rule, "as the Snapshot of that day says it", *names):
        yield Row(row.surface, f"{table}.{row.name}", row.rule, row.why)


_PUBLISHED = (
    *_published(Rule.PERIOD, "published_contract", "day complete_to labels_mature_to"),
    *_published(
        Rule.DECLARED, "published_contract",
        "contract version owner synthetic k verdict_window",
    ),
    *_published(Rule.PERIOD, "published_limit", "day"),
    *_published(
        Rule.DECLARED, "published_limit",
        "contract metric max_gap min_level max_level min_support min_ratio",
    ),
    *_published(Rule.PERIOD, "published_window", "day starts_at ends_at"),
    *_published(Rule.LISTED, "published_window", "contract window_name group_by kind"),
    *_published(Rule.WHOLE_STREAM, "published_window", "data_lost"),
    *_published(Rule.DECLARED, "published_window", "excluded"),
    *_published(Rule.PERIOD, "published_rate", "day"),
    *_published(
        Rule.LISTED, "published_rate", "contract window_name group_by slice metric kind reference",
    ),
    *_published(Rule.STATE, "published_rate", "state verdict"),
    *_published(Rule.RELEASED_RATE, "published_rate", "value gap ratio as_labelled"),
    *_published(
        Rule.BOUND, "published_rate", "lower upper gap_lower gap_upper ratio_lower ratio_upper",
    ),
    *_published(Rule.CODED, "published_rate", "at_least at_most"),
    *_published(Rule.BAND, "published_rate", "support"),
    *_published(Rule.ROUNDED_SHARE, "published_rate", "completeness"),
    *_published(
        Rule.DECLARED, "published_rate", "own_max_gap own_min_ratio own_min_level own_max_level",
    ),
    *_published(Rule.PERIOD, "published_calibration", "day"),
    *_published(
        Rule.LISTED, "published_calibration", "contract window_name group_by slice band",
    ),
    *_published(Rule.RELEASED_RATE, "published_calibration", "value"),
    *_published(Rule.BOUND, "published_calibration", "lower upper"),
    *_published(Rule.CODED, "published_calibration", "at_least at_most"),
    *_published(Rule.BAND, "published_calibration", "support"),
)  # fmt: skip

_DEMO = (
    *rows_for(
        Surface.DEMO, Rule.SYNTHETIC, "what the generator knows of its own traffic",
        "note seed seconds one_simulated_day_seconds simulated_time regression.slice",
        "regression.began produced.messages produced.decisions produced.labels produced.repeated",
        "produced.bad slices.truth_tpr complete url",
    ),
    *rows_for(
        Surface.DEMO, Rule.SYNTHETIC, "totals of the demo's own store",
        "consumed.messages consumed.events consumed.counted consumed.duplicates consumed.waiting",
        "consumed.unmatched consumed.stale consumed.thinned consumed.dead_letters",
        "consumed.message_balance consumed.event_balance conserved",
    ),
    *rows_for(
        Surface.DEMO, Rule.STATE, "when a published state was first seen",
        "seconds_until_suspected suspected suspected_wrongly regression.suspected_at",
    ),
    *rows_for(
        Surface.DEMO, Rule.PAGE, "as the Snapshot tells of them",
        "seconds_until_paged regression.paged_at incidents",
    ),
    *rows_for(
        Surface.DEMO, Rule.PERIOD, "as published", "window.labelled_from window.labelled_to",
    ),
    *rows_for(
        Surface.DEMO, Rule.LISTED, "of the contract", "window.name slices.group_by slices.slice",
    ),
    *rows_for(
        Surface.DEMO, Rule.STATE, "a row of the Snapshot: SliceRow", "slices.published",
    ),
)  # fmt: skip

_STATUS = (
    *rows_for(
        Surface.STATUS, Rule.DECLARED, "of the settings, the program or a command",
        "StoreStatus.database StoreStatus.schema StoreStatus.schema_needed",
        "CodingReport.effective_from CodingReport.hash IdKeyReport.id IdKeyReport.effective_from",
        "ContractReport.name ContractReport.version ContractReport.recorded_at",
        "ResumptionReport.topic ResumptionReport.partition ResumptionReport.to_offset",
        "ResumptionReport.reason ResumptionReport.resumed_at ExclusionReport.id",
        "ExclusionReport.starts_at ExclusionReport.ends_at ExclusionReport.version",
        "ExclusionReport.reason ExclusionReport.owner ExclusionReport.excluded_at",
    ),
    *rows_for(
        Surface.STATUS, Rule.PROCESS, "who works, and since when",
        "StoreStatus.problems EvaluatorReport.owner EvaluatorReport.until",
        "EvaluatorReport.cycle_age_seconds ShardReport.owner ShardReport.epoch ShardReport.parked",
        "ShardReport.holds_back ShardReport.flushed_at ShardReport.deltas_waiting",
        "ShardReport.retired_at ShardReport.offsets_balance ShardReport.events_balance",
        "IdKeyReport.free_from",
    ),
    *rows_for(
        Surface.STATUS, Rule.OPERATOR, "positions and clocks of partitions, rows of whole tables",
        "StoreStatus.watermark ShardReport.topic ShardReport.partition ShardReport.next_offset",
        "ShardReport.newest ShardReport.watermark ShardReport.behind_seconds TableReport.name",
        "TableReport.rows TableReport.estimated TableReport.oldest_hour TableReport.newest_hour",
        "ResumptionReport.from_offset ResumptionReport.lost_from ResumptionReport.lost_until",
    ),
    *rows_for(
        Surface.STATUS, Rule.PERIOD, "of the newest Snapshot",
        "StoreStatus.published PublishedReport.contract PublishedReport.group_by",
        "PublishedReport.decisions_until PublishedReport.labels_until PublishedReport.waits_for",
    ),
    *rows_for(
        Surface.STATUS, Rule.OPERATOR, _TABLE,
        "StoreStatus.evaluator StoreStatus.shards StoreStatus.tables StoreStatus.codings",
        "StoreStatus.id_keys StoreStatus.contracts StoreStatus.resumptions StoreStatus.exclusions",
    ),
)  # fmt: skip

_DEAD_LETTERS = (
    *rows_for(
        Surface.DEAD_LETTER, Rule.OPERATOR, "where it was, so that its producer can be asked",
        "seen shard offset index",
    ),
    *rows_for(
        Surface.DEAD_LETTER, Rule.LISTED, "why, and in which field of the schema",
        "reason field",
    ),
    Row(
        Surface.DEAD_LETTER, "payload hash", Rule.KEYED,
        "equal payloads can be told from others; no payload can be tried against it",
    ),
)  # fmt: skip

_RECEIVED = (
    *rows_for(
        Surface.RECEIVED, Rule.OPERATOR, "of the batch that was just sent, to who sent it",
        "BatchAnswer.written BatchAnswer.refused BatchAnswer.events RefusedEvent.line",
    ),
    *rows_for(
        Surface.RECEIVED, Rule.LISTED, "why, and in which field of the schema; never its content",
        "RefusedEvent.kind RefusedEvent.reason RefusedEvent.field RefusedEvent.message",
    ),
)  # fmt: skip

_AS_SHOWN = "as a Snapshot shows it: of what stands the newest one, of what is over its own"
_INCIDENTS = (
    *rows_for(
        Surface.INCIDENT, Rule.PAGE, "an incident comes with the cohort that crosses",
        "IncidentReport.id IncidentReport.kind IncidentReport.severity IncidentReport.contract",
        "IncidentReport.metric",
        "IncidentReport.since IncidentReport.noticed_at IncidentReport.resolved_at",
        "IncidentReport.snapshot",
    ),
    *rows_for(
        Surface.INCIDENT, Rule.DECLARED, "somebody said so, or what follows from it",
        "IncidentReport.state IncidentReport.by IncidentReport.outcome",
        "IncidentReport.accepted_until IncidentReport.acts ActReport.number ActReport.at",
        "ActReport.action ActReport.by ActReport.outcome ActReport.until ActReport.note",
    ),
    *rows_for(
        Surface.INCIDENT, Rule.STATE, _AS_SHOWN,
        "IncidentReport.group_by IncidentReport.slice IncidentReport.share",
        "IncidentReport.inherited IncidentReport.further IncidentReport.first",
        "IncidentReport.latest IncidentReport.stage IncidentReport.sampling",
        "IncidentReport.behind IncidentReport.limit IncidentReport.now",
        "IncidentReport.window_says ShownStage.stage ShownStage.share",
        "IncidentReport.versions_changed ComponentChange.component ComponentChange.before",
        "ComponentChange.after",
    ),
    *rows_for(Surface.INCIDENT, Rule.RELEASED_RATE, _AS_SHOWN, "ValueReport.value"),
    *rows_for(Surface.INCIDENT, Rule.BOUND, _AS_SHOWN, "ValueReport.lower ValueReport.upper"),
    *rows_for(
        Surface.INCIDENT, Rule.PERIOD, _AS_SHOWN,
        "ValueReport.at IncidentReport.versions_changed_at IncidentReport.resolvable_at",
        "IncidentReport.began",
    ),
    *rows_for(
        Surface.INCIDENT, Rule.DECLARED, "by the settings, as a Snapshot shows it",
        "IncidentReport.settings_changed_at ShownLimit.kind ShownLimit.value",
    ),
)  # fmt: skip

_OF_SNAPSHOT = "as its Snapshot has it, and no more"
_PAGES = (
    *rows_for(
        Surface.PAGE, Rule.RELEASED_RATE, _OF_SNAPSHOT,
        "Cell.rate Cell.gap Cell.reference_rate BandContent.rate",
        "HistoryPoint.value HistoryPoint.gap",
    ),
    *rows_for(
        Surface.PAGE, Rule.BOUND, _OF_SNAPSHOT,
        "HistoryPoint.lower HistoryPoint.upper HistoryPoint.gap_lower HistoryPoint.gap_upper",
    ),
    *rows_for(Surface.PAGE, Rule.CODED, _OF_SNAPSHOT, "HistoryPoint.at_least HistoryPoint.at_most"),
    *rows_for(Surface.PAGE, Rule.BAND, _OF_SNAPSHOT, "HistoryPoint.support"),
    *rows_for(Surface.PAGE, Rule.ROUNDED_SHARE, _OF_SNAPSHOT, "SliceLine.completeness"),
    *rows_for(
        Surface.PAGE, Rule.STATE, _OF_SNAPSHOT,
        "Cell.state Cell.mirror_of Cell.decided_by HistoryPoint.state HistoryPoint.verdict",
        "Headline.word Headline.sentence SliceContent.agreement SliceContent.router_agreement",
    ),
    *rows_for(
        Surface.PAGE, Rule.STATE, "numbers of listed slices by state; all states are shown",
        "ContractContent.counts",
    ),
    *rows_for(
        Surface.PAGE, Rule.STATE, "by the state and what the settings and the Snapshot say; what"
        " hides a slice is never told apart", "Cell.why Cell.until",
    ),
    *rows_for(
        Surface.PAGE, Rule.CLASS, _OF_SNAPSHOT, "Cell.evidence Finding.what",
    ),
    *rows_for(Surface.PAGE, Rule.COUNTED, _OF_SNAPSHOT, "Finding.count"),
    *rows_for(
        Surface.PAGE, Rule.PERIOD, _OF_SNAPSHOT,
        "Cell.ends_at Cell.breach_since Finding.latest HistoryPoint.ends_at HistoryPoint.day",
        "Moment.as_of Moment.labels_to Moment.age_seconds",
    ),
    *rows_for(
        Surface.PAGE, Rule.PERIOD, "taken down to five minutes", "Pipeline.newest_decision",
    ),
    *rows_for(
        Surface.PAGE, Rule.PROCESS, "wall clock to the minute; a number of the store",
        "Pipeline.stored_at TopicFacts.flushed_at Moment.snapshot Moment.newest",
    ),
    *rows_for(
        Surface.PAGE, Rule.WHOLE_STREAM, "of partitions, whatever was in them",
        "TopicFacts.partitions TopicFacts.unowned TopicFacts.parked Overview.blind",
        "Overview.outdated",
    ),
    *rows_for(
        Surface.PAGE, Rule.STATE, "by exported metrics, which have rows of their own",
        "Overview.conditions StandingCondition.condition StandingCondition.sentence",
        "StandingCondition.runbook",
    ),
    *rows_for(
        Surface.PAGE, Rule.WHOLE_STREAM, "dead letters: nobody who is counted",
        "TopicFacts.unreadable",
    ),
    *rows_for(
        Surface.PAGE, Rule.STEPS, "rounded up, so that the first is seen",
        "TopicFacts.arrived Beginning.arrived",
    ),
    *rows_for(
        Surface.PAGE, Rule.PERIOD, "of the newest decision, taken down to five minutes",
        "Beginning.waits_for Beginning.slices_from",
    ),
    *rows_for(
        Surface.PAGE, Rule.PAGE, "an incident comes with the cohort that crosses",
        "StandingIncident.id StandingIncident.contract StandingIncident.metric",
        "StandingIncident.kind StandingIncident.severity StandingIncident.since IncidentList.more",
    ),
    *rows_for(
        Surface.PAGE, Rule.STATE, "of a slice that is shown; else withheld",
        "StandingIncident.slice StandingIncident.sentence",
    ),
    *rows_for(
        Surface.PAGE, Rule.DECLARED, "said by people, or by the settings",
        "StandingIncident.acknowledged StandingIncident.accepted_until Limitation.text",
        "Limitation.owner",
        "Cell.role Cell.max_gap Cell.min_ratio Cell.min_level Cell.max_level HistoryPoint.limit",
        "HistoryPoint.version ContractContent.version ContractContent.owner",
        "ContractContent.synthetic ContractContent.k ContractContent.verdict_window",
        "ContractContent.max_age_seconds",
        "ContractContent.windows ContractContent.metrics ContractContent.group_bys",
        "SliceContent.version",
        "SliceContent.synthetic SliceContent.k SliceContent.windows TopicFacts.topic",
    ),
    *rows_for(
        Surface.PAGE, Rule.LISTED, "from the allow-lists and the contract",
        "Cell.metric SliceLine.group_by SliceLine.slice ContractContent.contract",
        "ContractContent.window SliceContent.contract SliceContent.window SliceContent.metric",
        "SliceContent.reference BandContent.band Finding.metric HistoryPoint.reference",
        "HistoryContent.contract HistoryContent.window HistoryContent.group_by",
        "HistoryContent.slice HistoryContent.metric",
    ),
    *rows_for(
        Surface.PAGE, Rule.STATE, "what it is made of has rows of its own",
        "Overview.moment Overview.verdict Overview.incidents Overview.contracts Overview.pipeline",
        "Overview.beginning Overview.limitations",
        "ContractContent.verdict ContractContent.notes ContractContent.total",
        "ContractContent.slices SliceLine.cells SliceContent.moment SliceContent.line",
        "SliceContent.calibration SliceContent.findings",
        "SliceContent.notes SliceContent.history SliceContent.incidents IncidentList.incidents",
        "SliceContent.past ContractContent.versions VersionPair.version VersionPair.beside",
        "HistoryContent.points Pipeline.topics ReportList.reports",
    ),
    *rows_for(
        Surface.PAGE, Rule.PERIOD, "an ISO week; the watermark taken down to five minutes",
        "ReportLine.week ReportLine.as_of",
    ),
    *rows_for(
        Surface.PAGE, Rule.PROCESS, "numbers of the store, once a day of event time at most",
        "ReportLine.revision ReportLine.revisions ReportList.more",
    ),
    *rows_for(
        Surface.PAGE, Rule.STATE, "by the states and flags that the Release shows; of its bytes",
        "ReportLine.decision ReportLine.verdict ReportLine.digest",
    ),
    *rows_for(
        Surface.PAGE, Rule.DECLARED, "said by people, of whichever revision",
        "ReportLine.signatures",
    ),
)  # fmt: skip

_OF_RELEASE = "the calendar tables of the week, by the code of the Snapshot"
_REPORT = (
    *rows_for(
        Surface.REPORT, Rule.RELEASED_RATE, _OF_RELEASE,
        "Release.contracts ReportDocument.release",
    ),
    *rows_for(
        Surface.REPORT, Rule.PERIOD, "an ISO week; the watermark taken down to five minutes",
        "Release.week Release.start Release.end ReportDocument.week ReportDocument.as_of",
        "ReportDocument.compared_with ReportDocument.last_signed",
    ),
    *rows_for(
        Surface.REPORT, Rule.PROCESS, "numbers of the store, once a day of event time at most",
        "ReportDocument.revision ReportDocument.newest_revision",
    ),
    *rows_for(
        Surface.REPORT, Rule.STATE, "a hash of published bytes", "ReportDocument.digest",
    ),
    *rows_for(
        Surface.REPORT, Rule.STATE, "by the states and flags that the Release shows",
        "ReportDocument.decision ReportDocument.requirements Requirement.name Requirement.finding",
        "Requirement.why",
    ),
    *rows_for(
        Surface.REPORT, Rule.PAGE, "an incident comes with the cohort that crosses",
        "Release.incidents ReleasedIncident.id ReleasedIncident.kind ReleasedIncident.severity",
        "ReleasedIncident.contract ReportDocument.open_now OpenIncidents.incidents",
        "ReleasedIncident.metric ReleasedIncident.since ReleasedIncident.state",
        "ReleasedIncident.resolved_at",
    ),
    *rows_for(
        Surface.REPORT, Rule.STATE, "as Snapshots showed it; else withheld",
        "ReleasedIncident.group_by ReleasedIncident.slice ReleasedIncident.further",
    ),
    *rows_for(
        Surface.REPORT, Rule.CLASS, "of what a Snapshot showed, as of the end of a day",
        "Release.findings ReleasedFinding.contract ReleasedFinding.group_by ReleasedFinding.slice",
        "ReleasedFinding.annotation ReleasedFinding.metric",
    ),
    *rows_for(
        Surface.REPORT, Rule.PERIOD, "the end of the day that first showed it",
        "ReleasedFinding.latest",
    ),
    *rows_for(
        Surface.REPORT, Rule.PERIOD, "the day of the newest Snapshot", "OpenIncidents.day",
    ),
    *rows_for(
        Surface.REPORT, Rule.RELEASED_RATE, "computed from rates and bands that are shown",
        "ReportDocument.planned Planned.label_budget Planned.detectable_gaps",
        "BudgetLine.of BudgetLine.metric BudgetLine.width_now BudgetLine.served BudgetLine.share",
        "BudgetLine.audits BudgetLine.narrowest DetectableLine.of DetectableLine.metric",
        "DetectableLine.limit DetectableLine.gap Named.contract Named.group_by Named.slice",
        "Planned.criteria CriteriaLine.of CriteriaLine.ready CriteriaLine.precision",
        "CriteriaLine.fpr CriteriaLine.fpr_of_all CriteriaLine.fpr_forced",
        "Planned.standardised StandardisedLine.of",
        "StandardisedLine.metric StandardisedLine.over StandardisedLine.raw",
        "StandardisedLine.value StandardisedLine.lower StandardisedLine.upper",
        "StandardisedLine.cells StandardisedLine.hidden",
        "Planned.representation RepresentationLine.of RepresentationLine.target",
        "RepresentationLine.least RepresentationLine.most",
        "Planned.trends TrendLine.of TrendLine.metric TrendLine.reference_rate TrendLine.weeks",
        "WeekGap.week WeekGap.value",
        "Planned.tipping_points TippingLine.of TippingLine.metric TippingLine.verdict",
        "TippingLine.worst_case TippingLine.even",
        "Planned.threshold_what_if WhatIfLine.of WhatIfLine.threshold WhatIfLine.below",
        "WhatIfLine.selection WhatIfLine.tpr WhatIfLine.fpr Bounds.lower Bounds.upper",
    ),
    *rows_for(
        Surface.REPORT, Rule.DECLARED, "said by people, or by the settings",
        "ReleasedIncident.outcome ReportDocument.signatures SignatureLine.signature",
        "SignatureLine.of_this_revision Signature.week Signature.number Signature.revision",
        "Signature.digest Signature.at Signature.by Signature.note ReportDocument.facts",
        "ReportFacts.program ReportFacts.use_cases ReportFacts.attributes ReportFacts.audit_rates",
        "ReportFacts.score_bands ReportFacts.horizon_days ReportFacts.limitations",
        "ReportFacts.status_url ReportFacts.dashboard_url",
        "Manifest.program LeftOut.start LeftOut.end LeftOut.version LeftOut.reason LeftOut.owner",
        "LeftOut.excluded_at LeftOut.lifted_at HiddenCells.contract HiddenCells.k Ledger.left_out",
    ),
    *rows_for(
        Surface.REPORT, Rule.DECLARED, "a hash of settings, in which secrets are masked",
        "ReportFacts.settings_digest Manifest.settings_digest",
    ),
    *rows_for(
        Surface.REPORT, Rule.RELEASED_RATE, "of two revisions, both of which are published: a row"
        " of a final edition differs if at least k of its labels have changed",
        "ReportDocument.changes Changes.cells Change.before Change.after Shown.rate Shown.gap",
    ),
    *rows_for(
        Surface.REPORT, Rule.LISTED, "from the allow-lists and the contract",
        "Change.contract Change.group_by Change.slice Change.metric",
    ),
    *rows_for(
        Surface.REPORT, Rule.STATE, "by the states and flags that Releases show; of their bytes",
        "Changes.decision Shown.state Manifest.digest ReleasedRevision.digest",
        "ReleasedRevision.decision Ledger.hidden HiddenCells.cells HiddenCells.hidden",
    ),
    *rows_for(
        Surface.REPORT, Rule.PERIOD, "an ISO week; the watermark taken down to five minutes",
        "Ledger.week Manifest.week Manifest.as_of ReleasedRevision.as_of",
    ),
    *rows_for(
        Surface.REPORT, Rule.PROCESS, "numbers of the store, once a day of event time at most",
        "Changes.since Manifest.revision ReleasedRevision.number Ledger.revisions",
        "UseCaseFacts.name UseCaseFacts.owner UseCaseFacts.context",
        "UseCaseFacts.version UseCaseFacts.effective",
        "UseCaseFacts.reason",
        "UseCaseFacts.where UseCaseFacts.compared AttributeFacts.name AttributeFacts.values",
        "AttributeFacts.definition AttributeFacts.source",
        "AttributeFacts.purpose AttributeFacts.approved_by AttributeFacts.special_category",
        "AttributeFacts.target ReportFacts.interval_width ReportFacts.present_threshold",
        "ReportFacts.timezone",
    ),
)  # fmt: skip

_BACKTEST = (
    *rows_for(
        Surface.BACKTEST, Rule.OPERATOR, "whether a limit would have been crossed, of slices and"
        " limits that the operator chooses: to the day, and without a number",
        "Backtest.incidents BacktestIncident.severity BacktestIncident.metric",
        "BacktestIncident.since",
        "BacktestIncident.resolved",
    ),
    *rows_for(
        Surface.BACKTEST, Rule.STATE, "of a slice and rate that a published table shows; else"
        " withheld", "BacktestIncident.group_by BacktestIncident.slice",
    ),
    *rows_for(
        Surface.BACKTEST, Rule.WHOLE_STREAM, "hours of the stream that the detectors have consumed",
        "Backtest.start Backtest.end Backtest.hours Backtest.left_out Backtest.bulk",
    ),
    *rows_for(
        Surface.BACKTEST, Rule.LISTED, "from the allow-lists and the contract",
        "BacktestIncident.contract Proposal.contract Proposal.metrics MetricProposal.metric",
        "MetricProposal.slices SliceReach.group_by SliceReach.slice",
    ),
    *rows_for(
        Surface.BACKTEST, Rule.BOUND, "of the bounds and bands that Releases show",
        "MetricProposal.max_gap MetricProposal.min_support MetricProposal.largest",
        "SliceReach.half_width SliceReach.decided Proposal.window",
    ),
    *rows_for(Surface.BACKTEST, Rule.BAND, "as a Release shows it", "SliceReach.support"),
    *rows_for(Surface.BACKTEST, Rule.PERIOD, "ISO weeks", "Proposal.weeks"),
)  # fmt: skip

_PROBES = (
    *rows_for(
        Surface.PROBES, Rule.DECLARED, "by the settings, or by the program itself",
        "ProbeStatus.note ProbeSetReport.name ProbeSetReport.digest ProbeSetReport.pairs",
        "ProbeSetReport.reference",
    ),
    *rows_for(
        Surface.PROBES, Rule.PROBE, "comparisons of signed probes of declared sets",
        "ProbeStatus.sets ProbeSetReport.compared ProbeSetReport.incomplete ProbeSetReport.pages",
        "ProbeSetReport.flipping FlippingReport.pair FlippingReport.variant",
        "ProbeSetReport.errors FlippingReport.direction FlippingReport.stage",
        "FlippingReport.expected FlippingReport.at",
    ),
    *rows_for(
        Surface.PROBES, Rule.PERIOD, "five minutes: it begins with a watermark",
        "ProbeSetReport.covered",
    ),
)  # fmt: skip


def _logs(rule: Rule, why: str, *events: str) -> tuple[Row, ...]:
    return tuple(Row(Surface.LOG, event, rule, why) for event in events)


_LOGS = (
    *_logs(
        Rule.PROBE, "the name of a declared set, and a direction",
        "flips of a probe set go one way beyond chance; direction probe_set",
        "the excess of flips of a probe set is gone; direction probe_set",
        "a probe set begins anew: what is stored under its name is of other content,"
        " variants or version; probe_set",
    ),
    *_logs(
        Rule.PAGE, "the number of a crossing, by which an operator finds it in the database",
        "a contract stream has crossed its limit; crossing", "a crossing is resolved; crossing",
        "an incident is open; incident kind", "an incident is over; incident kind",
    ),
    *_logs(
        Rule.LISTED, "in a router: the field, the reason and what was expected; never a value",
        "not sent, and counted as invalid: %s",
    ),
    *_logs(
        Rule.PROCESS, "in a router: whether its events are sent; a kind of exception, a status",
        "events cannot be sent, they wait: %s", "events are being sent again",
    ),
    *_logs(
        Rule.PERIOD, "a closed ISO week, and the number of a revision",
        "a week is released; revision week",
    ),
    *_logs(
        Rule.PROCESS, "what the process does; arguments are names of its parts and ports",
        "a part of the service has failed", "port %d has failed",
        "did not stop in time and is abandoned; part", "evaluation goes on",
        "another evaluator has taken over, or the database has gone back in time",
        "the detectors begin anew: their stored state is of another version",
        "some advisory detectors begin anew: their stored state cannot be continued",
        "metrics are served to others without TLS and credentials (insecure)",
        "readiness changed: %s", "serving; operations_port port",
        "stopped before it had started", "consumer is %s; why",
        "since the last start: %s", "the service is blind: %s", "retention is refused: %s",
        "decisions are late: %s",
    ),
    *_logs(
        Rule.PROCESS,
        "and what the database, the broker or the system says in one line, which knows addresses,"
        " topics and tables",
        "accept failed: %s", "%s in the inbox was read",
        "%s in the inbox %s",
        "%s in the inbox, line %d: %s; not counted", "old events are not deleted: %s",
        "embedded, for one machine: trying out and small sites; events come %s from files in %s;"
        " slicewatch db send-log moves them to Kafka",
        "events over HTTP cannot be written: %s",
        "evaluation failed, it is tried again every cycle: %s",
        "messages wait for their schemas: %s", "the schema registry answers again",
        "nobody says where partitions end: %s", "store failed, consumption pauses: %s",
        "the lease was not given back: %s", "%s",
    ),
    *_logs(
        Rule.WHOLE_STREAM, "how many model outputs were judged, and what that cost",
        "judging; model prompt requests_today",
        "outputs wait in their topic; why",
        "the judge is asked without what it refuses; parameters",
    ),
    *_logs(
        Rule.WHOLE_STREAM, "which partition, and where it goes on",
        "data loss, shard is parked: %s; shard", "shard claimed; offset shard",
        "shard dropped; shard", "shard is not begun yet: %s; shard",
        "shard is owned by another worker now; shard",
        "shard was claimed by another worker; shard",
        "the store has event time far beyond this machine's clock: the shard goes on at the"
        " clock; shard stood_at",
    ),
    *_logs(
        Rule.WHOLE_STREAM, "the number of a schema, which no decision chooses, and why not by ours",
        "messages with a schema of the registry cannot be read: %s; schema",
        "the schema registry does not know a schema; schema",
    ),
    *_logs(
        Rule.STATE, "how many series, and names of metrics",
        "max_series is exceeded: %d series left out (%s)",
    ),
    *_logs(
        Rule.LISTED, "a path of ours; a reader by the name of its token or certificate",
        "no answer to %s", "access; count path reader since status",
        "access refused; count path reader since status", "incident %s; incident reader",
    ),
)  # fmt: skip


def _later(name: str, why: str, rule: Rule = Rule.ANNOUNCED) -> Row:
    return Row(Surface.LATER, name, rule, why)


_LATER = (
    _later("excess share", "in words: most, about half, some"),
    _later("label delay per slice", "two decimals of days, of bands"),
    _later("epsilon", "printed only where noise was added"),
    _later("ADWIN's width and estimation", "give exact counts away", Rule.NEVER),
    _later("decision ids, reviewers, units, payloads", "not even hashed without a key", Rule.NEVER),
    _later("values outside the allow-lists", "not even in error texts", Rule.NEVER),
    _later("exact supports", "but for declared test conditions with k = 1", Rule.NEVER),
)  # fmt: skip

TABLE: tuple[Row, ...] = (
    *_METRICS,
    *_SNAPSHOT,
    *_PUBLISHED,
    *_DEMO,
    *_STATUS,
    *_DEAD_LETTERS,
    *_RECEIVED,
    *_INCIDENTS,
    *_PAGES,
    *_REPORT,
    *_BACKTEST,
    *_PROBES,
    *AUDIT,
    *_LOGS,
    *_LATER,
)
"""All rows, by surface."""


@cache
def rows_of(surface: Surface) -> Mapping[str, Row]:
    """The rows of one surface by name."""
    return {row.name: row for row in TABLE if row.surface is surface}
