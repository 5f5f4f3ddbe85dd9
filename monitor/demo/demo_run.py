"""The demo from start to end: broker, topics, service, traffic, table; and nothing left behind."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import sqlalchemy as sa

from monitor.core.publish.snapshot import Snapshot
from monitor.core.time import DAY, SECOND
from monitor.demo.broker import EmbeddedBroker
from monitor.demo.table import Screen
from monitor.demo.traffic import Produced, Traffic, create_topics
from monitor.demo.view import CommittedTotals, DemoView, FirstShown, incidents_of, slice_views
from monitor.demo.world import BEGINS, HISTORY, SimulatedClock, Synthetic
from monitor.errors import SlicewatchError
from monitor.ports import Clock
from monitor.settings import Settings, load
from monitor.store.database import create_engine
from monitor.store.shard_rows import read_statuses

SPEED = DAY / SECOND / 10
"""Simulated seconds a second: one day in ten seconds."""
REFRESH_SECONDS = 0.5
RATE_SECONDS = 5.0
"""Seconds over which events per second are averaged; longer than a flush and a redraw."""
DRAIN_SECONDS, DRAIN_POLL_SECONDS = 3.0, 0.1
"""Seconds the service may take to read what is left when the demo ends, and between looks."""


class RunningService(Protocol):
    """The service as the demo sees it: what it shows is what any reader gets."""

    failure: BaseException | None

    @property
    def port(self) -> int:
        """Port of /metrics."""
        ...

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest published Snapshot."""
        ...

    def start(self) -> None:
        """Start all threads."""
        ...

    def stop(self) -> None:
        """Stop them; safe to call twice."""
        ...


MakeService = Callable[[Settings, Clock], RunningService]


@dataclass(frozen=True, slots=True)
class Options:
    """Options that the user may choose.

    Attributes:
        seconds: stop by itself after so many; None runs until stopped.
        seed: of the synthetic world.
        port: of /metrics; 0 takes a free one.
    """

    seconds: float | None = None
    seed: int = 1
    port: int = 0


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts that run alongside the main thread."""

    broker: EmbeddedBroker
    service: RunningService
    traffic: Traffic

    def raise_failure(self) -> None:
        """Raise a failure of another part in the main thread."""
        failure = self.service.failure or self.traffic.failure
        if failure is not None:
            raise failure
        if not self.broker.alive:
            raise SlicewatchError("the demo's broker has ended by itself; start the demo again")


class Demo:
    """One demo; :meth:`run` it once.

    Args:
        options: what the user chose.
        make_service: builds the real service.
        screen: where the table goes.
        stop: set by a signal.
    """

    def __init__(
        self, options: Options, make_service: MakeService, screen: Screen, stop: threading.Event
    ) -> None:
        self._options = options
        self._make_service = make_service
        self._screen = screen
        self._stop = stop
        self._clock = SimulatedClock(BEGINS + HISTORY, SPEED)
        self._began = self._clock.monotonic()
        self._synthetic = Synthetic(options.seed)
        self._watch = FirstShown()
        self._lately: deque[tuple[float, int]] = deque()
        self._consumed = CommittedTotals()
        self._url = ""
        self.produced = Produced()

    def run(self) -> DemoView:
        """Run until stopped; returns what the last table held, with everything consumed.

        Raises:
            SlicewatchError: the broker does not start, or the service or the traffic failed.
        """
        with ExitStack() as stack:
            folder = stack.enter_context(TemporaryDirectory(prefix="slicewatch-demo-"))
            broker = stack.enter_context(EmbeddedBroker())
            url = f"sqlite:///{Path(folder) / 'demo.db'}"
            settings = demo_settings(broker.bootstrap, url, self._options.port)
            topics = settings.stream.decisions_topic, settings.stream.labels_topic
            create_topics(broker.bootstrap, *topics)
            service = self._make_service(settings, self._clock)
            stack.callback(service.stop)
            traffic = Traffic(self._synthetic, broker.bootstrap, topics, self._clock, self._stop)
            stack.callback(traffic.stop)
            self.produced = traffic.produced
            engine = create_engine(url)
            stack.callback(engine.dispose)
            return self._live(_Parts(broker, service, traffic), engine)

    def _live(self, parts: _Parts, engine: sa.Engine) -> DemoView:
        service, traffic = parts.service, parts.traffic
        service.start()
        self._url = f"http://127.0.0.1:{service.port}"
        with self._screen:
            self._screen.show(self._look(service, engine))
            traffic.history(BEGINS + HISTORY)
            self._clock.start()
            traffic.start()
            while not self._stop.wait(REFRESH_SECONDS) and not self._over():
                parts.raise_failure()
                self._screen.show(self._look(service, engine))
            traffic.stop()
            self._drain(engine)
            service.stop()
            parts.raise_failure()
            last = self._look(service, engine)
            self._screen.show(last)
        return last

    def _drain(self, engine: sa.Engine) -> None:
        """Let the service read what is left, so that the last numbers add up."""
        until = self._clock.monotonic() + DRAIN_SECONDS
        while self._clock.monotonic() < until:
            if CommittedTotals.of(read_statuses(engine)).messages >= self.produced.messages:
                return
            time.sleep(DRAIN_POLL_SECONDS)

    def _over(self) -> bool:
        seconds = self._options.seconds
        return seconds is not None and self._seconds() >= seconds

    def _seconds(self) -> float:
        return self._clock.monotonic() - self._began

    def _look(self, service: RunningService, engine: sa.Engine) -> DemoView:
        snapshot, seconds = service.snapshot, self._seconds()
        slices = slice_views(snapshot, self._synthetic.truth) if snapshot else []
        self._watch.look(slices, seconds, incidents_of(snapshot) if snapshot else ())
        consumed = CommittedTotals.of(read_statuses(engine))
        return DemoView(
            seconds=seconds,
            simulated=self._clock.now(),
            speed=self._clock.speed,
            regression_at=self._synthetic.world.regression_at,
            snapshot=snapshot,
            slices=slices,
            watch=self._watch,
            consumed=consumed,
            per_second=self._rate(seconds, consumed.events),
            url=self._url,
        )

    def _rate(self, seconds: float, events: int) -> float:
        self._lately.append((seconds, events))
        while self._lately[0][0] < seconds - RATE_SECONDS:
            self._lately.popleft()
        since, before = self._lately[0]
        return (events - before) / (seconds - since) if seconds > since else 0.0


def demo_settings(bootstrap: str, store_url: str, port: int) -> Settings:
    """An ordinary settings file with three overrides; the caller's environment has no say.

    Args:
        bootstrap: address of the broker.
        store_url: database.
        port: of /metrics; 0 takes a free one.
    """
    overrides = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": json.dumps([bootstrap]),
        "SLICEWATCH__STORE__URL": store_url,
        "SLICEWATCH__SERVER__PORT": str(port),
    }
    with as_file(files("monitor.demo") / "settings.toml") as path:
        return load(path, overrides)
