"""slicewatch as a user runs it: a process of its own, read over HTTP."""

from __future__ import annotations

import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from free_ports import free_port
from scraped import Series, series_of
from warm_start import MONITOR, Process, start

WAIT_SECONDS = 120.0


class Running:
    """One ``slicewatch`` process; stops with the block."""

    program: Sequence[str] = MONITOR
    answer_seconds = 20.0

    def __init__(
        self, folder: Path, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self.port = free_port()
        self.log = folder / f"slicewatch-{self.port}.log"
        self._folder = folder
        self._arguments = arguments
        self.environment = {
            **os.environ,
            "SLICEWATCH__SERVER__LISTEN": f"127.0.0.1:{self.port}",
            "SLICEWATCH__EVALUATE__CYCLE": "500ms",
            **environment,
        }
        self.process = self._spawn()

    def _spawn(self) -> Process:
        with self.log.open("ab") as log:
            return start(
                self.program,
                self._arguments,
                cwd=self._folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is not None:
            sys.stderr.write(self.log.read_text()[-4000:])
        self.stop()

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}{path}", timeout=self.answer_seconds
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metrics(self) -> Series:
        """All series of the page: (name, labels) -> value."""
        return series_of(self.get("/metrics")[1])

    def value(self, name: str, **labels: str) -> float | None:
        """The one series that has these labels among others; None when there is none."""
        lines = self.get("/metrics")[1].splitlines(keepends=True)
        # Of a page of ten thousand lines, looked at five times a second, nothing else is parsed.
        named = series_of(
            "".join(one for one in lines if one.startswith((f"{name}{{", f"{name} ")))
        )
        found = [
            value for (_, having), value in named.items() if labels.items() <= dict(having).items()
        ]
        assert len(found) <= 1, f"{name}{labels} is not one series"
        return found[0] if found else None

    def until(self, good: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
        """Wait until something is seen on the service."""
        deadline = time.monotonic() + seconds
        while not good():
            assert self.process.poll() is None, f"slicewatch ended: {self.log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
            time.sleep(0.2)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.process = self._spawn()

    def stop(self, seconds: float = 60.0) -> int:
        """SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=seconds)
