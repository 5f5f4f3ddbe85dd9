"""Run of the demo: broker, topics, service, traffic and table; it leaves nothing behind."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Protocol, TypeVar

import sqlalchemy as sa

from monitor.core.publish.snapshot import Snapshot
from monitor.core.time import DAY, SECOND
from monitor.demo.broker import EmbeddedBroker
from monitor.demo.story import Scenes, Story
from monitor.demo.table import Screen
from monitor.demo.traffic import Produced, Traffic, create_topics
from monitor.demo.view import (
    CommittedTotals,
    DemoView,
    FirstShown,
    Moment,
    incidents_of,
    slice_views,
)
from monitor.demo.world import BEGINS, SimulatedClock, Synthetic
from monitor.errors import SlicewatchError
from monitor.ports import Clock
from monitor.settings import Settings, load
from monitor.store.database import create_engine
from monitor.store.shard_rows import read_statuses

SPEED = DAY / SECOND / 10
"""Simulated seconds per second, at most: one day in ten seconds."""
REFRESH_SECONDS = 0.5
RATE_SECONDS = 5.0
"""Seconds over which events per second are averaged; longer than a flush and a redraw."""


class RunningService(Protocol):
    """Service under demonstration; the demo sees what any reader gets."""

    failure: BaseException | None

    @property
    def port(self) -> int:
        """Return the port of /metrics."""
        ...

    @property
    def snapshot(self) -> Snapshot | None:
        """Return the newest published Snapshot; None before the first."""
        ...

    def start(self) -> None:
        """Start all threads of the service."""
        ...

    def evaluate_once(self) -> None:
        """Evaluate everything stored, and publish the result."""
        ...

    def stop(self) -> None:
        """Stop all threads of the service; safe to call twice."""
        ...


Made = TypeVar("Made")
MakeService = Callable[[Settings, Clock], RunningService]


@dataclass(frozen=True, slots=True)
class Options:
    """Options that the user gave on the command line.

    Attributes:
        seconds: seconds until the demo stops by itself; None runs until stopped.
        seed: seed of the synthetic world.
        port: port of /metrics; 0 takes a free one.
    """

    seconds: float | None = None
    seed: int = 1
    port: int = 0


class Stop(Protocol):
    """Signal from the user to stop, and to hurry when asked twice."""

    asked: bool
    hurried: bool

    def wait(self, seconds: float) -> bool:
        """Wait ``seconds``, or less if a stop is requested; return True if it is requested."""
        ...

    def unless_asked(self, make: Callable[[], Made]) -> Made | None:
        """Return what ``make`` returns; None as soon as a stop is requested."""
        ...

    def unless_hurried(self, make: Callable[[], Made]) -> Made | None:
        """Return what ``make`` returns; None as soon as a stop is requested twice."""
        ...


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts of a started demo, each with threads or a process of its own."""

    broker: EmbeddedBroker
    service: RunningService
    traffic: Traffic
    story: Story
    engine: sa.Engine

    def raise_failure(self) -> None:
        """Raise the failure of the service, story or broker, if any, in the calling thread."""
        failure = self.service.failure or self.story.failure
        if failure is not None:
            raise failure
        if not self.broker.alive:
            raise SlicewatchError("the demo's broker has ended by itself; start the demo again")

    def close(self) -> None:
        """Stop story, service and traffic, and close the database; the broker stays."""
        self.story.stop()
        self.service.stop()
        self.traffic.close()
        self.engine.dispose()


class Demo:
    """Whole demo, from broker to table; :meth:`run` it once.

    Args:
        options: options of the user.
        make_service: builds the real service, whose evaluations the demo asks for.
        screen: output of the table.
        stop: stop signal.
        speed: simulated seconds per second, at most.
    """

    def __init__(
        self,
        options: Options,
        make_service: MakeService,
        screen: Screen,
        stop: Stop,
        speed: float = SPEED,
    ) -> None:
        self._options = options
        self._make_service = make_service
        self._screen = screen
        self._stop = stop
        self._speed = speed
        self._clock = SimulatedClock(BEGINS)
        self._began = self._clock.monotonic()
        self._synthetic = Synthetic(options.seed)
        self._watch = FirstShown()
        self._lately: deque[tuple[float, int]] = deque()
        self._url = ""
        self._parts: _Parts | None = None
        self.produced = Produced()

    @property
    def abandoned(self) -> bool:
        """Return True if the story's thread did not end in time, and still runs."""
        return self._parts is not None and self._parts.story.running

    def run(self) -> DemoView | None:
        """Run until stopped; return the last table's view, or None if stopped early or in a hurry.

        It is None when the demo was stopped before it had started, or in a hurry: threads may still
        run then.

        Raises:
            SlicewatchError: the broker does not start, or the service or the traffic failed.
        """
        with database_folder() as folder, EmbeddedBroker() as broker:
            self._parts = self._stop.unless_asked(lambda: self._make_parts(broker, folder))
            return None if self._parts is None else self._run_parts(self._parts)

    def _make_parts(self, broker: EmbeddedBroker, folder: Path) -> _Parts:
        """Create topics, service, traffic and story for a broker, with a database in ``folder``."""
        url = f"sqlite:///{folder / 'demo.db'}"
        settings = demo_settings(broker.bootstrap, url, self._options.port)
        topics = settings.stream.topics
        create_topics(broker.bootstrap, *topics)
        service = self._make_service(settings, self._clock)
        traffic = Traffic(self._synthetic, broker.bootstrap, topics)
        self.produced = traffic.produced
        engine = create_engine(url)
        scenes = Scenes(
            stored=lambda: _read_totals(engine).messages >= self.produced.messages,
            evaluate=service.evaluate_once,
            told=lambda: self._record_shown(service),
        )
        story = Story(self._clock, traffic, scenes, self._speed)
        return _Parts(broker, service, traffic, story, engine)

    def _run_parts(self, parts: _Parts) -> DemoView | None:
        """Run and show the demo until it is over; return the last view, None if hurried."""
        try:
            parts.service.start()
            self._url = f"http://127.0.0.1:{parts.service.port}"
            with self._screen:
                parts.story.start()
                while not self._is_over():
                    parts.raise_failure()
                    self._screen.show(self._view(parts))
                    self._stop.wait(REFRESH_SECONDS)
                return self._stop.unless_hurried(lambda: self._last_view(parts))
        finally:
            self._stop.unless_hurried(parts.close)

    def _last_view(self, parts: _Parts) -> DemoView:
        """End the story; show and return a view with everything produced."""
        parts.story.stop()
        parts.raise_failure()
        last = self._view(parts)
        self._screen.show(last)
        return last

    def _is_over(self) -> bool:
        seconds = self._options.seconds
        return self._stop.asked or (seconds is not None and self._seconds() >= seconds)

    def _seconds(self) -> float:
        return self._clock.monotonic() - self._began

    def _record_shown(self, service: RunningService) -> None:
        """Record which slices are suspected, and which incidents shown, at the end of a turn."""
        snapshot, moment = service.snapshot, Moment(self._seconds(), self._clock.now())
        if snapshot is not None:
            slices = slice_views(snapshot, self._synthetic.truth)
            self._watch.look(slices, moment, incidents_of(snapshot))

    def _view(self, parts: _Parts) -> DemoView:
        """Return what the screen shows now."""
        snapshot, seconds = parts.service.snapshot, self._seconds()
        consumed = _read_totals(parts.engine)
        return DemoView(
            seconds=seconds,
            simulated=self._clock.now(),
            speed=parts.story.speed,
            regression_at=self._synthetic.world.regression_at,
            snapshot=snapshot,
            slices=slice_views(snapshot, self._synthetic.truth) if snapshot else [],
            watch=self._watch,
            consumed=consumed,
            per_second=self._rate(seconds, consumed.events),
            url=self._url,
        )

    def _rate(self, seconds: float, events: int) -> float:
        """Return the events per second in the last RATE_SECONDS; 0.0 at first."""
        self._lately.append((seconds, events))
        while self._lately[0][0] < seconds - RATE_SECONDS:
            self._lately.popleft()
        since, before = self._lately[0]
        return (events - before) / (seconds - since) if seconds > since else 0.0


def _read_totals(engine: sa.Engine) -> CommittedTotals:
    """Read the shards' statuses from the database and add up their totals."""
    return CommittedTotals.from_statuses(read_statuses(engine))


@contextmanager
def database_folder() -> Iterator[Path]:
    """Yield a new temporary folder; remove the folder and its content afterwards.

    It is renamed first, so that a thread that still runs cannot create a file in it.
    """
    folder = Path(mkdtemp(prefix="slicewatch-demo-"))
    try:
        yield folder
    finally:
        rmtree(folder.rename(folder.with_name(f"{folder.name}-gone")))


def demo_settings(bootstrap: str, store_url: str, port: int) -> Settings:
    """Load the demo's settings file with broker, database and port replaced; ignore os.environ.

    Args:
        bootstrap: address of the broker.
        store_url: URL of the database.
        port: port of /metrics; 0 takes a free one.
    """
    overrides = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": json.dumps([bootstrap]),
        "SLICEWATCH__STORE__URL": store_url,
        "SLICEWATCH__SERVER__LISTEN": f"127.0.0.1:{port}",
    }
    with as_file(files("monitor.demo") / "settings.toml") as path:
        return load(path, overrides)
