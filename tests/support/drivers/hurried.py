"""The whole service in this process, with a monotonic clock that runs faster than the wall's.

For what takes a minute on purpose: deadlines come sooner, and everything else is as it is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from free_ports import free_port
from running import WAIT_SECONDS

from monitor.service import Parts, Service
from monitor.settings import load


class HurriedClock:
    """Wall time as it is; monotonic time runs ``speed`` times as fast."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._since = time.monotonic()
        self._told = 0.0

    def now(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return self._told + (time.monotonic() - self._since) * self._speed

    def calm_down(self) -> None:
        """Run as fast as the wall from now on."""
        self._told, self._since, self._speed = self.monotonic(), time.monotonic(), 1.0


class HurriedService:
    """``slicewatch run`` in a thread; stops with the block."""

    def __init__(self, settings: Path, environment: Mapping[str, str], speed: float = 10.0) -> None:
        self._clock = HurriedClock(speed)
        environment = {
            "SLICEWATCH__SERVER__LISTEN": f"127.0.0.1:{free_port()}",
            "SLICEWATCH__EVALUATE__CYCLE": "500ms",
            **environment,
        }
        self.service = Service(load(settings, environment), Parts(), clock=self._clock)
        self._thread = threading.Thread(target=self.service.run, name="service")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._clock.calm_down()
        self.service.ask_to_stop()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()

    def value(self, name: str, **labels: str) -> float | None:
        """One series of the service's own metrics."""
        found: float | None = self.service.metrics.registry.get_sample_value(name, labels)
        return found

    @property
    def why(self) -> str:
        """Why the worker is not ready."""
        ready, why = self.service.ready()
        return "" if ready else why

    def until(self, good: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
        """Wait until something is seen on the service."""
        deadline = time.monotonic() + seconds
        while not good():
            assert self._thread.is_alive(), f"slicewatch ended: {self.service.failure}"
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}; {self.why}"
            time.sleep(0.1)
