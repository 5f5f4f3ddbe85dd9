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

from alerts.exposition import catalogue
from alerts.exposition.catalogue import Family, MetricKind
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


_BIAS = (
    *(catalogue.BIAS_SCORE, catalogue.BIAS_LIMIT, catalogue.BIAS_BEYOND),
    *(catalogue.BIAS_WORSE_BY, catalogue.BIAS_DRIFTED, catalogue.BIAS_MEASURED),
    catalogue.BIAS_DUE,
)

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
        self._ahead: dict[Shard, float] = {}
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
        self._flushes = 0
        self._limits = ReachedLimits(monotonic)
        self._turned_away = 0
        self._unsigned = self._below = 0
        self._fields: Counter[Labels] = Counter()
        for counter in (
            *(catalogue.STORE_FAILURES, catalogue.FLUSHES),
            *(catalogue.PROBES_UNSIGNED, catalogue.PROBES_UNDECLARED, catalogue.BELOW_THRESHOLD),
        ):
            self._set(counter, 0.0)
        self._set(catalogue.INSECURE, 0.0)
        self._set(catalogue.BUILD_INFO, 1.0, program_version())
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

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
            self._ahead.pop(shard, None)
            self._parked.discard(shard)

    def set_parked(self, shard: Shard, parked: bool) -> None:
        """Record whether a shard of ours waits for a person, as its data is gone."""
        with self._lock:
            (self._parked.add if parked else self._parked.discard)(shard)

    def set_ahead(self, shard: Shard, micros: int) -> None:
        """Record the lead (microseconds) of a shard's events over our clock; shown in minutes."""
        with self._lock:
            self._ahead[shard] = -(-micros // MINUTE) * MINUTE / SECOND

    def set_consumer_state(self, state: str) -> None:
        """Record the consumer's state by its name; raise ValueError for an unknown name."""
        present = ConsumerState(state)
        with self._lock:
            for possible in ConsumerState:
                self._set(catalogue.CONSUMER_STATE, float(possible is present), possible.value)

    def flushed(self, seconds: float) -> None:
        """Count a committed flush, and record its duration to a tenth of a second."""
        with self._lock:
            self._flushes += 1
            self._set(catalogue.FLUSHES, self._steps.down(self._flushes))
            # A flush of a quiet stream is one event, which the exact duration would reveal.
            self._set(catalogue.FLUSH_SECONDS, round(seconds, 1))

    def store_failed(self) -> None:
        """Count a failed transaction of the store."""
        with self._lock:
            self._add(catalogue.STORE_FAILURES, 1)

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
                self._set(catalogue.LABEL_JOINED, joined_at / SECOND)
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
            self._set(catalogue.PENDING, None if decisions is None else self._steps.down(decisions))

    def set_watermark_lag(self, seconds: float | None) -> None:
        """Record the watermark's lag (seconds) behind the stream; None without a watermark."""
        with self._lock:
            self._set(catalogue.WATERMARK_LAG, None if seconds is None else max(seconds, 0.0))

    def add_unknown_values(self, attribute: str, count: int) -> None:
        """Add to the number of values outside an attribute's allow-list; values are not passed.

        They are shown in whole hundreds: the exact number is the size of the slice ``__other__``,
        which may be hidden because it is small.
        """
        with self._lock:
            self._unknown[attribute] += count
            for family in (catalogue.UNKNOWN_VALUES, catalogue.UNKNOWN_DISTINCT):
                self._values.setdefault(family, {}).setdefault((attribute,), 0.0)
            self._show_unlisted_if_free()

    def add_doubtful_probes(self, unsigned: int, undeclared: int) -> None:
        """Add to the numbers of decisions that claim to be probes, unsigned or of no declared set.

        Args:
            unsigned: decisions counted as production. They may be about people, so they are shown
                in whole hundreds, rounded up so that the first one shows.
            undeclared: signed decisions of no declared set, pair or variant.
        """
        with self._lock:
            self._unsigned += unsigned
            self._set(catalogue.PROBES_UNSIGNED, self._steps.up(self._unsigned))
            self._add(catalogue.PROBES_UNDECLARED, undeclared)

    def add_unreadable(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Add numbers of dead letters by reason and field, shown exactly."""
        with self._lock:
            for labels, number in counts.items():
                self._add(catalogue.UNREADABLE, number, *labels)

    def add_unknown_fields(self, event: str, counts: Mapping[str, int]) -> None:
        """Add numbers of dropped fields of decisions or labels, shown in whole hundreds.

        The exact number could reveal a small slice whose producer alone sends the field.
        """
        with self._lock:
            for name, number in counts.items():
                self._fields[event, name] += number
                shown = self._steps.down(self._fields[event, name])
                self._set(catalogue.UNKNOWN_FIELDS, shown, event, name)

    def add_below_threshold(self, count: int) -> None:
        """Add to the number of decisions served below their threshold, shown in whole hundreds.

        The exact number would reveal the route of the decision just read.
        """
        with self._lock:
            self._below += count
            self._set(catalogue.BELOW_THRESHOLD, self._steps.down(self._below))

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
        """Show, rounded down, how many unlisted values each attribute has."""
        for attribute, number in self._unknown.items():
            shown = number // SHOWN_STEP * SHOWN_STEP
            self._set(catalogue.UNKNOWN_VALUES, shown, attribute)
        bands = self._bands.support([*self._distinct.values()]).tolist()
        for attribute, distinct in zip(self._distinct, bands, strict=True):
            self._set(catalogue.UNKNOWN_DISTINCT, distinct, attribute)
        self._limits.set_reached(Limit.VALUES, max(bands, default=0) > MANY_VALUES)

    # Reports of the evaluator.

    def evaluated(self, at: int, seconds: float) -> None:
        """Record an evaluation that ended at ``at`` (wall clock, microseconds) and its seconds."""
        with self._lock:
            self._set(catalogue.EVALUATED, at / SECOND)
            self._set(catalogue.EVALUATION_SECONDS, seconds)

    def set_blind(self, reasons: Collection[Reason]) -> None:
        """Record the reasons why the service is blind; empty if it is not."""
        expected = {reason.why: reason.expected for reason in reasons}
        with self._lock:
            self._values.pop(catalogue.BLIND, None)
            for cause in Blind:
                self._set(
                    catalogue.BLIND, float(cause in expected), cause.value, expected.get(cause, "")
                )

    def set_report(self, newest: tuple[str, int] | None) -> None:
        """Record the newest released week and its first release (microseconds), or None."""
        with self._lock:
            self._values.pop(catalogue.REPORT_STORED, None)
            if newest is not None:
                week, at = newest
                self._set(catalogue.REPORT_STORED, at / SECOND, week)

    def set_retention_refused(self, refused: bool) -> None:
        """Record whether a retention run would have deleted most of the store."""
        with self._lock:
            self._set(catalogue.RETENTION_REFUSED, float(refused))

    def set_label_health(self, coverage: float | None, completeness: float | None) -> None:
        """Record two ratios of the whole stream: labelled / decisions, received / requested labels.

        Both are rounded to two decimals here, like every published ratio.
        """
        with self._lock:
            for family, ratio in (
                (catalogue.LABEL_COVERAGE, coverage),
                (catalogue.LABEL_COMPLETENESS, completeness),
            ):
                self._set(family, None if ratio is None else round(ratio, 2))

    def set_unpublished_labels(self, labels: int | None) -> None:
        """Record the labels in hours without label tables, shown in hundreds; None if unknown."""
        with self._lock:
            shown = None if labels is None else self._steps.down(labels)
            self._set(catalogue.UNPUBLISHED, shown)

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
            self._set(catalogue.CLUSTER_SIZE, setting if is_known else None, "setting")
            self._set(catalogue.CLUSTER_SIZE, measured, "used")
            self._set(catalogue.REPEATED, None if repeats is None else float(repeats))

    # Reports of the exposition.

    def rendered(self, seconds: float, series: int, dropped: int) -> None:
        """Record the duration (seconds) and the series of a rendered slice page."""
        with self._lock:
            self._set(catalogue.RENDER_SECONDS, seconds)
            self._set(catalogue.SERIES, series)
            self._set(catalogue.DROPPED, dropped)
            self._limits.set_reached(Limit.SERIES, dropped > 0)

    def set_withheld(self, withheld: bool) -> None:
        """Record whether the slice page is withheld now."""
        with self._lock:
            self._set(catalogue.WITHHELD, float(withheld))

    def set_insecure(self, insecure: bool) -> None:
        """Record whether others can reach the server without TLS and credentials."""
        with self._lock:
            self._set(catalogue.INSECURE, float(insecure))

    def set_certificates(self, expiries: Iterable[tuple[str, int]]) -> None:
        """Record when each certificate in the settings expires, in microseconds."""
        with self._lock:
            for name, at in expiries:
                self._set(catalogue.CERTIFICATE_EXPIRES, at / SECOND, name)

    def set_bias_scores(
        self, scores: Iterable[CurrentScore], due: Mapping[str, int] | None = None
    ) -> None:
        """Replace the newest bias evaluation results; series of other sets and models vanish.

        Args:
            scores: newest scores.
            due: time (microseconds) since when a dimension without any score is due, by its name.
        """
        with self._lock:
            for family in _BIAS:
                self._values.pop(family, None)
            for name, since in (due or {}).items():
                self._set(catalogue.BIAS_DUE, since / SECOND, name)
            for current_score in scores:
                name, score = current_score.dimension.name, current_score.score
                names = name, score.probe_set, score.probe_version, score.model
                self._set(catalogue.BIAS_SCORE, score.score, *names)
                self._set(catalogue.BIAS_LIMIT, current_score.dimension.limit, name)
                self._set(catalogue.BIAS_BEYOND, current_score.beyond, name)
                self._set(catalogue.BIAS_WORSE_BY, current_score.worse_by, name)
                self._set(catalogue.BIAS_DRIFTED, current_score.drifted, name)
                self._set(catalogue.BIAS_MEASURED, score.day * DAY / SECOND, name)
                if current_score.due is not None:
                    self._set(catalogue.BIAS_DUE, current_score.due * DAY / SECOND, name)

    # The collector, as prometheus-client calls it.

    def describe(self) -> Iterable[Metric]:
        """Return no metrics, so that registration does not run the collector."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metric of every family with samples, in the order of the catalogue."""
        with self._lock:
            values: Values = {family: dict(samples) for family, samples in self._values.items()}
            shards, parked = dict(self._shards), set(self._parked)
            values[catalogue.EVENTS_AHEAD] = {
                (shard.topic, str(shard.partition)): ahead for shard, ahead in self._ahead.items()
            }
            delays, delay_sum = self._delays.copy(), self._delay_sum
            limits = self._limits.reached()
        for shard, state in sorted(shards.items()):
            add_shard(values, shard, state, self._reasons, self._steps)
        values[catalogue.PARKED] = {
            (shard.topic, str(shard.partition)): float(shard in parked)
            for shard in sorted(parked | shards.keys())
        }
        if shards:
            add_sums(values, [s.shown for s in shards.values()], self._steps, self._bands)
        values[catalogue.LIMITED] = {(limit.value,): float(on) for limit, on in limits.items()}
        for family in catalogue.SERVICE:
            if family.kind is MetricKind.HISTOGRAM:
                yield _histogram(family, delays, delay_sum)
            elif values.get(family):
                yield _metric(family, values[family])

    def _set(self, family: Family, value: float | None, *labels: str) -> None:
        """Set a sample, or remove it with None."""
        samples = self._values.setdefault(family, {})
        if value is None:
            samples.pop(labels, None)
        else:
            samples[labels] = float(value)

    def _add(self, family: Family, amount: float, *labels: str) -> None:
        samples = self._values.setdefault(family, {})
        samples[labels] = samples.get(labels, 0.0) + amount


def _metric(family: Family, samples: Mapping[Labels, float]) -> Metric:
    make = CounterMetricFamily if family.kind is MetricKind.COUNTER else GaugeMetricFamily
    metric = make(family.stem, family.help, labels=family.labels)
    for labels, value in samples.items():
        metric.add_metric(labels, value)
    return metric


def _histogram(family: Family, counts: npt.NDArray[np.int64], total: float) -> Metric:
    edges = [*map(str, _DELAY_EDGES.tolist()), "+Inf"]
    buckets = list(zip(edges, np.cumsum(counts).astype(float).tolist(), strict=True))
    return HistogramMetricFamily(family.name, family.help, buckets=buckets, sum_value=total)
