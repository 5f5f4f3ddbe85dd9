"""Time of the demo: it advances once the service has evaluated everything so far.

It moves in turns. In each turn the router decides, reviewers answer, ingest stores and the
evaluator evaluates; only then the next turn begins. Every machine therefore tells the same story,
and a slow one takes longer for it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from monitor.core.time import DAY, HOUR, SECOND
from monitor.demo.traffic import Traffic
from monitor.demo.world import BEGINS, HISTORY, SimulatedClock

TURN = 3 * HOUR
TURNS_OF_PACE = 8
"""Turns over which the pace is measured: one simulated day."""
POLL_SECONDS = 0.05
FINISH_SECONDS = 8.0
"""Seconds that the last turn may take once the demo is stopped."""


@dataclass(frozen=True, slots=True)
class Scenes:
    """Callbacks that the Story calls in each turn after producing the traffic.

    Attributes:
        stored: returns True when ingest has stored everything produced.
        evaluate: evaluates all of it.
        told: records what is shown then.
    """

    stored: Callable[[], bool]
    evaluate: Callable[[], None]
    told: Callable[[], None]


class Story:
    """Sequence of simulated turns, run in a thread of its own.

    Args:
        clock: simulated time, which nobody else moves.
        traffic: producer of decisions and labels.
        scenes: other steps of a turn.
        speed: simulated seconds per second, at most.
    """

    def __init__(
        self, clock: SimulatedClock, traffic: Traffic, scenes: Scenes, speed: float
    ) -> None:
        self.failure: BaseException | None = None
        self._clock = clock
        self._traffic = traffic
        self._scenes = scenes
        self._speed = speed
        self._turns: deque[tuple[float, int]] = deque(maxlen=TURNS_OF_PACE + 1)
        self._ending, self._given_up = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="story", daemon=True)

    @property
    def speed(self) -> float:
        """Return recent simulated seconds per second; before two turns, the target."""
        if len(self._turns) < 2:  # noqa: PLR2004 a span has two ends
            return self._speed
        (began, first), (ended, last) = self._turns[0], self._turns[-1]
        return (last - first) / SECOND / (ended - began)

    @property
    def running(self) -> bool:
        """Return True while the story's thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread: history day by day, then turns until :meth:`stop`."""
        self._thread.start()

    def stop(self) -> None:
        """End the story after the current turn, or give the turn up after FINISH_SECONDS."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(FINISH_SECONDS)
        self._given_up.set()

    def _run(self) -> None:
        """Play the history without pauses, then turns at the chosen speed, until asked to end."""
        try:
            while self._clock.now() < BEGINS + HISTORY and not self._ending.is_set():
                self._play_turn(self._clock.now() + DAY)
            while not self._ending.is_set():
                ends_at = time.monotonic() + TURN / SECOND / self._speed
                self._turns.append((time.monotonic(), self._clock.now()))
                self._play_turn(self._clock.now() + TURN)
                self._ending.wait(max(0.0, ends_at - time.monotonic()))
        except BaseException as error:  # the main thread raises it
            self.failure = error

    def _play_turn(self, until: int) -> None:
        """Play one turn: move the clock, produce traffic, wait until stored, and evaluate."""
        self._clock.move(until)
        self._traffic.live_until(until, self._ending.is_set)
        while not self._scenes.stored():
            if self._given_up.wait(POLL_SECONDS):
                return
        self._scenes.evaluate()
        self._scenes.told()
