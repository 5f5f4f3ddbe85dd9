"""The metric catalogue: the closed list of everything on ``/metrics``.

Exposition, documentation, rules and dashboards are rendered from it; a name that is not listed is
not exported. Ratios are 0 to 1 (gaps -1 to 1), times are seconds, instants are Unix seconds.
An absent series is a withheld or unknown number; no series is ever NaN or infinite. The help texts
are in ``help.yaml``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from importlib import resources

import yaml

from monitor.core.privacy.rules import PrivacyRule as Rule


class MetricKind(enum.StrEnum):
    """Type of a metric; INFO is a gauge that is always 1 and carries only labels."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


# eq=False: families are dictionary keys on the render path, and identity is a cheap hash.
@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Metric of the catalogue, with its labels, help text and disclosure rule.

    Attributes:
        name: queried name, with its suffix.
        rule: privacy rule that keeps it from revealing a single decision or a small slice.
        labels: label names, in the order they are written.
        help: one sentence without backslashes, quotes or line breaks.
        tier: order of removal when the series budget is exceeded: 1 goes first, 0 never.
            A rate, its bounds and its support share a tier, so that no number is ever left
            without its interval.
    """

    name: str
    rule: Rule
    kind: MetricKind
    labels: tuple[str, ...]
    help: str
    tier: int = 0

    @property
    def stem(self) -> str:
        """Return the name without the suffix ``_total``, which client libraries add themselves."""
        return self.name.removesuffix("_total") if self.kind is MetricKind.COUNTER else self.name


@dataclass(frozen=True, slots=True)
class Interval:
    """Families of a number, its lower and its upper bound, each with a name of its own."""

    value: Family
    lower: Family
    upper: Family

    @property
    def families(self) -> tuple[Family, Family, Family]:
        """Return the families of value, lower and upper bound, in this order."""
        return (self.value, self.lower, self.upper)


HELP: dict[str, str] = yaml.safe_load(
    (resources.files(__package__) / "help.yaml").read_text(encoding="utf-8")
)
"""Help texts by name without prefix; bounds have the text of their value."""


def _family(
    name: str,
    rule: Rule,
    labels: tuple[str, ...] = (),
    *,
    tier: int = 0,
    kind: MetricKind | None = None,
) -> Family:
    """Return a family with the help text for its name, whose suffix decides its kind."""
    by_suffix = {"total": MetricKind.COUNTER, "info": MetricKind.INFO}.get(
        name.rpartition("_")[2], MetricKind.GAUGE
    )
    return Family(f"slicewatch_{name}", rule, kind or by_suffix, labels, HELP[name], tier)


def _interval(stem: str, labels: tuple[str, ...], *, tier: int = 0) -> Interval:
    """Return the families of a rate and of both its bounds."""
    value = _family(f"{stem}_ratio", Rule.RELEASED_RATE, labels, tier=tier)
    lower, upper = (
        replace(
            value,
            name=f"slicewatch_{stem}_{side}_ratio",
            rule=Rule.BOUND,
            help=f"{side.capitalize()} 95 % bound. {value.help}",
        )
        for side in ("lower", "upper")
    )
    return Interval(value, lower, upper)


SLICE = ("contract", "metric", "group_by", "slice", "window")
COMPARISON = (*SLICE, "reference")
FINDING = (*SLICE, "finding")
CELL = ("contract", "group_by", "slice", "window")
BAND = (*CELL, "band")
GROUP = ("contract", "metric", "group_by", "window")
WINDOW = ("contract", "window")
WINDOW_KIND = ("contract", "group_by", "window", "kind")
LIMIT = ("contract", "metric")
REQUESTS = ("contract", "route", "audit_rate", "fault")
LABELS = ("contract", "group_by", "slice", "route", "fault")
INCIDENT = ("contract", "metric", "incident")
PROBE_SET = ("probe_set",)
DIRECTION = (*PROBE_SET, "direction")
FLIP = (*PROBE_SET, "variant", "direction", "stage", "expected")
SHARD = ("topic", "partition")

# The slice page, from the Snapshot. The total has group_by="" and slice="".
CONTRACT_INFO = _family(
    "contract_info",
    Rule.DECLARED,
    ("contract", "version", "owner", "synthetic", "k", "primary"),
)
MAX_GAP = _family("contract_max_gap_ratio", Rule.DECLARED, LIMIT)
MIN_RATIO = _family("contract_min_relative_rate_ratio", Rule.DECLARED, LIMIT)
MIN_LEVEL = _family("contract_min_level_ratio", Rule.DECLARED, LIMIT)
MAX_LEVEL = _family("contract_max_level_ratio", Rule.DECLARED, LIMIT)
MIN_SUPPORT = _family("contract_min_support", Rule.DECLARED, LIMIT)
OWN_LIMIT = _family(
    "contract_own_limit_ratio", Rule.DECLARED, (*LIMIT, "group_by", "slice", "limit")
)
REVIEW_DUE = _family("contract_review_due_timestamp_seconds", Rule.DECLARED, ("contract",))
MAX_AGE = _family("contract_max_age_seconds", Rule.DECLARED, ("contract",))
WATERMARK = _family("watermark_timestamp_seconds", Rule.PERIOD)
FRONTIER = _family("label_frontier_timestamp_seconds", Rule.PERIOD)
WINDOW_START = _family("window_start_timestamp_seconds", Rule.PERIOD, WINDOW_KIND)
WINDOW_END = _family("window_end_timestamp_seconds", Rule.PERIOD, WINDOW_KIND)
DATA_LOST = _family("window_data_lost", Rule.WHOLE_STREAM, WINDOW)
EXCLUDED = _family("window_excluded", Rule.DECLARED, WINDOW)
VERDICT = _family("slice_verdict", Rule.STATE, (*SLICE, "reference", "verdict"))
STATE = _family("slice_state", Rule.STATE, (*SLICE, "state"))
BREACH_SINCE = _family("slice_breach_since_timestamp_seconds", Rule.PERIOD, SLICE)
EVIDENCE = _family("slice_evidence_level", Rule.CLASS, SLICE, tier=5)
DETECTABLE = _family("slice_detectable_gap_ratio", Rule.BOUND, SLICE, tier=2)
LABEL_NEED = _family("slice_label_need_seconds", Rule.CLASS, SLICE, tier=2)
FINDINGS = _family("slice_findings", Rule.COUNTED, FINDING, tier=3)
FOUND_AT = _family("slice_finding_timestamp_seconds", Rule.PERIOD, FINDING, tier=3)
STAGE = _family("slice_stage_info", Rule.STATE, (*SLICE, "stage", "share"), tier=3)
AGREEMENT = _interval("slice_reviewer_agreement", CELL, tier=3)
AGREEMENT_AT_LEAST = _family("slice_reviewer_agreement_at_least_ratio", Rule.CODED, CELL, tier=3)
REQUEST_FAULTS = _family("label_request_faults", Rule.COUNTED, REQUESTS)
LABELS_SINCE = _family("labels_at_fault_since_timestamp_seconds", Rule.PERIOD, LABELS)
LABELS_SHARE = _family("labels_at_fault_ratio", Rule.CLASS, LABELS)
REQUEST_FAULT_AT = _family("label_request_fault_timestamp_seconds", Rule.PERIOD, REQUESTS)
PAGING = _family("page", Rule.PAGE, (*INCIDENT, "severity"))
TICKET = _family("ticket", Rule.PAGE, INCIDENT)
INCIDENT_INFO = _family(
    "incident_info",
    Rule.PAGE,
    (
        *(*INCIDENT, "kind", "severity", "state", "group_by", "slice", "share"),
        *("stage", "sampling", "snapshot", "behind", "window_says", "versions"),
    ),
)
INCIDENT_SINCE = _family("incident_since_timestamp_seconds", Rule.PAGE, INCIDENT)
INCIDENT_LATEST = _interval("incident_latest", INCIDENT)
INCIDENT_RATE = _family(
    "incident_rate_ratio", Rule.RELEASED_RATE, (*INCIDENT, "side", "slice", "bound")
)
INCIDENT_RELATIVE = _family("incident_relative_rate_ratio", Rule.RELEASED_RATE, INCIDENT)
INCIDENT_LIMIT = _family("incident_limit_ratio", Rule.DECLARED, (*INCIDENT, "limit"))
INCIDENT_WINDOW_END = _family("incident_window_end_timestamp_seconds", Rule.PERIOD, INCIDENT)
INCIDENT_CHANGE = _family("incident_change_timestamp_seconds", Rule.PERIOD, (*INCIDENT, "what"))
RATE = _interval("slice_rate", SLICE, tier=6)
AT_LEAST = _family("slice_rate_at_least_ratio", Rule.CODED, SLICE, tier=6)
AT_MOST = _family("slice_rate_at_most_ratio", Rule.CODED, SLICE, tier=6)
SUPPORT = _family("slice_support_band", Rule.BAND, SLICE, tier=6)
COMPLETENESS = _family("slice_completeness_ratio", Rule.ROUNDED_SHARE, CELL, tier=6)
GAP = _interval("slice_gap", COMPARISON, tier=5)
RELATIVE = _interval("slice_relative_rate", COMPARISON, tier=4)
AS_LABELLED = _family("slice_as_labelled_ratio", Rule.RELEASED_RATE, SLICE, tier=3)
SPREAD = _family("group_spread_ratio", Rule.RELEASED_RATE, GROUP, tier=2)
CALIBRATION = _interval("slice_calibration", BAND, tier=1)
CALIBRATION_SUPPORT = _family("slice_calibration_support_band", Rule.BAND, BAND, tier=1)

# Probe sets: synthetic test requests, in no production rate.
PROBE_SET_INFO = _family("probe_set_info", Rule.DECLARED, (*PROBE_SET, "digest", "synthetic"))
PROBE_COVERED = _family("probe_covered_timestamp_seconds", Rule.PERIOD, PROBE_SET)
PROBE_CADENCE = _family("probe_cadence_seconds", Rule.DECLARED, PROBE_SET)
PROBE_MAX_FLIP = _family("probe_max_flip_ratio", Rule.DECLARED, PROBE_SET)
PROBE_PAGING = _family("probe_page", Rule.PROBE, DIRECTION)
PROBE_PAGING_SINCE = _family("probe_page_since_timestamp_seconds", Rule.PROBE, DIRECTION)
PROBE_FLIPPING = _family("probe_pairs_flipping", Rule.PROBE, FLIP)
PROBE_PAIRS = _family("probe_pairs_total", Rule.PROBE, PROBE_SET)
PROBE_INCOMPLETE = _family("probe_pairs_incomplete_total", Rule.PROBE, PROBE_SET)
PROBE_FLIPS = _family("probe_pair_flips_total", Rule.PROBE, FLIP)

PAGE: tuple[Family, ...] = (
    *(CONTRACT_INFO, MAX_GAP, MIN_RATIO, MIN_LEVEL, MAX_LEVEL, MIN_SUPPORT, OWN_LIMIT),
    *(REVIEW_DUE, MAX_AGE),
    *(WATERMARK, FRONTIER, WINDOW_START, WINDOW_END, DATA_LOST, EXCLUDED),
    *(STATE, VERDICT, BREACH_SINCE, EVIDENCE),
    *(*RATE.families, AT_LEAST, AT_MOST, SUPPORT, COMPLETENESS),
    *(*GAP.families, *RELATIVE.families, AS_LABELLED, SPREAD, DETECTABLE, LABEL_NEED),
    *(FINDINGS, FOUND_AT, STAGE),
    *(*AGREEMENT.families, AGREEMENT_AT_LEAST, REQUEST_FAULTS, REQUEST_FAULT_AT),
    *(LABELS_SINCE, LABELS_SHARE),
    *(PAGING, TICKET, INCIDENT_INFO, INCIDENT_SINCE, *INCIDENT_LATEST.families, INCIDENT_RATE),
    *(INCIDENT_RELATIVE, INCIDENT_LIMIT, INCIDENT_WINDOW_END, INCIDENT_CHANGE),
    *(*CALIBRATION.families, CALIBRATION_SUPPORT),
    *(PROBE_SET_INFO, PROBE_COVERED, PROBE_CADENCE, PROBE_MAX_FLIP),
    *(PROBE_PAGING, PROBE_PAGING_SINCE, PROBE_FLIPPING),
    *(PROBE_PAIRS, PROBE_INCOMPLETE, PROBE_FLIPS),
)
"""Families rendered from the Snapshot, in the order of the page; counters last."""

# The service's own metrics. Counters carry the partition: they continue the committed totals of
# their shard wherever it is consumed, and a sum over a changing assignment would jump.
MESSAGES = _family("messages_consumed_total", Rule.STEPS, SHARD)
TOMBSTONES = _family("tombstones_total", Rule.WHOLE_STREAM, SHARD)
EVENTS = _family("events_total", Rule.STEPS, (*SHARD, "outcome"))
DEAD_LETTERS = _family("dead_letters_total", Rule.WHOLE_STREAM, (*SHARD, "reason"))
UNKEPT = _family("dead_letters_unkept_total", Rule.WHOLE_STREAM, SHARD)
UNREADABLE = _family("unreadable_events_total", Rule.WHOLE_STREAM, ("reason", "field"))
UNMATCHED = _family("labels_unmatched_total", Rule.STEPS, (*SHARD, "reason"))
UNKNOWN_VALUES = _family("attribute_values_unknown_total", Rule.STEPS, ("attribute",))
UNKNOWN_DISTINCT = _family("attribute_values_unknown_distinct", Rule.BAND, ("attribute",))
UNKNOWN_FIELDS = _family("unknown_fields_total", Rule.STEPS, ("event", "field"))
BELOW_THRESHOLD = _family("auto_serve_below_threshold_total", Rule.STEPS)
PROBES_UNSIGNED = _family("probes_unsigned_total", Rule.STEPS)
PROBES_UNDECLARED = _family("probes_undeclared_total", Rule.PROBE)
LIMITED = _family("cardinality_limited", Rule.BAND, ("limit",))
IMBALANCE = _family("conservation_imbalance", Rule.WHOLE_STREAM, (*SHARD, "equation"))
LAG_MESSAGES = _family("consumer_lag_messages", Rule.STEPS, SHARD)
PARKED = _family("shard_parked", Rule.PROCESS, SHARD)
LAG_SECONDS = _family("consumer_lag_seconds", Rule.WHOLE_STREAM, SHARD)
EVENTS_AHEAD = _family("events_ahead_seconds", Rule.PERIOD, SHARD)
CONSUMER_STATE = _family("consumer_state", Rule.PROCESS, ("state",))
WATERMARK_LAG = _family("watermark_lag_seconds", Rule.PERIOD)
LABEL_DELAY = _family("label_delay_seconds", Rule.STEPS, kind=MetricKind.HISTOGRAM)
LABEL_JOINED = _family("label_last_joined_timestamp_seconds", Rule.PERIOD)
LABEL_COVERAGE = _family("label_coverage_ratio", Rule.ROUNDED_SHARE)
LABEL_COMPLETENESS = _family("label_completeness_ratio", Rule.ROUNDED_SHARE)
CLUSTER_SIZE = _family("detection_cluster_size", Rule.WHOLE_STREAM, ("size",))
REPEATED = _family("decisions_repeated", Rule.WHOLE_STREAM)
PENDING = _family("pending_decisions", Rule.STEPS)
WAITING = _family("waiting_labels", Rule.STEPS)
UNPUBLISHED = _family("unpublished_labels", Rule.STEPS)
DUPLICATES = _family("duplicate_ratio", Rule.BAND, ("route",))
COUNTED_AGAIN = _family("duplicates_counted_total", Rule.STEPS, (*SHARD, "kind"))
STORE_FAILURES = _family("store_write_failures_total", Rule.PROCESS)
FLUSHES = _family("flushes_total", Rule.STEPS)
FLUSH_SECONDS = _family("flush_duration_seconds", Rule.PROCESS)
RETENTION_REFUSED = _family("retention_refused", Rule.PROCESS)
BLIND = _family("blind", Rule.PERIOD, ("reason", "expected"))
EVALUATED = _family("evaluation_timestamp_seconds", Rule.PROCESS)
EVALUATION_SECONDS = _family("evaluation_duration_seconds", Rule.PROCESS)
REPORT_STORED = _family("report_stored_timestamp_seconds", Rule.PROCESS, ("week",))
RENDER_SECONDS = _family("exposition_render_duration_seconds", Rule.PROCESS)
SERIES = _family("exposition_series", Rule.STATE)
DROPPED = _family("exposition_dropped_series", Rule.STATE)
WITHHELD = _family("exposition_withheld", Rule.PROCESS)
INSECURE = _family("server_insecure", Rule.PROCESS)
CERTIFICATE_EXPIRES = _family(
    "certificate_not_after_timestamp_seconds", Rule.PROCESS, ("certificate",)
)
DIMENSION = ("dimension",)
BIAS_SCORE = _family(
    "bias_score", Rule.DECLARED, ("dimension", "probe_set", "probe_version", "model")
)
BIAS_LIMIT = _family("bias_score_limit", Rule.DECLARED, DIMENSION)
BIAS_BEYOND = _family("bias_score_beyond_limit", Rule.DECLARED, DIMENSION)
BIAS_WORSE_BY = _family("bias_score_worse_by", Rule.DECLARED, DIMENSION)
BIAS_DRIFTED = _family("bias_score_drifted", Rule.DECLARED, DIMENSION)
BIAS_MEASURED = _family("bias_score_timestamp_seconds", Rule.DECLARED, DIMENSION)
BIAS_DUE = _family("bias_score_due_timestamp_seconds", Rule.DECLARED, DIMENSION)
BUILD_INFO = _family("build_info", Rule.PROCESS, ("version",))

OPERATIONS: tuple[Family, ...] = (
    *(MESSAGES, TOMBSTONES, EVENTS, DEAD_LETTERS, UNKEPT, UNREADABLE, UNMATCHED, IMBALANCE),
    *(LAG_MESSAGES, LAG_SECONDS, EVENTS_AHEAD, PARKED, CONSUMER_STATE, WATERMARK_LAG),
    *(LABEL_DELAY, LABEL_JOINED, PENDING, WAITING, UNPUBLISHED, COUNTED_AGAIN),
    *(PROBES_UNSIGNED, PROBES_UNDECLARED),
    *(STORE_FAILURES, FLUSHES, FLUSH_SECONDS),
    *(BLIND, RETENTION_REFUSED, EVALUATED, EVALUATION_SECONDS, REPORT_STORED),
    *(RENDER_SECONDS, WITHHELD, INSECURE, CERTIFICATE_EXPIRES, BUILD_INFO),
)
"""Families on the service itself: totals of partitions, ages, durations, states of the process.

The operations port serves only these. None of them names an attribute, a value or a route, or
depends on how decisions spread over them.
"""

OF_DECISIONS: tuple[Family, ...] = (
    UNKNOWN_VALUES,  # names an attribute, and bounds the size of its slice __other__
    UNKNOWN_FIELDS,  # names what a producer sends, attributes too, and may depend on their values
    BELOW_THRESHOLD,  # counts decisions of one route
    *(UNKNOWN_DISTINCT, LIMITED),  # name an attribute, or change with the values it had
    # The total of the slice page in other words: labelled and requested over all decisions.
    *(LABEL_COVERAGE, LABEL_COMPLETENESS),
    DUPLICATES,  # names routes, and changes with the decisions each of them had
    *(CLUSTER_SIZE, REPEATED),  # facts on senders: of one, as a power of two, or of many
    *(SERIES, DROPPED),  # change when a slice appears or is hidden
    # results of bias evaluations, as their owners sent them
    *(BIAS_SCORE, BIAS_LIMIT, BIAS_BEYOND, BIAS_WORSE_BY, BIAS_DRIFTED, BIAS_MEASURED),
    BIAS_DUE,
)
"""Families on the counted decisions that are not on the slice page, but need the same credentials
and are served with it."""

SERVICE: tuple[Family, ...] = OPERATIONS + OF_DECISIONS
"""The service's own families, in the order of the page."""

JUDGE_OUTPUTS = _family("judge_outputs_total", Rule.WHOLE_STREAM, ("result",))
JUDGE_REQUESTS = _family("judge_requests_total", Rule.WHOLE_STREAM)
JUDGE_SECONDS = _family("judge_request_seconds_total", Rule.WHOLE_STREAM)
JUDGE_TOKENS = _family("judge_tokens_total", Rule.WHOLE_STREAM)
JUDGE_WAITING = _family("judge_waiting", Rule.PROCESS)
JUDGE: tuple[Family, ...] = (
    *(JUDGE_OUTPUTS, JUDGE_REQUESTS, JUDGE_SECONDS, JUDGE_TOKENS),
    JUDGE_WAITING,
)
"""Families of ``slicewatch judge``, which serves only these."""

CATALOGUE: tuple[Family, ...] = PAGE + SERVICE + JUDGE
