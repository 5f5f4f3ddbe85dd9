"""The metric catalogue: the one closed list of everything on ``/metrics``.

Exposition, documentation, rules and dashboards are rendered from it; a name that is not here is
not exported. Ratios are 0 to 1 (gaps -1 to 1), times are seconds, instants are Unix seconds.
An absent series is a withheld or unknown number; no series is ever NaN or infinite.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from monitor.core.privacy.rules import PrivacyRule


class Kind(enum.StrEnum):
    """Type of a metric. INFO is a gauge that is always 1 and carries labels only."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Origin(enum.StrEnum):
    """The step of the pipeline whose data a metric shows, hence the process that exports it."""

    SNAPSHOT = "snapshot"  # the published Snapshot: the same on every replica
    INGEST = "ingest"  # the consumer's own shards
    EVALUATE = "evaluate"  # the evaluator
    SERVE = "serve"  # the exposition and its server


# eq=False: families are dictionary keys on the render path, and identity is a cheap hash.
@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """One metric of the catalogue.

    Attributes:
        name: as queried, with its suffix.
        rule: what keeps it from telling of a single decision or a small slice.
        kind: type.
        labels: label names, in the order they are written.
        help: one sentence without backslashes, quotes or line breaks.
        origin: whose data it is.
        tier: order of sacrifice when the series budget is exceeded: 1 goes first, 0 never.
            What belongs together (a rate, its bounds, its support) shares a tier, so that no
            number is ever left without its interval.
    """

    name: str
    rule: PrivacyRule
    kind: Kind
    labels: tuple[str, ...]
    help: str
    origin: Origin
    tier: int = 0

    @property
    def stem(self) -> str:
        """Name without the suffix that client libraries append to counters."""
        return self.name.removesuffix("_total") if self.kind is Kind.COUNTER else self.name


@dataclass(frozen=True, slots=True)
class Interval:
    """Three families: a number and its bounds. Separate names, so that queries can join them."""

    value: Family
    lower: Family
    upper: Family

    @property
    def families(self) -> tuple[Family, Family, Family]:
        """Value, lower, upper."""
        return (self.value, self.lower, self.upper)


SLICE = ("contract", "metric", "group_by", "slice", "window")
COMPARISON = (*SLICE, "reference")
CELL = ("contract", "group_by", "slice", "window")
BAND = (*CELL, "band")
LIMIT = ("contract", "metric")
SHARD = ("topic", "partition")


def _page(
    name: str, rule: PrivacyRule, labels: tuple[str, ...], text: str, tier: int = 0
) -> Family:
    return Family(f"slicewatch_{name}", rule, Kind.GAUGE, labels, text, Origin.SNAPSHOT, tier)


def _interval(stem: str, labels: tuple[str, ...], text: str, tier: int) -> Interval:
    rate, bound = PrivacyRule.RELEASED_RATE, PrivacyRule.BOUND
    return Interval(
        _page(f"{stem}_ratio", rate, labels, text, tier),
        _page(f"{stem}_lower_ratio", bound, labels, f"Lower 95 % bound. {text}", tier),
        _page(f"{stem}_upper_ratio", bound, labels, f"Upper 95 % bound. {text}", tier),
    )


def _own(
    name: str,
    rule: PrivacyRule,
    origin: Origin,
    text: str,
    *labels: str,
    kind: Kind = Kind.GAUGE,
) -> Family:
    return Family(f"slicewatch_{name}", rule, kind, labels, text, origin)


def _count(name: str, rule: PrivacyRule, origin: Origin, text: str, *labels: str) -> Family:
    return _own(name, rule, origin, text, *labels, kind=Kind.COUNTER)


# The slice page, from the Snapshot. The total has group_by="" and slice="".
CONTRACT_INFO = Family(
    "slicewatch_contract_info",
    PrivacyRule.DECLARED,
    Kind.INFO,
    ("contract", "version", "owner", "synthetic", "k"),
    "Identity of a contract; synthetic=true are declared test conditions, not people.",
    Origin.SNAPSHOT,
)
MAX_GAP = _page(
    "contract_max_gap_ratio",
    PrivacyRule.DECLARED,
    LIMIT,
    "Largest gap the contract allows in either direction.",
)
MIN_LEVEL = _page(
    "contract_min_level_ratio",
    PrivacyRule.DECLARED,
    LIMIT,
    "Smallest rate the contract allows in any slice.",
)
MAX_LEVEL = _page(
    "contract_max_level_ratio",
    PrivacyRule.DECLARED,
    LIMIT,
    "Largest rate the contract allows in any slice.",
)
MIN_SUPPORT = _page(
    "contract_min_support",
    PrivacyRule.DECLARED,
    LIMIT,
    "Support a rate needs before the contract is decided on it.",
)
REVIEW_DUE = _page(
    "contract_review_due_timestamp_seconds",
    PrivacyRule.DECLARED,
    ("contract",),
    "When people are to look at the contract again, as its review_cadence says.",
)
WATERMARK = _page(
    "watermark_timestamp_seconds",
    PrivacyRule.PERIOD,
    (),
    "Event time up to which decisions are complete.",
)
FRONTIER = _page(
    "label_frontier_timestamp_seconds",
    PrivacyRule.PERIOD,
    (),
    "Event time up to which label cohorts are mature.",
)
WINDOW_START = _page(
    "window_start_timestamp_seconds",
    PrivacyRule.PERIOD,
    ("contract", "group_by", "window", "kind"),
    "First instant of a window; kind is decisions (selection, blocked) or labelled (the rest).",
)
WINDOW_END = _page(
    "window_end_timestamp_seconds",
    PrivacyRule.PERIOD,
    ("contract", "group_by", "window", "kind"),
    "The instant a window runs to, exclusive; it advances when every slice has enough that is new.",
)
DATA_LOST = _page(
    "window_data_lost",
    PrivacyRule.WHOLE_STREAM,
    ("contract", "window"),
    "1 while a window lacks events that were lost before they could be read, else 0.",
)
EXCLUDED = _page(
    "window_excluded",
    PrivacyRule.DECLARED,
    ("contract", "window"),
    "1 while some of a window is left out: declared to be bad, or never complete; else 0.",
)
LEFT_OUT = _page(
    "group_left_out_ratio",
    PrivacyRule.CODED,
    ("contract", "group_by"),
    "At most this share of decisions is in no table: their values are too rare even together.",
)
VERDICT = _page(
    "slice_verdict",
    PrivacyRule.STATE,
    (*COMPARISON, "verdict"),
    "1 for the verdict on a gap that has a limit, by its bounds; contract window only.",
)
STATE = _page(
    "slice_state",
    PrivacyRule.STATE,
    (*SLICE, "state"),
    "1 for the one state a slice and metric is in; always present, contract window only.",
)
BREACH_SINCE = _page(
    "slice_breach_since_timestamp_seconds",
    PrivacyRule.PERIOD,
    SLICE,
    "Since when a slice and metric is in breach: the end of the release block that first showed"
    " it. Absent otherwise; contract window only.",
)
EVIDENCE = _page(
    "slice_evidence_level",
    PrivacyRule.CLASS,
    SLICE,
    "How far the sequential test is on the way to a page: 0 to 3 are below 25, 50, 75 and 100 % of"
    " what a crossing needs, 4 is a crossing that stands. Contract window only.",
    5,
)
DETECTABLE = _page(
    "slice_detectable_gap_ratio",
    PrivacyRule.BOUND,
    SLICE,
    "Smallest gap beyond the limit that four weeks of labels, at their present rate, would show to"
    " be beyond it, in 80 of 100 cases. Contract window only.",
    2,
)
LABEL_NEED = _page(
    "group_label_need_weeks",
    PrivacyRule.CLASS,
    ("contract", "metric", "group_by", "window"),
    "Weeks of labels, at their present rate, until a gap of the limit + 0.05 would be found in the"
    " slice that takes longest: 0 is less than one, 1 is one to four, 4 is more than four."
    " Contract window only.",
    2,
)
FINDING = (*SLICE, "finding")
FINDINGS = _page(
    "slice_findings",
    PrivacyRule.COUNTED,
    FINDING,
    "How often a finding was made, since monitoring began: gap and drift are weekly lists,"
    " mix_shift, adwin, page_hinkley, labels_later, labels_earlier and version_change annotate."
    " metric is empty where it is of none. Contract window only.",
    3,
)
FOUND_AT = _page(
    "slice_finding_timestamp_seconds",
    PrivacyRule.PERIOD,
    FINDING,
    "When a finding was made last: the end of the release block that first showed it.",
    3,
)
STAGE = Family(
    "slicewatch_slice_stage_info",
    PrivacyRule.STATE,
    Kind.INFO,
    (*SLICE, "stage", "share"),
    "The stage of the router at which a slice and its reference part: evidence, score, threshold"
    " or none; share says how much of the difference it makes. Contract window only.",
    Origin.SNAPSHOT,
    3,
)
VERSIONS_DIFFER = _page(
    "slice_versions_differ",
    PrivacyRule.STATE,
    CELL,
    "1 while the versions that answer a slice are surely others than its reference's, else 0."
    " Contract window only.",
    3,
)
AGREEMENT = _interval(
    "slice_reviewer_agreement",
    CELL,
    "Cohen's kappa of two reviewers of one decision, -1 to 1. Contract window only.",
    3,
)
AGREEMENT_AT_LEAST = _page(
    "slice_reviewer_agreement_at_least_ratio",
    PrivacyRule.CODED,
    CELL,
    "Shown instead of the agreement where too few pairs disagree: it is at least this.",
    3,
)
REQUESTS = ("contract", "route", "audit_rate", "fault")
REQUEST_FAULTS = _page(
    "label_request_faults",
    PrivacyRule.COUNTED,
    REQUESTS,
    "How often label requests of a route and audit rate were found to be surely too_few or"
    " too_many, since monitoring began; absent while all is well.",
)
REQUEST_FAULT_AT = _page(
    "label_request_fault_timestamp_seconds",
    PrivacyRule.PERIOD,
    REQUESTS,
    "When they were found so last: the end of the release block that first showed it.",
)
INCIDENT = ("contract", "metric", "incident")
PAGING = _page(
    "page",
    PrivacyRule.PAGE,
    INCIDENT,
    "1 from the cohort that crosses the contract until the breach is resolved; 0 while it is"
    " accepted. What it is about is in slicewatch_incident_info: the identity never changes.",
)
TICKET = _page(
    "ticket", PrivacyRule.PAGE, INCIDENT, "The same for what is on the weekly list of breaches."
)
INCIDENT_INFO = Family(
    "slicewatch_incident_info",
    PrivacyRule.PAGE,
    Kind.INFO,
    (*INCIDENT, "kind", "state", "group_by", "slice", "share", "stage", "sampling", "snapshot"),
    "What an incident is about: the smallest slice that explains it (withheld where the guards hide"
    " it), and its share of the excess in words. state is open, acknowledged or accepted.",
    Origin.SNAPSHOT,
)
INHERITED = Family(
    "slicewatch_incident_inherited_info",
    PrivacyRule.PAGE,
    Kind.INFO,
    (*INCIDENT, "slice"),
    "Slices that are only worse because of the one that explains the incident.",
    Origin.SNAPSHOT,
)
INCIDENT_SINCE = _page(
    "incident_since_timestamp_seconds",
    PrivacyRule.PAGE,
    INCIDENT,
    "Event time at which the first cohort crossed.",
)
INCIDENT_FIRST = _interval(
    "incident_first", INCIDENT, "What was shown of the slice when it first crossed.", 0
)
INCIDENT_LATEST = _interval("incident_latest", INCIDENT, "What is shown of the slice now.", 0)
RESOLVABLE = _page(
    "incident_resolvable_timestamp_seconds",
    PrivacyRule.PERIOD,
    INCIDENT,
    "The earliest moment at which it can be resolved if it were repaired now.",
)
ACCEPTED_UNTIL = _page(
    "incident_accepted_until_timestamp_seconds",
    PrivacyRule.DECLARED,
    INCIDENT,
    "Until when the gap is lived with.",
)
INCIDENT_CHANGE = _page(
    "incident_change_timestamp_seconds",
    PrivacyRule.PERIOD,
    (*INCIDENT, "what"),
    "When versions or settings changed within two days before it crossed.",
)
RATE = _interval("slice_rate", SLICE, "Rate of a slice; absent where withheld.", 6)
AT_LEAST = _page(
    "slice_rate_at_least_ratio",
    PrivacyRule.CODED,
    SLICE,
    "Shown instead of the rate where too few decisions were not selected: it is at least this.",
    6,
)
AT_MOST = _page(
    "slice_rate_at_most_ratio",
    PrivacyRule.CODED,
    SLICE,
    "Shown instead of the rate where too few decisions were selected: it is at most this.",
    6,
)
SUPPORT = _page(
    "slice_support_band",
    PrivacyRule.BAND,
    SLICE,
    "Lower edge of the band that holds the support of a rate.",
    6,
)
COMPLETENESS = _page(
    "slice_completeness_ratio",
    PrivacyRule.ROUNDED_SHARE,
    CELL,
    "Labels received over labels requested, the minimum over route and audit rate.",
    6,
)
GAP = _interval(
    "slice_gap", COMPARISON, "Slice against its reference; positive means the slice is worse.", 5
)
RELATIVE = _interval(
    "slice_relative_rate", COMPARISON, "Rate of a slice over the rate of its reference.", 4
)
AS_LABELLED = _page(
    "slice_as_labelled_ratio",
    PrivacyRule.RELEASED_RATE,
    SLICE,
    "Rate over labelled rows alone, for comparison: wrong where labels are a biased sample.",
    3,
)
SPREAD = _page(
    "group_spread_ratio",
    PrivacyRule.RELEASED_RATE,
    ("contract", "metric", "group_by", "window"),
    "Worst to best slice of a group-by: described, never tested.",
    2,
)
CALIBRATION = _interval("slice_calibration", BAND, "P(ready) in one score band of a slice.", 1)
CALIBRATION_SUPPORT = _page(
    "slice_calibration_support_band",
    PrivacyRule.BAND,
    BAND,
    "Lower edge of the band that holds the support of a calibration cell.",
    1,
)

# Probe sets: synthetic test requests, in no production rate.
PROBE_SET = ("probe_set",)
PROBE_SET_INFO = Family(
    "slicewatch_probe_set_info",
    PrivacyRule.DECLARED,
    Kind.INFO,
    ("probe_set", "digest", "synthetic"),
    "A declared probe set and its content hash; its requests are test conditions of nobody.",
    Origin.SNAPSHOT,
)
PROBE_COVERED = _page(
    "probe_covered_timestamp_seconds",
    PrivacyRule.PERIOD,
    PROBE_SET,
    "Event time since which every pair of a probe set was compared, to five minutes; when the set"
    " was declared, before the first time.",
)
PROBE_CADENCE = _page(
    "probe_cadence_seconds",
    PrivacyRule.DECLARED,
    PROBE_SET,
    "How often a probe set is to be sent, as declared.",
)
PROBE_MAX_FLIP = _page(
    "probe_max_flip_ratio",
    PrivacyRule.DECLARED,
    PROBE_SET,
    "Largest share of flips within a day, as declared.",
)
PROBE_PAGING = _page(
    "probe_page",
    PrivacyRule.PROBE,
    (*PROBE_SET, "direction"),
    "1 from the comparison by which the sequential test of a direction crosses until the excess of"
    " that direction is no more than chance easily makes, else 0; held_back is a variant that was"
    " not served while the reference was, or was blocked while it was reviewed.",
)
PROBE_PAGING_SINCE = _page(
    "probe_page_since_timestamp_seconds",
    PrivacyRule.PROBE,
    (*PROBE_SET, "direction"),
    "Event time at which the sequential test of a direction crossed; absent while it does not"
    " page.",
)
PROBE_FLIPPING = _page(
    "probe_pairs_flipping",
    PrivacyRule.PROBE,
    (*PROBE_SET, "variant", "direction", "stage"),
    "Flips now: of the newest comparisons of each pair and variant, those in which the two took"
    " different routes, by the stage at which they part; cases to investigate, not a population"
    " disparity.",
)


def _of_probes(name: str, labels: tuple[str, ...], text: str) -> Family:
    return Family(
        f"slicewatch_{name}", PrivacyRule.PROBE, Kind.COUNTER, labels, text, Origin.SNAPSHOT
    )


PROBE_PAIRS = _of_probes(
    "probe_pairs_total",
    PROBE_SET,
    "Comparisons of a variant of a pair with its reference, since the set was declared.",
)
PROBE_INCOMPLETE = _of_probes(
    "probe_pairs_incomplete_total",
    PROBE_SET,
    "Rounds of a pair whose other variants did not come in time, and decisions of no round.",
)
PROBE_FLIPS = _of_probes(
    "probe_pair_flips_total",
    (*PROBE_SET, "variant", "direction", "stage"),
    "Comparisons in which the two took different routes, by the stage at which they part: cases to"
    " investigate, not a population disparity.",
)

PAGE: tuple[Family, ...] = (
    *(CONTRACT_INFO, MAX_GAP, MIN_LEVEL, MAX_LEVEL, MIN_SUPPORT, REVIEW_DUE),
    *(WATERMARK, FRONTIER, WINDOW_START, WINDOW_END, DATA_LOST, EXCLUDED),
    *(LEFT_OUT, STATE, VERDICT, BREACH_SINCE, EVIDENCE),
    *(*RATE.families, AT_LEAST, AT_MOST, SUPPORT, COMPLETENESS),
    *(*GAP.families, *RELATIVE.families, AS_LABELLED, SPREAD, DETECTABLE, LABEL_NEED),
    *(FINDINGS, FOUND_AT, STAGE, VERSIONS_DIFFER),
    *(*AGREEMENT.families, AGREEMENT_AT_LEAST, REQUEST_FAULTS, REQUEST_FAULT_AT),
    *(PAGING, TICKET, INCIDENT_INFO, INHERITED, INCIDENT_SINCE, *INCIDENT_FIRST.families),
    *(*INCIDENT_LATEST.families, RESOLVABLE, ACCEPTED_UNTIL, INCIDENT_CHANGE),
    *(*CALIBRATION.families, CALIBRATION_SUPPORT),
    *(PROBE_SET_INFO, PROBE_COVERED, PROBE_CADENCE, PROBE_MAX_FLIP),
    *(PROBE_PAGING, PROBE_PAGING_SINCE, PROBE_FLIPPING),
    *(PROBE_PAIRS, PROBE_INCOMPLETE, PROBE_FLIPS),
)
"""Families rendered from the Snapshot, in the order of the page; counters last."""

# The service's own metrics. Counters carry the partition: they continue the committed totals of
# their shard wherever it is consumed, and a sum over a changing assignment would jump.
MESSAGES = _count(
    "messages_consumed_total",
    PrivacyRule.STEPS,
    Origin.INGEST,
    "Messages read and committed, in whole hundreds.",
    *SHARD,
)
EVENTS = _count(
    "events_total",
    PrivacyRule.STEPS,
    Origin.INGEST,
    "Events by where they ended, in whole hundreds (dead letters exactly); waiting labels are a"
    " gauge of their own.",
    *(*SHARD, "outcome"),
)
DEAD_LETTERS = _count(
    "dead_letters_total",
    PrivacyRule.WHOLE_STREAM,
    Origin.INGEST,
    "Unreadable events by reason.",
    *SHARD,
    "reason",
)
UNKEPT = _count(
    "dead_letters_unkept_total",
    PrivacyRule.WHOLE_STREAM,
    Origin.INGEST,
    "Dead letters that are counted only: too many came in one flush, or in one day.",
    *SHARD,
)
UNMATCHED = _count(
    "labels_unmatched_total",
    PrivacyRule.STEPS,
    Origin.INGEST,
    "Labels that found no decision, by reason, in whole hundreds.",
    *(*SHARD, "reason"),
)
UNKNOWN_VALUES = _count(
    "attribute_values_unknown_total",
    PrivacyRule.STEPS,
    Origin.INGEST,
    "Attribute values outside the allow-list, counted as __other__; in whole hundreds.",
    "attribute",
)
UNKNOWN_DISTINCT = _own(
    "attribute_values_unknown_distinct",
    PrivacyRule.BAND,
    Origin.INGEST,
    "Distinct values outside the allow-list in events this process read since midnight UTC: an"
    " estimate, 0 or the lower edge of a band.",
    "attribute",
)
PROBES_UNSIGNED = _count(
    "probes_unsigned_total",
    PrivacyRule.STEPS,
    Origin.INGEST,
    "Decisions that call themselves probes and have no valid signature, counted as production;"
    " rounded up to hundreds.",
)
PROBES_UNDECLARED = _count(
    "probes_undeclared_total",
    PrivacyRule.PROBE,
    Origin.INGEST,
    "Signed probes of no declared set, pair or variant: in no production rate, and compared with"
    " nothing.",
)
LIMITED = _own(
    "cardinality_limited",
    PrivacyRule.BAND,
    Origin.INGEST,
    "1 while a limit is reached and for an hour after: limit=series (the page would exceed"
    " max_series), versions (tuples beyond max_versions, counted as __other__), values (over 1000"
    " distinct unlisted values of one attribute in a day).",
    "limit",
)
IMBALANCE = _own(
    "conservation_imbalance",
    PrivacyRule.WHOLE_STREAM,
    Origin.INGEST,
    "Messages (equation=offsets) or events (equation=events) that ended nowhere; 0 or a bug.",
    *(*SHARD, "equation"),
)
LAG_MESSAGES = _own(
    "consumer_lag_messages",
    PrivacyRule.STEPS,
    Origin.INGEST,
    "Messages behind the end, rounded up to hundreds.",
    *SHARD,
)
PARKED = _own(
    "shard_parked",
    PrivacyRule.PROCESS,
    Origin.INGEST,
    "1 while a partition waits for a person, because its data is gone from the broker.",
    *SHARD,
)
LAG_SECONDS = _own(
    "consumer_lag_seconds",
    PrivacyRule.WHOLE_STREAM,
    Origin.INGEST,
    "Age of the oldest unread message; 0 at end.",
    *SHARD,
)
EVENTS_AHEAD = _own(
    "events_ahead_seconds",
    PrivacyRule.PERIOD,
    Origin.INGEST,
    "How far events of the last minutes were dated ahead of the clock of the worker that reads"
    " them, rounded up to minutes; they are counted and move no window.",
    *SHARD,
)
CONSUMER_STATE = _own(
    "consumer_state",
    PrivacyRule.PROCESS,
    Origin.INGEST,
    "1 for the one state the consumer is in.",
    "state",
)
WATERMARK_LAG = _own(
    "watermark_lag_seconds",
    PrivacyRule.PERIOD,
    Origin.INGEST,
    "How far the watermark is behind the newest decision, in steps of five minutes.",
)
LABEL_DELAY = _own(
    "label_delay_seconds",
    PrivacyRule.STEPS,
    Origin.INGEST,
    "From a decision to its label, by labelled_at; a hundred labels at a time.",
    kind=Kind.HISTOGRAM,
)
LABEL_JOINED = _own(
    "label_last_joined_timestamp_seconds",
    PrivacyRule.PERIOD,
    Origin.INGEST,
    "When a label last met its decision, to five minutes.",
)
LABEL_COVERAGE = _own(
    "label_coverage_ratio",
    PrivacyRule.ROUNDED_SHARE,
    Origin.EVALUATE,
    "Labelled decisions over all decisions.",
)
LABEL_COMPLETENESS = _own(
    "label_completeness_ratio",
    PrivacyRule.ROUNDED_SHARE,
    Origin.EVALUATE,
    "Labels received over labels requested.",
)
PENDING = _own(
    "pending_decisions",
    PrivacyRule.STEPS,
    Origin.INGEST,
    "Decisions kept to be joined with labels, by the hundred.",
)
WAITING = _own(
    "waiting_labels",
    PrivacyRule.STEPS,
    Origin.INGEST,
    "Labels that wait for their decision, in whole hundreds.",
)
DUPLICATES = _own(
    "duplicate_ratio",
    PrivacyRule.BAND,
    Origin.INGEST,
    "Repeated ids among decisions with a label requested, both in bands.",
    "route",
)
COUNTED_AGAIN = _count(
    "duplicates_counted_total",
    PrivacyRule.STEPS,
    Origin.INGEST,
    "Copies that were counted again, of decisions that labels can find, rounded up to hundreds:"
    " kind=cross_partition (the first was in another partition) or late (in this one, and longer"
    " ago than dedupe.window or with another decided_at).",
    *(*SHARD, "kind"),
)
STORE_FAILURES = _count(
    "store_write_failures_total",
    PrivacyRule.PROCESS,
    Origin.INGEST,
    "Transactions that failed and were retried.",
)
FLUSHES = _count(
    "flushes_total",
    PrivacyRule.STEPS,
    Origin.INGEST,
    "Transactions that were committed, in whole hundreds.",
)
FLUSH_SECONDS = _own(
    "flush_duration_seconds",
    PrivacyRule.PROCESS,
    Origin.INGEST,
    "Duration of the last flush, to a tenth.",
)
RETENTION_REFUSED = _own(
    "retention_refused",
    PrivacyRule.PROCESS,
    Origin.EVALUATE,
    "1 while retention would delete most of what is kept, and deletes nothing until confirmed.",
)
BLIND = _own(
    "blind",
    PrivacyRule.PROCESS,
    Origin.EVALUATE,
    "1 for each reason why the whole service does not see: reason=no_worker (nobody reads a"
    " partition), not_stored (what is read cannot be stored), behind (one holds all windows back),"
    " decisions_silent (none come, against the usual pace), labels_silent (likewise).",
    "reason",
)
EVALUATED = _own(
    "evaluation_timestamp_seconds",
    PrivacyRule.PROCESS,
    Origin.EVALUATE,
    "When the last evaluation ended.",
)
EVALUATION_SECONDS = _own(
    "evaluation_duration_seconds",
    PrivacyRule.PROCESS,
    Origin.EVALUATE,
    "Duration of the last evaluation.",
)
RENDER_SECONDS = _own(
    "exposition_render_duration_seconds",
    PrivacyRule.PROCESS,
    Origin.SERVE,
    "Duration of the last rendering.",
)
SERIES = _own("exposition_series", PrivacyRule.STATE, Origin.SERVE, "Series on the slice page.")
DROPPED = _own(
    "exposition_dropped_series",
    PrivacyRule.STATE,
    Origin.SERVE,
    "Series left out to keep within max_series.",
)
WITHHELD = _own(
    "exposition_withheld",
    PrivacyRule.PROCESS,
    Origin.SERVE,
    "1 while the slice page is withheld: nothing published yet, or the evaluation is stale.",
)
INSECURE = _own(
    "server_insecure",
    PrivacyRule.PROCESS,
    Origin.SERVE,
    "1 if the slice page is reachable from elsewhere without TLS and credentials.",
)
CERTIFICATE_EXPIRES = _own(
    "certificate_not_after_timestamp_seconds",
    PrivacyRule.PROCESS,
    Origin.SERVE,
    "When a certificate expires, as its file was at the start: certificate=server, operations,"
    " client_ca, kafka_ca or kafka_client.",
    "certificate",
)
BUILD_INFO = _own(
    "build_info", PrivacyRule.PROCESS, Origin.SERVE, "Version that runs.", "version", kind=Kind.INFO
)

OPERATIONS: tuple[Family, ...] = (
    *(MESSAGES, EVENTS, DEAD_LETTERS, UNKEPT, UNMATCHED, IMBALANCE),
    *(LAG_MESSAGES, LAG_SECONDS, EVENTS_AHEAD, PARKED, CONSUMER_STATE, WATERMARK_LAG),
    *(LABEL_DELAY, LABEL_JOINED, PENDING, WAITING, COUNTED_AGAIN),
    *(PROBES_UNSIGNED, PROBES_UNDECLARED),
    *(
        STORE_FAILURES,
        FLUSHES,
        FLUSH_SECONDS,
        BLIND,
        RETENTION_REFUSED,
        EVALUATED,
        EVALUATION_SECONDS,
    ),
    *(RENDER_SECONDS, WITHHELD, INSECURE, CERTIFICATE_EXPIRES, BUILD_INFO),
)
"""Families on the service itself: totals of partitions, ages, durations, states of the process.

The operations port serves these and no others: none has a label that names an attribute, a value
or a route, or a value that depends on how decisions spread over them.
"""

OF_DECISIONS: tuple[Family, ...] = (
    UNKNOWN_VALUES,  # names an attribute, and bounds the size of its slice __other__
    *(UNKNOWN_DISTINCT, LIMITED),  # name an attribute, or change with the values it had
    # The total of the slice page in other words: labelled and requested over all decisions.
    *(LABEL_COVERAGE, LABEL_COMPLETENESS),
    DUPLICATES,  # names routes, and changes with the decisions each of them had
    *(SERIES, DROPPED),  # change when a slice appears or is hidden
)
"""Families on the decisions that the service counts, which are not of the slice page: served with
that page, under the same credentials."""

SERVICE: tuple[Family, ...] = OPERATIONS + OF_DECISIONS
"""The service's own families, in the order of the page."""

CATALOGUE: tuple[Family, ...] = PAGE + SERVICE
