"""Rounds of a probe set: each round sends every variant of every pair once, at a pace.

Probes go one at a time, evenly, and slower when the router asks for it. Each is sent until there is
an answer or no hope of one. The variants of a pair follow each other directly, so that little
changes between them, and in random order, so that none is always first. A finished pair is passed
on at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import ceil
from typing import Protocol

import numpy as np

from monitor.audit.inputs import Item, ProbeSet, Row, RunVersions
from monitor.ports import Clock
from monitor.probing.protocol import RETRIED, Answer, Failure, FailureKind, Probe, Router

HOPELESS = 10
"""Successive variants without an answer after which a round is given up: the next would get none
either, and a router that is down must not get thousands of attempts."""
LONGEST_HOLD = 60.0
"""Seconds that a router may put us off at most: the cadence must go on."""


class StopRequest(Protocol):
    """Request to stop, which a caller may make at any time and which ends waits."""

    @property
    def asked(self) -> bool:
        """Return True once a stop is requested."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait ``seconds``, or less if a stop is requested; return True if it is requested."""
        ...


class Pace:
    """Pace of requests: turns at least 1 / rate seconds apart; missed turns are skipped.

    Args:
        rate: most turns per second.
        monotonic: seconds since a fixed moment.
        stop: ends a wait.
    """

    def __init__(self, rate: float, monotonic: Callable[[], float], stop: StopRequest) -> None:
        self._gap = 1.0 / rate
        self._monotonic = monotonic
        self._stop = stop
        self._next = monotonic()

    def turn(self) -> bool:
        """Wait for the next turn and return True; return False if asked to stop."""
        if not wait_until(self._next, self._monotonic, self._stop):
            return False
        self._next = self._monotonic() + self._gap
        return True

    def hold(self, seconds: float) -> None:
        """Postpone the next turn by at least ``seconds`` from now."""
        self._next = max(self._next, self._monotonic() + seconds)


def wait_until(at: float, monotonic: Callable[[], float], stop: StopRequest) -> bool:
    """Wait until ``at`` on the monotonic clock and return True; return False if asked to stop."""
    while (left := at - monotonic()) > 0:
        if stop.wait(left):
            return False
    return not stop.asked


@dataclass(frozen=True, slots=True)
class Retries:
    """Limits on attempts per variant, and on the pauses between them.

    Attributes:
        attempts: most attempts, the first one included.
        pause: seconds before the second attempt; twice that before the third, and so on.
    """

    attempts: int = 3
    pause: float = 0.5


class Sender:
    """Sender of probes to a router at a pace, with retries after brief failures.

    A probe may be sent again without harm: the router acts on nothing, and only the received
    answer is passed on.
    """

    def __init__(self, router: Router, pace: Pace, retries: Retries) -> None:
        self._router = router
        self._pace = pace
        self._retries = retries

    def send(self, probe: Probe) -> Answer | Failure | None:
        """Send a probe, with retries; return an Answer, the last Failure, or None if stopped."""
        outcome: Failure | None = None
        for attempt in range(self._retries.attempts):
            if not self._pace.turn():
                return None
            reply = self._router.ask(probe)
            if isinstance(reply, Answer) or reply.kind not in RETRIED:
                return reply
            outcome = reply
            self._hold(reply, attempt)
        return outcome

    def _hold(self, failure: Failure, attempt: int) -> None:
        """Hold the pace for the router's Retry-After, else for a pause that doubles per attempt."""
        wait = failure.retry_after
        if wait is None:
            wait = self._retries.pause * 2**attempt
        self._pace.hold(min(wait, LONGEST_HOLD))


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times at which the rounds of a probe set begin.

    Attributes:
        every: seconds from the start of one round to the start of the next.
        times: number of rounds; None never ends.
    """

    every: float = 0.0
    times: int | None = 1

    def rounds(self, monotonic: Callable[[], float], stop: StopRequest) -> Iterator[int]:
        """Yield round numbers from 1, each when due; end after ``times``, or if asked to stop.

        Starts lie a multiple of ``every`` after the first. A round that lasts longer than ``every``
        replaces the rounds that should have begun meanwhile.
        """
        first, number = monotonic(), 0
        while not stop.asked and (self.times is None or number < self.times):
            number += 1
            yield number
            if number == self.times:
                return
            if not wait_until(self._next(first, monotonic()), monotonic, stop):
                return

    def _next(self, first: float, now: float) -> float:
        """Return when the next round is due (seconds): at once, or on the grid from ``first``."""
        if self.every <= 0:
            return now
        return first + self.every * max(ceil((now - first) / self.every), 1)


@dataclass(frozen=True, slots=True)
class Answered:
    """Variant with its answer; ``at`` is the time of the answer, microseconds."""

    item: Item
    answer: Answer
    at: int

    def row(self, line: int) -> Row:
        """Return item, decision and versions as a Row of results with line number ``line``."""
        versions = self.answer.versions
        decided = RunVersions(versions.judge, versions.rubric, versions.policy, versions.router)
        return Row(self.item, self.answer.observed, decided, line)


class Watcher(Protocol):
    """Observer that a Runner tells about each failed variant, mixed pair and finished pair."""

    def failed(self, item: Item, why: str) -> None:
        """Report a variant without an answer, with the reason."""
        ...

    def mixed(self, pair: str) -> None:
        """Report a pair whose variants were decided by different versions."""
        ...

    def advanced(self) -> None:
        """Report that one more pair is finished."""
        ...


@dataclass(slots=True)
class Round:
    """Counts and answers of one round.

    Attributes:
        pairs: number of pairs to send.
        answered: answers in the order they came, without mixed pairs.
        failures: variants without an answer, by reason.
        complete: pairs with all answers, under one tuple of versions.
        incomplete: pairs that lack an answer.
        mixed: pairs whose variants were decided by different versions, so that they do not match.
        apart: complete pairs whose variants took different routes.
        given_up: whether the round was given up as hopeless.
        stopped: whether the round was asked to end before it was finished.
    """

    pairs: int
    answered: list[Answered] = field(default_factory=list)
    failures: Counter[FailureKind] = field(default_factory=Counter)
    complete: int = 0
    incomplete: int = 0
    mixed: int = 0
    apart: int = 0
    given_up: bool = False
    stopped: bool = False

    @property
    def sound(self) -> bool:
        """Return True unless a variant failed, a pair is mixed, or the round was given up."""
        return not (self.failures or self.mixed or self.given_up)

    @property
    def fruitless(self) -> bool:
        """Return True if the round was given up, or has failures and not one answer."""
        return self.given_up or bool(self.failures and not (self.answered or self.mixed))

    def rows(self) -> list[Row]:
        """Return the answers as Rows, sorted by pair and variant and numbered from 1."""
        ordered = sorted(self.answered, key=lambda sent: (sent.item.pair, sent.item.variant))
        return [sent.row(line) for line, sent in enumerate(ordered, 1)]


class Runner:
    """Sender of whole rounds of a probe set, which publishes each finished pair.

    Args:
        probe_set: the set to send.
        digest: content hash of the set.
        sender: sender to the router.
        clock: clock for the times of answers.
        rng: generator of the order of pairs, and of the variants in them.
        publish: gets the pair's id and the answers of a pair that may be published.
    """

    def __init__(
        self,
        probe_set: ProbeSet,
        digest: str,
        sender: Sender,
        *,
        clock: Clock,
        rng: np.random.Generator,
        publish: Callable[[str, Sequence[Answered]], None],
    ) -> None:
        self._pairs = [
            list(items) for _, items in groupby(probe_set.items, lambda variant: variant.pair)
        ]
        self._digest = digest
        self._sender = sender
        self._clock = clock
        self._rng = rng
        self._publish = publish
        self._in_a_row = 0

    def round(self, watcher: Watcher) -> Round:
        """Send all pairs once in random order; publish finished ones and return the Round's counts.

        Raises:
            SlicewatchError: an answer cannot be published.
        """
        outcome = Round(len(self._pairs))
        self._in_a_row = 0
        for number in self._rng.permutation(len(self._pairs)):
            items = self._pairs[number]
            answered = self._send_pair(items, outcome, watcher)
            if answered is None:
                break
            self._close_pair(items, answered, outcome, watcher)
            watcher.advanced()
            if outcome.given_up:
                break
        return outcome

    def _send_pair(
        self, items: Sequence[Item], outcome: Round, watcher: Watcher
    ) -> list[Answered] | None:
        """Send a pair's variants in random order; return the answered ones, or None if stopped."""
        answered = []
        for number in self._rng.permutation(len(items)):
            item = items[number]
            reply = self._sender.send(
                Probe(self._digest, item.pair, item.variant, item.attributes, item.request)
            )
            if reply is None:
                outcome.stopped = True
                return None
            if isinstance(reply, Answer):
                self._in_a_row = 0
                answered.append(Answered(item, reply, self._clock.now()))
            else:
                self._record_failure(item, reply, outcome, watcher)
        return answered

    def _record_failure(
        self, item: Item, failure: Failure, outcome: Round, watcher: Watcher
    ) -> None:
        """Count and report a failed request; too many in a row give the round up."""
        outcome.failures[failure.kind] += 1
        watcher.failed(item, f"the router {failure.text}")
        self._in_a_row += 1
        outcome.given_up = outcome.given_up or self._in_a_row >= HOPELESS

    def _close_pair(
        self, items: Sequence[Item], answered: list[Answered], outcome: Round, watcher: Watcher
    ) -> None:
        """Count a pair as complete, incomplete or mixed, and publish its answers unless mixed.

        Mixed: versions of the router changed within the pair.
        """
        if len({sent.answer.versions for sent in answered}) > 1:
            outcome.mixed += 1
            watcher.mixed(items[0].pair)
            return
        outcome.answered += answered
        if len(answered) < len(items):
            outcome.incomplete += 1
        else:
            outcome.complete += 1
            outcome.apart += len({sent.answer.route for sent in answered}) > 1
        if answered:
            self._publish(items[0].pair, answered)
