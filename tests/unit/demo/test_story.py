"""The demo's time: it never runs ahead of what has been evaluated, however long that takes."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from monitor.core.time import DAY
from monitor.demo.demo_run import database_folder
from monitor.demo.story import TURN, Scenes, Story
from monitor.demo.traffic import Traffic
from monitor.demo.world import BEGINS, HISTORY, SimulatedClock

FAST = 1e15
SECONDS = 30.0


class Machine:
    """Traffic and service of a story; what is produced is stored after so many looks."""

    def __init__(self, looks: int = 0, evaluation: float = 0.0) -> None:
        self.clock = SimulatedClock(BEGINS)
        self.events: list[tuple[str, int]] = []
        self._looks, self._left = looks, looks
        self._evaluation = evaluation
        scenes = Scenes(self._stored, self._evaluate, lambda: self._happens("told"))
        self.story = Story(self.clock, cast(Traffic, self), scenes, FAST)

    def live_until(self, until: int, _ending: Callable[[], bool]) -> None:
        assert until == self.clock.now()
        self._left = self._looks
        self._happens("produced")

    def turns(self, number: int) -> list[tuple[str, int]]:
        """What happened in the first turns."""
        self.story.start()
        until(lambda: len(self.events) >= 3 * number or not self.story.running)
        self.story.stop()
        assert self.story.failure is None
        return self.events[: 3 * number]

    def _happens(self, what: str) -> None:
        self.events.append((what, self.clock.now()))

    def _stored(self) -> bool:
        self._left -= 1
        return self._left < 0

    def _evaluate(self) -> None:
        time.sleep(self._evaluation)
        self._happens("evaluated")


def until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_turn_begins_when_the_last_one_is_evaluated() -> None:
    ends = [BEGINS + day * DAY for day in (1, 2, 3)]
    ends += [BEGINS + HISTORY + turn * TURN for turn in (1, 2)]
    expected = [(what, end) for end in ends for what in ("produced", "evaluated", "told")]
    assert Machine().turns(len(ends)) == expected
    assert Machine(looks=2, evaluation=0.1).turns(len(ends)) == expected


def test_the_pace_that_is_shown_is_what_the_machine_can_do() -> None:
    machine = Machine(evaluation=0.05)
    assert machine.story.speed == FAST
    machine.turns(6)
    assert 0 < machine.story.speed < TURN / 1e6 / 0.05


def test_a_turn_whose_end_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.demo.story.FINISH_SECONDS", 0.1)
    machine = Machine(looks=1 << 60)
    machine.story.start()
    until(lambda: bool(machine.events))
    machine.story.stop()
    until(lambda: not machine.story.running)
    assert [what for what, _ in machine.events] == ["produced"]


def test_a_failure_ends_the_story_and_is_kept() -> None:
    machine = Machine()
    machine.live_until = cast(Any, _fail)  # type: ignore[method-assign]
    machine.story.start()
    until(lambda: not machine.story.running)
    assert isinstance(machine.story.failure, OSError)


def _fail(*_: object) -> None:
    raise OSError("no broker")


def test_the_folder_is_removed_while_a_thread_still_writes_there() -> None:
    """As an evaluation does that outlasts the stop of the demo."""
    ending = threading.Event()
    with database_folder() as folder:
        thread = threading.Thread(target=_write, args=(folder, ending))
        thread.start()
        until(lambda: any(folder.iterdir()))
    try:
        time.sleep(0.1)
        assert [path for path in folder.parent.iterdir() if folder.name in path.name] == []
    finally:
        ending.set()
        thread.join()


def _write(folder: Path, ending: threading.Event) -> None:
    number = 0
    while not ending.is_set():
        number += 1
        try:
            with sqlite3.connect(folder / f"{number}.db") as connection:
                connection.execute("CREATE TABLE written (x)")
        except sqlite3.Error:
            assert not folder.exists()
