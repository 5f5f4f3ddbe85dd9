"""The running service: ingest, evaluate and serve, each in a thread of its own.

``slicewatch run`` has all three, ``ingest`` the first and ``serve`` the other two. Every process
answers health probes and serves its own metrics.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from alerts.exposition.exporter import Exporter
from alerts.exposition.renderer import MAX_SERIES
from alerts.exposition.service_metrics import ServiceMetrics
from alerts.http import HealthChecks
from consumers.dead_letters import REASONS
from consumers.receiving import EventReceiver
from consumers.sources.inbox import Inbox
from monitor import certificates
from monitor.clock import SystemClock
from monitor.composition.brokers import kafka_source
from monitor.composition.embedded import log_source, open_inbox, open_log
from monitor.composition.evaluator import build_evaluator, health_policy
from monitor.composition.ingest import build_ingest
from monitor.composition.servers import build_receiver, build_servers, event_judge, producers
from monitor.composition.site import build_site
from monitor.composition.store import begin_service, open_store, retention_policy
from monitor.core.bias_scores import current_scores
from monitor.core.blindness import Reason
from monitor.core.publish.snapshot import Snapshot, decode, numbered
from monitor.core.publish.words import age_text
from monitor.core.time import MINUTE, SECOND, Grain
from monitor.errors import LostStoreError, RetentionRefusedError, SlicewatchError, StoreError
from monitor.ports import Clock, RecordSource
from monitor.settings import Settings
from monitor.store.bias_score_rows import read_bias_scores
from monitor.store.database import reading
from monitor.store.evaluator.records import RecordStore, newest_snapshot
from monitor.store.evaluator.weekly_releases import newest_stored
from monitor.store.shard_rows import read_newest
from monitor.store.upkeep import retention
from monitor.store.upkeep.service_health import read_blindness
from monitor.watchdog import Watchdog

log = logging.getLogger("slicewatch.service")

STOP_SECONDS = 8.0
"""Time after which a running thread is abandoned: a stop takes less than ten seconds."""
CATCH_UP_SECONDS = 1.0
"""Time per cycle for waiting label cohorts; at least a day of them is consumed."""
WATCH_SECONDS = 1.0
RETENTION_EVERY = 10 * MINUTE
INBOX_SECONDS = 1.0
JUDGE_SECONDS = 15.0
"""Interval of judging the health of the whole service."""
JOIN_SECONDS = 60.0
"""Time after the start until the absence of a worker is reported."""
STALE_CYCLES = 60
"""Evaluator cycles without success after which the process is not ready."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Choice of what a process runs: ingest, evaluation with serving, or both."""

    ingest: bool = True
    serve: bool = True


class Service:
    """Threads of the service (ingest, evaluate, HTTP); use :meth:`run`, or start and stop.

    Without threads the caller turns the parts itself: ``ingest.step`` and :meth:`evaluate_once`.
    With ``in_turns`` the caller turns only the evaluator, and each evaluation goes on until no hour
    waits. With a simulated ``clock``, ``pace`` is the number of seconds of event time per second.

    Attributes:
        settings: settings of the whole service.
        metrics: metrics of the process, written by all parts.
        failure: the error that ended a part; None while all run.
        engine: the database that all parts share; :meth:`stop` closes it.
        ingest: the worker; None if this process has none.
        evaluator: evaluates and publishes while it holds the lease.
        exporter: renders the exposition.
        servers: the ports.
    """

    def __init__(
        self,
        settings: Settings,
        parts: Parts = Parts(),
        *,
        clock: Clock | None = None,
        pace: float = 1.0,
        in_turns: bool = False,
        source: Callable[[Settings], RecordSource] = kafka_source,
    ) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._health_policy = health_policy(settings, pace)
        self.metrics = ServiceMetrics(
            REASONS,
            k=max(use_case.k or settings.privacy.k for use_case in settings.use_case),
            decisions_topic=settings.stream.decisions_topic,
            monotonic=self._clock.monotonic,
        )
        self.failure: BaseException | None = None
        for attribute in settings.attribute:
            # A series that appeared with its first event would reveal that event.
            self.metrics.add_unknown_values(attribute.name, 0)
        self._parts = parts
        self._ending = threading.Event()
        self._ingested = threading.Event()
        self.engine = open_store(settings, self._clock)
        self._begin()
        self._records = RecordStore(self.engine)
        self._snapshot: Snapshot | None = None
        self._seen = 0
        self._began = self._evaluated = self._clock.monotonic()
        self._cleaned = 0
        self._refused: str | None = None
        self._blind: list[Reason] = []
        # Our own worker needs time to join the group.
        self._next_judged = self._began + (JOIN_SECONDS if parts.ingest else JUDGE_SECONDS)
        self._dimensions = [dimension.to_core() for dimension in settings.bias_dimension]
        self._next_scores, self._due_since = self._began, self._clock.now()
        self._pending_reported: list[int] = []
        self._evaluating = True
        self._lost = False
        self.evaluator = build_evaluator(settings, self.engine, self._clock)
        self._in_turns = in_turns
        if not in_turns:
            self.evaluator.hurried = self._must_finish_soon
        self.exporter = Exporter(
            self.metrics, max_series=MAX_SERIES, clock=self._clock, started=self._started
        )
        embedded = parts.ingest and settings.stream.embedded
        log_of_events = open_log(settings, self._clock) if embedded else None
        self._inbox: Inbox | None = None
        self._receiver: EventReceiver | None = None
        if parts.ingest and (log_of_events is not None or producers(settings)):
            judge = event_judge(settings, self._clock, self._reached)
            if log_of_events is not None:
                self._inbox = open_inbox(settings, log_of_events, judge)
            self._receiver = build_receiver(settings, self.metrics, judge, log_of_events)
        self.servers = build_servers(
            settings,
            self.exporter,
            HealthChecks(live=self._live, ready=self.ready, started=self._started),
            self._clock,
            snapshots=self._records.snapshot_at if parts.serve else None,
            site=build_site(settings, self.engine, self._clock, self._blind_texts, self.exporter)
            if parts.serve
            else None,
            receiver=self._receiver,
        )
        for name, at in certificates.expiries(settings):
            self.metrics.show_process("certificate_not_after_timestamp_seconds", at / SECOND, name)
        self._threads: list[threading.Thread] = []
        # Last, because a failure after it would leave the client open.
        self._source = source(settings) if parts.ingest and not log_of_events else None
        if log_of_events is not None:
            self._source = log_source(settings, log_of_events)
        self.ingest = (
            build_ingest(settings, self.engine, self._source, self.metrics, self._clock)
            if self._source is not None
            else None
        )
        self._watchdog = (
            Watchdog(settings, self.ingest, self.metrics, self._clock) if self.ingest else None
        )

    @property
    def port(self) -> int:
        """Number of the port that serves the slice metrics."""
        return self.servers.port

    @property
    def operations_port(self) -> int | None:
        """Number of the port of the service's own metrics; None without one."""
        return self.servers.operations_port

    @property
    def snapshot(self) -> Snapshot | None:
        """Newest published Snapshot that this process serves; None before the first."""
        return self._snapshot

    def start(self) -> None:
        """Start the HTTP servers and all threads; return when the ports answer."""
        try:
            self.servers.start()
        except BaseException:
            if self._source is not None:  # the thread that would close it has not begun
                self._source.close()
            raise
        if self.ingest is not None:
            self._threads.append(self._spawn("ingest", self.ingest.run))
        if self._inbox is not None:
            self._threads.append(self._spawn("inbox", partial(self._read_inbox, self._inbox)))
        if self._parts.serve and not self._in_turns:
            self._threads.append(self._spawn("evaluate", self._evaluate_forever))

    def stop(self) -> None:
        """Stop ingest after a last flush, then threads, servers and store; safe to call twice."""
        self._ending.set()
        if self.ingest is not None:
            self.ingest.stop()
        else:
            self._ingested.set()
        # Ingest stops first, so that the last evaluation sees the last flush.
        deadline = self._clock.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
            if thread.is_alive():
                log.error("did not stop in time and is abandoned", extra={"part": thread.name})
            self._ingested.set()
        self._threads.clear()
        self.servers.stop()
        if self._receiver is not None:
            self._receiver.close()
        self.engine.dispose()

    def run(self) -> None:
        """Start, wait for :meth:`ask_to_stop` or a failure, stop, and raise the failure.

        Raises:
            SlicewatchError: the service cannot go on.
        """
        self.start()
        log.info("serving", extra={"port": self.port, "operations_port": self.operations_port})
        if self._watchdog is not None:
            # Its end is not awaited: a look may take long, and leaves nothing unfinished.
            self._spawn("watch", partial(self._watch, self._watchdog))
        try:
            self._ending.wait()
        finally:
            self.stop()
        if self.failure is not None:
            raise self.failure

    def ask_to_stop(self) -> None:
        """Make :meth:`run` return: stop ingest and set the end flag.

        Any thread may call it, but no signal handler, because it takes locks.
        """
        if self.ingest is not None:
            self.ingest.stop()
        self._ending.set()

    def _spawn(self, name: str, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._guarded, args=(target,), name=name, daemon=True)
        thread.start()
        return thread

    def _guarded(self, target: Callable[[], None]) -> None:
        """Run a part's thread; whatever ends it ends the service, and a failure is kept."""
        try:
            target()
        except BaseException as error:
            self.failure = error
            if not isinstance(error, SlicewatchError):
                log.exception("a part of the service has failed")
        finally:
            self._ending.set()

    def _reached(self, are_labels: bool) -> int:
        """Return the event time that all partitions of labels, or of decisions, have reached."""
        return self.ingest.reached(are_labels) if self.ingest else 0

    def _watch(self, watchdog: Watchdog) -> None:
        while not self._ending.wait(WATCH_SECONDS):
            watchdog.look()

    def _read_inbox(self, inbox: Inbox) -> None:
        while not self._ending.wait(INBOX_SECONDS):
            inbox.look()

    def _begin(self) -> None:
        """Prepare the store for this service, and log what changed since the last start."""
        try:
            changes = begin_service(self.settings, self.engine, self._clock)
        except BaseException:
            self.engine.dispose()
            raise
        for change in changes:
            log.warning("since the last start: %s", change)

    # Evaluate and publish

    def _evaluate_forever(self) -> None:
        """Evaluate once in each cycle until ingest has ended, and once more after it."""
        interval = self.settings.evaluate.cycle / SECOND
        try:
            self.evaluate_once()
            while not self._ingested.wait(interval):
                self.evaluate_once()
            self.evaluate_once()
        finally:
            self._release()

    def _must_finish_soon(self) -> bool:
        """Return True when the service ends or a cycle takes too long for cohorts that can wait."""
        took = self._clock.monotonic() - self._began
        return self._ending.is_set() or took > CATCH_UP_SECONDS

    def evaluate_once(self) -> None:
        """Evaluate, publish, judge health and clean up once; log a StoreError and count it."""
        start = self._began = self._clock.monotonic()
        try:
            working = self.evaluator.cycle()
            self._publish(0.0 if working else self.evaluator.age)
            self._judge_health()
            self._show_bias_scores()
            if working:
                self._clean()
        except StoreError as error:
            self.metrics.store_failed()
            self._seen = 0  # a restored database may give the number to another Snapshot
            if self._evaluating:
                log.error("evaluation failed, it is tried again every cycle: %s", error)
            self._evaluating = False
            self._lost = isinstance(error, LostStoreError)
            return
        if not self._evaluating:
            log.info("evaluation goes on")
        self._evaluating, self._lost = True, False
        self._evaluated = self._clock.monotonic()
        ended = self._clock.now() / SECOND
        self.metrics.show_process("evaluation_timestamp_seconds", ended)
        self.metrics.show_process("evaluation_duration_seconds", self._evaluated - start)

    def _publish(self, age: float) -> None:
        """Show the newest Snapshot of any process, and the progress of stream and reports."""
        own = self.evaluator.published
        with reading(self.engine) as connection:
            stored = newest_snapshot(connection, self._seen if own is None else own[0])
            newest_event = read_newest(connection, self.settings.stream.decisions_topic)
            self.metrics.set_report(newest_stored(connection))
        newest = own if stored is None else (stored[0], decode(stored[1]))
        if newest is not None and (stored is not None or newest[0] != self._seen):
            self._seen, snapshot = newest
            self._snapshot = numbered(snapshot, self._seen)
        if self._snapshot is not None:
            self.exporter.publish(self._snapshot, age=age)
        self._report_health(newest_event or 0)

    def _report_health(self, newest: int) -> None:
        """Set metrics of labels and clusters, and of the watermark's lag behind ``newest`` (us)."""
        if self._snapshot is None:
            return
        tables = self._snapshot.contracts
        totals = [w.total for t in tables for w in t.windows if w.window == t.window]
        complete = [row.completeness for row in totals if row.completeness is not None]
        evaluator = self.evaluator
        self.metrics.set_label_health(evaluator.coverage, min(complete, default=None))
        self.metrics.set_unpublished_labels(evaluator.unpublished_labels)
        self.metrics.set_clusters(
            evaluator.policy.cluster_size, evaluator.cluster_size, repeats=evaluator.repeats
        )
        watermark = self._snapshot.watermark
        # Rounded to five minutes, like the watermark: the exact time is that of one decision.
        newest -= newest % Grain.MINUTES5
        lag = (newest - watermark) / SECOND if watermark is not None else None
        self.metrics.set_watermark_lag(lag)

    def _judge_health(self) -> None:
        """Read reasons for blindness every JUDGE_SECONDS; log new ones and set metrics."""
        now = self._clock.monotonic()
        if now < self._next_judged:
            return
        self._next_judged = now + JUDGE_SECONDS
        reasons = read_blindness(self.engine, self._health_policy, self._clock.now())
        for reason in reasons:
            if reason not in self._blind and reason.blinds:
                log.error("the service is blind: %s", reason.text)
            elif reason not in self._blind:
                log.warning("decisions are late: %s", reason.text)
        self._blind = reasons
        self.metrics.set_blind(reasons)

    def _show_bias_scores(self) -> None:
        """Read the newest bias scores every JUDGE_SECONDS, and set their metrics."""
        now = self._clock.monotonic()
        if not self._dimensions or now < self._next_scores:
            return
        self._next_scores = now + JUDGE_SECONDS
        scores = current_scores(self._dimensions, read_bias_scores(self.engine))
        measured = {score.dimension.name for score in scores}
        due = (d.name for d in self._dimensions if d.max_age and d.name not in measured)
        self.metrics.set_bias_scores(scores, dict.fromkeys(due, self._due_since))

    def _blind_texts(self) -> list[str]:
        """Return the texts of all reasons for blindness, the evaluator's own delay first."""
        return [
            *self._evaluator_behind(),
            *(reason.text for reason in self._blind if reason.blinds),
        ]

    def _evaluator_behind(self) -> Iterator[str]:
        """Yield why this process does not evaluate: lost files, or an overdue cycle."""
        if self._lost:
            yield "files of the database were removed or replaced, and nothing is written any more"
        idle = self._clock.monotonic() - self._evaluated
        if self._parts.serve and idle > STALE_CYCLES * self.settings.evaluate.cycle / SECOND:
            yield (
                f"the evaluator has not finished a cycle for {age_text(idle)}, whatever router and"
                " ingest do: look first at the log of this process, and then at the database"
            )

    def _clean(self) -> None:
        """Apply the retention if it is due."""
        now = self._clock.now()
        if now - self._cleaned >= RETENTION_EVERY:
            self._cleaned = now
            self.retain(now)
            self._report_pending()

    def retain(self, now: int) -> None:
        """Delete rows past their retention; log and export a refusal (a clock may be wrong)."""
        slowest, refused = self._records.slowest_event_time(), None
        try:
            retention.apply(self.engine, retention_policy(self.settings), slowest, now)
        except RetentionRefusedError as error:
            refused = str(error)
        if refused is not None and refused != self._refused:
            log.error("retention is refused: %s", refused)
        self._refused = refused
        self.metrics.show_process("retention_refused", refused is not None)

    def _report_pending(self) -> None:
        """Set the metric of pending rows only with a new table, so that it reveals no decision."""
        tables = self._snapshot.contracts if self._snapshot else ()
        ends = [w.decisions.end for t in tables for w in t.windows if w.decisions is not None]
        if ends and ends != self._pending_reported:
            self._pending_reported = ends
            self.metrics.set_pending(self._records.pending_rows())

    def _release(self) -> None:
        """Give back the lease; a database that fails is only logged."""
        try:
            self.evaluator.release_lease()
        except StoreError as error:
            log.warning("the lease was not given back: %s", error)

    def _live(self) -> bool:
        """Return True unless the ingest of this process hangs."""
        return self.ingest is None or self.ingest.health.live(self._clock.monotonic())

    def ready(self) -> tuple[bool, str]:
        """Return True and ``ok`` when the process is ready, else False and the reason."""
        if blind := self._blind_texts():
            return False, "; ".join(blind)
        now = self._clock.monotonic()
        return (True, "ok") if self.ingest is None else self.ingest.health.ready(now)

    def _started(self) -> bool:
        """Return True once the ingest of this process has shards, or if there is none."""
        return self.ingest is None or self.ingest.health.started
