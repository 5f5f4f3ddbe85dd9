"""The service's own metrics, as a prometheus-client registry filled with committed facts.

Counters are the committed totals of each shard, so they continue after a restart and never go
back. A shard that another process owns vanishes instead of freezing. Numbers that could reveal a
single decision or label move in steps (:class:`alerts.exposition.shard_metrics.Steps`).
"""

from __future__ import annotations

import copy
import enum
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from alerts.exposition.catalogue import FAMILIES, SERVICE, Family, MetricKind
from alerts.exposition.shard_metrics import (
    Labels,
    ReportedShard,
    Steps,
    Values,
    add_shard,
    add_sums,
)
from monitor.core.bias_scores import CurrentScore
from monitor.core.blindness import Blind, Reason
from monitor.core.privacy.bands import SHOWN_STEP, Precision
from monitor.core.privacy.rules import PrivacyRule
from monitor.core.time import DAY, HOUR, MINUTE, SECOND
from monitor.records import Shard
from monitor.shard_status import ConsumerState, Tallies
from monitor.version import program_version

# One minute to a week: reviewers answer within hours to days, and a classic histogram needs its
# edges where the quantiles are expected.
_DELAY_EDGES = np.array(
    [
        *(MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, 12 * HOUR),
        *(DAY, 2 * DAY, 3 * DAY, 7 * DAY),
    ],
    np.float64,
) / float(SECOND)

_JOINED_STEP = 5 * MINUTE


_FROM_ZERO = (
    *("store_write_failures_total", "flushes_total", "server_insecure"),
    *("probes_unsigned_total", "probes_undeclared_total", "auto_serve_below_threshold_total"),
)
_BIAS = tuple(family.key for family in SERVICE if family.key.startswith("bias_score"))

HOLD_SECONDS = 3600.0
"""Time for which a limit still counts as reached, so that an alert neither flaps nor misses it."""
MANY_VALUES = 1_000
"""Distinct unlisted values of an attribute in one day that show an open list: twenty times as many
as an allow-list may have. A long tail of rare values stays below; free text and floods do not."""


class Limit(enum.StrEnum):
    """Kind of a limit on cardinality; the list is closed, so that the number of series is fixed."""

    SERIES = "series"  # the slice page is over max_series: whole families are left out
    VERSIONS = "versions"  # version tuples found no room within max_versions
    VALUES = "values"  # an attribute has more than MANY_VALUES distinct unlisted values


class ReachedLimits:
    """Register of the cardinality limits that are reached, or were within the last hour.

    Example:
        >>> now = 0.0
        >>> limits = ReachedLimits(lambda: now)
        >>> limits.set_reached(Limit.SERIES, True)
        >>> limits.set_reached(Limit.SERIES, False)
        >>> [limit.value for limit, reached in limits.reached().items() if reached]
        ['series']
        >>> now = HOLD_SECONDS
        >>> any(limits.reached().values())
        False
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Create the limits, none of them reached.

        Args:
            clock: monotonic seconds.
        """
        self._clock = clock
        self._until = dict.fromkeys(Limit, -math.inf)

    def set_reached(self, limit: Limit, reached: bool) -> None:
        """Record whether a limit is reached; after its end it counts as reached for an hour."""
        if reached:
            self._until[limit] = math.inf
        elif self._until[limit] == math.inf:
            self._until[limit] = self._clock() + HOLD_SECONDS

    def reached(self) -> dict[Limit, bool]:
        """Return, for every limit, whether it is reached or was within the last hour."""
        now = self._clock()
        return {limit: now < until for limit, until in self._until.items()}


class ServiceMetrics:
    """Metrics of one process, except the slice page; ingest, evaluator and server report to it.

    Attributes:
        registry: separate registry with this collector and the process metrics.
    """

    def __init__(
        self,
        reasons: Iterable[str] = (),
        *,
        k: int = 11,
        decisions_topic: str = "decisions",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start all counters at zero, with a series for each dead-letter reason.

        Args:
            reasons: all reasons of dead letters; their series start at 0, so that a rate includes
                the first dead letter.
            k: smallest number of distinct, repeated or delayed events that is shown; 1, for test
                conditions, shows exact totals.
            decisions_topic: topic of the decisions.
            monotonic: clock for how long a limit has been reached.
        """
        self.registry = CollectorRegistry(auto_describe=False)
        self._lock = threading.Lock()
        self._reasons = tuple(reasons)
        self._shards: dict[Shard, ReportedShard] = {}
        self._parked: set[Shard] = set()
        self._values: Values = {}
        self._delays = np.zeros(len(_DELAY_EDGES) + 1, np.int64)
        self._delay_sum = 0.0
        self._unshown: list[float] = []
        self._delays_since = 0
        self._unknown: Counter[str] = Counter()
        self._distinct: dict[str, int] = {}
        self._decisions_topic = decisions_topic
        self._bands = Precision(k, exact=k == 1)
        self._steps = Steps(1 if k == 1 else SHOWN_STEP)
        self._limits = ReachedLimits(monotonic)
        self._turned_away = 0
        self._totals: Counter[Labels] = Counter()  # by name and labels
        for name in _FROM_ZERO:
            self._set(name, 0.0)
        self._set("build_info", 1.0, program_version())
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def show_process(self, name: str, value: float, *labels: str) -> None:
        """Set a metric that tells how the process fares; others have methods that round them.

        Raises:
            ValueError: the metric has another privacy rule.
        """
        if FAMILIES[name].rule is not PrivacyRule.PROCESS:
            raise ValueError(f"{name} is not about the process alone")
        with self._lock:
            self._set(name, value, *labels)

    # Reports of ingest.

    def set_shard(
        self,
        shard: Shard,
        tallies: Tallies,
        lag_messages: int | None,
        lag_seconds: float | None,
        *,
        offsets: int | None = None,
    ) -> None:
        """Record the committed totals and the lag of a shard that is ours.

        Args:
            shard: the shard.
            tallies: committed totals; copied.
            lag_messages: messages behind the end (take the position first, then the end);
                negative counts as 0, None is unknown and absent.
            lag_seconds: age of the oldest unread message, 0 when caught up.
            offsets: next offset minus start offset, for the first conservation equation.
        """
        committed = copy.deepcopy(tallies)
        with self._lock:
            last_report = self._shards.get(shard)
            shown = self._steps.totals_to_show(committed, last_report)
            self._shards[shard] = ReportedShard(
                committed, shown, lag_messages, lag_seconds, offsets
            )
            if (
                last_report is not None
                and shown is committed
                and shard.topic == self._decisions_topic
            ):
                self._show_unlisted()

    def drop_shard(self, shard: Shard) -> None:
        """Remove a shard that is no longer ours, and its series."""
        with self._lock:
            self._shards.pop(shard, None)
            self._set("events_ahead_seconds", None, shard.topic, str(shard.partition))
            self._parked.discard(shard)

    def set_parked(self, shard: Shard, parked: bool) -> None:
        """Record whether a shard of ours waits for a person, as its data is gone."""
        with self._lock:
            (self._parked.add if parked else self._parked.discard)(shard)

    def set_ahead(self, shard: Shard, micros: int) -> None:
        """Record the lead (microseconds) of a shard's events over our clock; shown in minutes."""
        with self._lock:
            ahead = -(-micros // MINUTE) * MINUTE / SECOND
            self._set("events_ahead_seconds", ahead, shard.topic, str(shard.partition))

    def set_consumer_state(self, state: str) -> None:
        """Record the consumer's state by its name; raise ValueError for an unknown name."""
        present = ConsumerState(state)
        with self._lock:
            for possible in ConsumerState:
                self._set("consumer_state", float(possible is present), possible.value)

    def flushed(self, seconds: float) -> None:
        """Count a committed flush, and record its duration to a tenth of a second."""
        with self._lock:
            self._count("flushes_total", 1)
            # A flush of a quiet stream is one event, which the exact duration would reveal.
            self._set("flush_duration_seconds", round(seconds, 1))

    def store_failed(self) -> None:
        """Count a failed transaction of the store."""
        with self._lock:
            self._add("store_write_failures_total", 1)

    def observe_label_delays(self, seconds: npt.ArrayLike, *, joined_at: int | None = None) -> None:
        """Record delays (seconds) of labels that met their decisions; show them per hundred.

        A bucket with fewer than k new delays waits for more: the number of labels within a minute,
        or after a week, is small among any hundred.

        Args:
            seconds: delay of each label, labelled_at minus decided_at; negative counts as 0.
            joined_at: wall clock, microseconds.
        """
        delays = np.maximum(np.asarray(seconds, np.float64).ravel(), 0.0).tolist()
        with self._lock:
            if joined_at is not None and delays:
                joined_at -= joined_at % _JOINED_STEP
                self._set("label_last_joined_timestamp_seconds", joined_at / SECOND)
            self._unshown.extend(delays)
            self._delays_since += len(delays)
            if self._delays_since >= SHOWN_STEP:
                self._delays_since = 0
                self._show_delays()

    def _show_delays(self) -> None:
        """Show delays in buckets with at least k of them; the others wait."""
        delays = np.array(self._unshown)
        buckets = np.searchsorted(_DELAY_EDGES, delays)
        counts = np.bincount(buckets, minlength=len(self._delays))
        shown = counts >= self._bands.k
        self._delays += np.where(shown, counts, 0)
        self._delay_sum += float(delays[shown[buckets]].sum())
        self._unshown = delays[~shown[buckets]].tolist()

    def set_pending(self, decisions: int | None) -> None:
        """Record the number of decisions that wait for labels; None if unknown.

        Most of them go to review, so set the number only when a table was published.
        """
        with self._lock:
            self._set(
                "pending_decisions", None if decisions is None else self._steps.down(decisions)
            )

    def set_watermark_lag(self, seconds: float | None) -> None:
        """Record the watermark's lag (seconds) behind the stream; None without a watermark."""
        with self._lock:
            self._set("watermark_lag_seconds", None if seconds is None else max(seconds, 0.0))

    def add_unknown_values(self, attribute: str, count: int) -> None:
        """Add to the number of values outside an attribute's allow-list; values are not passed.

        They are shown in whole hundreds: the exact number is the size of the slice ``__other__``,
        which may be hidden because it is small.
        """
        with self._lock:
            self._unknown[attribute] += count
            for name in ("attribute_values_unknown_total", "attribute_values_unknown_distinct"):
                self._values.setdefault(name, {}).setdefault((attribute,), 0.0)
            self._show_unlisted_if_free()

    def add_doubtful_probes(self, unsigned: int, undeclared: int) -> None:
        """Add to the numbers of decisions that claim to be probes, unsigned or of no declared set.

        Args:
            unsigned: decisions counted as production. They may be about people, so they are shown
                in whole hundreds, rounded up so that the first one shows.
            undeclared: signed decisions of no declared set, pair or variant.
        """
        with self._lock:
            self._count("probes_unsigned_total", unsigned, up=True)
            self._add("probes_undeclared_total", undeclared)

    def add_unreadable(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Add numbers of dead letters by reason and field, shown exactly."""
        with self._lock:
            for labels, number in counts.items():
                self._add("unreadable_events_total", number, *labels)

    def add_unknown_fields(self, event: str, counts: Mapping[str, int]) -> None:
        """Add numbers of dropped fields of decisions or labels, shown in whole hundreds.

        The exact number could reveal a small slice whose producer alone sends the field.
        """
        with self._lock:
            for name, number in counts.items():
                self._count("unknown_fields_total", number, event, name)

    def add_below_threshold(self, count: int) -> None:
        """Add to the number of decisions served below their threshold, shown in whole hundreds.

        The exact number would reveal the route of the decision just read.
        """
        with self._lock:
            self._count("auto_serve_below_threshold_total", count)

    def set_cardinality(self, unlisted: Mapping[str, int], versions_turned_away: int) -> None:
        """Record the numbers of distinct unlisted values and of version tuples turned away.

        Args:
            unlisted: estimated distinct values outside the allow-list today, by attribute.
            versions_turned_away: how often a version tuple found no room; never decreases.
        """
        with self._lock:
            self._distinct = dict(unlisted)
            self._show_unlisted_if_free()
            self._limits.set_reached(Limit.VERSIONS, versions_turned_away > self._turned_away)
            self._turned_away = versions_turned_away

    def _show_unlisted_if_free(self) -> None:
        """Show the counts of unlisted values now if no decisions read here could be revealed."""
        reads = any(shard.topic == self._decisions_topic for shard in self._shards)
        if self._steps.exact or not reads:
            self._show_unlisted()

    def _show_unlisted(self) -> None:
        """Show, rounded down, each attribute's unlisted values: all and distinct."""
        for attribute, number in self._unknown.items():
            shown = number // SHOWN_STEP * SHOWN_STEP
            self._set("attribute_values_unknown_total", shown, attribute)
        bands = self._bands.support([*self._distinct.values()]).tolist()
        for attribute, distinct in zip(self._distinct, bands, strict=True):
            self._set("attribute_values_unknown_distinct", distinct, attribute)
        self._limits.set_reached(Limit.VALUES, max(bands, default=0) > MANY_VALUES)

    # Reports of the evaluator.

    def set_blind(self, reasons: Collection[Reason]) -> None:
        """Record the reasons why the service is blind; empty if it is not."""
        expected = {reason.why: reason.expected for reason in reasons}
        with self._lock:
            self._values.pop("blind", None)
            for cause in Blind:
                self._set("blind", float(cause in expected), cause.value, expected.get(cause, ""))

    def set_report(self, newest: tuple[str, int] | None) -> None:
        """Record the newest released week and its first release (microseconds), or None."""
        with self._lock:
            self._values.pop("report_stored_timestamp_seconds", None)
            if newest is not None:
                week, at = newest
                self._set("report_stored_timestamp_seconds", at / SECOND, week)

    def set_label_health(self, coverage: float | None, completeness: float | None) -> None:
        """Record two ratios of the whole stream: labelled / decisions, received / requested labels.

        Both are rounded to two decimals here, like every published ratio.
        """
        with self._lock:
            self._set("label_coverage_ratio", None if coverage is None else round(coverage, 2))
            shown = None if completeness is None else round(completeness, 2)
            self._set("label_completeness_ratio", shown)

    def set_unpublished_labels(self, labels: int | None) -> None:
        """Record the labels in hours without label tables, shown in hundreds; None if unknown."""
        with self._lock:
            shown = None if labels is None else self._steps.down(labels)
            self._set("unpublished_labels", shown)

    def set_clusters(self, setting: int, measured: int | None, *, repeats: bool | None) -> None:
        """Record the cluster size in the settings and as measured, and whether decisions repeat.

        Args:
            setting: value of the settings.
            measured: divisor of the bets, rounded up to a power of two; None if unknown to this
                process.
            repeats: whether decisions without a unit are repeated; None if unknown to this process.
        """
        is_known = measured is not None
        with self._lock:
            self._set("detection_cluster_size", setting if is_known else None, "setting")
            self._set("detection_cluster_size", measured, "used")
            self._set("decisions_repeated", None if repeats is None else float(repeats))

    # Reports of the exposition.

    def rendered(self, seconds: float, series: int, dropped: int) -> None:
        """Record the duration (seconds) and the series of a rendered slice page."""
        with self._lock:
            self._set("exposition_render_duration_seconds", seconds)
            self._set("exposition_series", series)
            self._set("exposition_dropped_series", dropped)
            self._limits.set_reached(Limit.SERIES, dropped > 0)

    def set_bias_scores(
        self, scores: Iterable[CurrentScore], due: Mapping[str, int] | None = None
    ) -> None:
        """Replace the newest bias evaluation results; series of other sets and models vanish.

        Args:
            scores: newest scores.
            due: time (microseconds) since when a dimension without any score is due, by its name.
        """
        with self._lock:
            for name in _BIAS:
                self._values.pop(name, None)
            for name, since in (due or {}).items():
                self._set("bias_score_due_timestamp_seconds", since / SECOND, name)
            for current_score in scores:
                name, score = current_score.dimension.name, current_score.score
                names = name, score.probe_set, score.probe_version, score.model
                self._set("bias_score", score.score, *names)
                self._set("bias_score_limit", current_score.dimension.limit, name)
                self._set("bias_score_beyond_limit", current_score.beyond, name)
                self._set("bias_score_worse_by", current_score.worse_by, name)
                self._set("bias_score_drifted", current_score.drifted, name)
                self._set("bias_score_timestamp_seconds", score.day * DAY / SECOND, name)
                if current_score.due is not None:
                    self._set(
                        "bias_score_due_timestamp_seconds", current_score.due * DAY / SECOND, name
                    )

    # The collector, as prometheus-client calls it.

    def describe(self) -> Iterable[Metric]:
        """Return no metrics, so that registration does not run the collector."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metric of every family with samples, in the order of the catalogue."""
        with self._lock:
            values: Values = {name: dict(samples) for name, samples in self._values.items()}
            shards, parked = dict(self._shards), set(self._parked)
            delays, delay_sum = self._delays.copy(), self._delay_sum
            limits = self._limits.reached()
        for shard, state in sorted(shards.items()):
            add_shard(values, shard, state, self._reasons, self._steps)
        values["shard_parked"] = {
            (shard.topic, str(shard.partition)): float(shard in parked)
            for shard in sorted(parked | shards.keys())
        }
        if shards:
            add_sums(values, [s.shown for s in shards.values()], self._steps, self._bands)
        values["cardinality_limited"] = {(limit.value,): float(on) for limit, on in limits.items()}
        for family in SERVICE:
            if family.kind is MetricKind.HISTOGRAM:
                yield _histogram(family, delays, delay_sum)
            elif samples := values.get(family.key):
                yield metric_of(family, samples)

    def _set(self, name: str, value: float | None, *labels: str) -> None:
        """Set a sample, or remove it with None."""
        samples = self._values.setdefault(name, {})
        if value is None:
            samples.pop(labels, None)
        else:
            samples[labels] = float(value)

    def _count(self, name: str, number: int, *labels: str, up: bool = False) -> None:
        """Add to a total that is shown in whole steps, rounded down or up."""
        self._totals[name, *labels] += number
        total = self._totals[name, *labels]
        self._set(name, self._steps.up(total) if up else self._steps.down(total), *labels)

    def _add(self, name: str, amount: float, *labels: str) -> None:
        samples = self._values.setdefault(name, {})
        samples[labels] = samples.get(labels, 0.0) + amount


def metric_of(family: Family, samples: Mapping[Labels, float]) -> Metric:
    """Return a metric of the client library with samples by label values."""
    make = CounterMetricFamily if family.kind is MetricKind.COUNTER else GaugeMetricFamily
    metric = make(family.stem, family.help, labels=family.labels)
    for labels, value in samples.items():
        metric.add_metric(labels, value)
    return metric


def _histogram(family: Family, counts: npt.NDArray[np.int64], total: float) -> Metric:
    edges = [*map(str, _DELAY_EDGES.tolist()), "+Inf"]
    buckets = list(zip(edges, np.cumsum(counts).astype(float).tolist(), strict=True))
    return HistogramMetricFamily(family.name, family.help, buckets=buckets, sum_value=total)
