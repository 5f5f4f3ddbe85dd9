"""Rounds of a probe set: every variant of every pair is sent, once a round, at a pace.

Probes go one at a time, evenly, and slower when the router asks for it, until there is an answer or
no more hope of one. The variants of a pair follow each other directly, so that little changes
between them, and in random order, so that who comes first is not always the same. A pair is passed
on when it is over.
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
"""Variants without an answer, one after the other, after which a round is given up: the next one
will not get any either, and a router that is down is not to be met with thousands of attempts."""
LONGEST_HOLD = 60.0
"""Seconds a router may put us off: a cadence has to go on."""


class StopRequest(Protocol):
    """A request to end, which waits take into account."""

    @property
    def asked(self) -> bool:
        """Somebody wants us to end."""
        ...

    def wait(self, seconds: float) -> bool:
        """Let time pass, less of it when asked to end; whether that was asked."""
        ...


class Pace:
    """Never two turns within 1 / rate seconds: what was missed is not made up for in a burst.

    Args:
        rate: turns a second at most.
        monotonic: seconds since some fixed moment.
        stop: ends a wait.
    """

    def __init__(self, rate: float, monotonic: Callable[[], float], stop: StopRequest) -> None:
        self._gap = 1.0 / rate
        self._monotonic = monotonic
        self._stop = stop
        self._next = monotonic()

    def turn(self) -> bool:
        """Wait for the next turn; False when asked to end."""
        if not wait_until(self._next, self._monotonic, self._stop):
            return False
        self._next = self._monotonic() + self._gap
        return True

    def hold(self, seconds: float) -> None:
        """No turn before so many seconds have passed."""
        self._next = max(self._next, self._monotonic() + seconds)


def wait_until(at: float, monotonic: Callable[[], float], stop: StopRequest) -> bool:
    """Wait until a moment of the monotonic clock; False when asked to end."""
    while (left := at - monotonic()) > 0:
        if stop.wait(left):
            return False
    return not stop.asked


@dataclass(frozen=True, slots=True)
class Retries:
    """Limit on attempts for a variant, and the pauses between them.

    Attributes:
        attempts: at most, the first one included.
        pause: seconds before the second; twice that before the third, and so on.
    """

    attempts: int = 3
    pause: float = 0.5


class Sender:
    """A router, and how it is treated; each attempt takes a turn of its own.

    A probe may be sent again without harm: the router acts on nothing, and only the answer that
    was received is passed on.
    """

    def __init__(self, router: Router, pace: Pace, retries: Retries) -> None:
        self._router = router
        self._pace = pace
        self._retries = retries

    def send(self, probe: Probe) -> Answer | Failure | None:
        """The answer, or the last failure; None when asked to end before there was any."""
        outcome: Failure | None = None
        for attempt in range(self._retries.attempts):
            if not self._pace.turn():
                return None
            tried = self._router.ask(probe)
            if isinstance(tried, Answer) or tried.kind not in RETRIED:
                return tried
            outcome = tried
            self._hold(tried, attempt)
        return outcome

    def _hold(self, failure: Failure, attempt: int) -> None:
        """After the last attempt, too: whoever is next has to wait as well."""
        wait = failure.retry_after
        if wait is None:
            wait = self._retries.pause * 2**attempt
        self._pace.hold(min(wait, LONGEST_HOLD))


@dataclass(frozen=True, slots=True)
class Schedule:
    """The cadence of a set.

    Attributes:
        every: seconds from the start of one round to the start of the next.
        times: rounds in all; None never ends.
    """

    every: float = 0.0
    times: int | None = 1

    def rounds(self, monotonic: Callable[[], float], stop: StopRequest) -> Iterator[int]:
        """Numbers of rounds from 1, each when it is to begin; ends when asked to.

        Starts lie a multiple of ``every`` after the first. A round that lasts longer than that
        takes the place of those that should have begun meanwhile.
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
        if self.every <= 0:
            return now
        return first + self.every * max(ceil((now - first) / self.every), 1)


@dataclass(frozen=True, slots=True)
class Answered:
    """A variant and its answer; ``at`` is when it came, microseconds."""

    item: Item
    answer: Answer
    at: int

    def row(self, line: int) -> Row:
        """The same as a row of results."""
        versions = self.answer.versions
        decided = RunVersions(versions.judge, versions.rubric, versions.policy, versions.router)
        return Row(self.item, self.answer.observed, decided, line)


class Watcher(Protocol):
    """Observer of the progress of a round."""

    def failed(self, item: Item, why: str) -> None:
        """A variant has no answer."""
        ...

    def mixed(self, pair: str) -> None:
        """A pair's variants were decided by different versions."""
        ...

    def advanced(self) -> None:
        """A pair is over."""
        ...


@dataclass(slots=True)
class Round:
    """Outcome of one round.

    Attributes:
        pairs: how many there are to be sent.
        answered: answers in the order they came, but for those of mixed pairs.
        failures: variants without an answer, by reason.
        complete: pairs with all answers, under one tuple of versions.
        incomplete: pairs that lack an answer.
        mixed: pairs whose variants were decided by different versions: they are no match.
        apart: complete pairs whose variants took different routes.
        given_up: it was hopeless.
        stopped: it was asked to end before it was over.
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
        """True when nothing failed, as far as it went."""
        return not (self.failures or self.mixed or self.given_up)

    @property
    def fruitless(self) -> bool:
        """True when the router cannot be probed as it is now."""
        return self.given_up or bool(self.failures and not (self.answered or self.mixed))

    def rows(self) -> list[Row]:
        """The answers as rows of results, by pair and variant."""
        ordered = sorted(self.answered, key=lambda one: (one.item.pair, one.item.variant))
        return [one.row(line) for line, one in enumerate(ordered, 1)]


class Runner:
    """Sends a set to a router.

    Args:
        probe_set: what is sent.
        digest: its content hash.
        sender: the router, and how it is treated.
        clock: when answers come.
        rng: the order of pairs, and of the variants in them.
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
        self._pairs = [list(items) for _, items in groupby(probe_set.items, lambda one: one.pair)]
        self._digest = digest
        self._sender = sender
        self._clock = clock
        self._rng = rng
        self._publish = publish
        self._in_a_row = 0

    def round(self, watcher: Watcher) -> Round:
        """Send everything once; ends early when it is hopeless, or asked to.

        Raises:
            SlicewatchError: what was answered cannot be published.
        """
        done = Round(len(self._pairs))
        self._in_a_row = 0
        for number in self._rng.permutation(len(self._pairs)):
            items = self._pairs[number]
            answered = self._pair(items, done, watcher)
            if answered is None:
                break
            self._close_pair(items, answered, done, watcher)
            watcher.advanced()
            if done.given_up:
                break
        return done

    def _pair(self, items: Sequence[Item], done: Round, watcher: Watcher) -> list[Answered] | None:
        """The answers there are; None when asked to end: half a pair is of no use."""
        answered = []
        for number in self._rng.permutation(len(items)):
            item = items[number]
            outcome = self._sender.send(
                Probe(self._digest, item.pair, item.variant, item.attributes, item.request)
            )
            if outcome is None:
                done.stopped = True
                return None
            if isinstance(outcome, Answer):
                self._in_a_row = 0
                answered.append(Answered(item, outcome, self._clock.now()))
            else:
                self._fail(item, outcome, done, watcher)
        return answered

    def _fail(self, item: Item, failure: Failure, done: Round, watcher: Watcher) -> None:
        done.failures[failure.kind] += 1
        watcher.failed(item, f"the router {failure.text}")
        self._in_a_row += 1
        done.given_up = done.given_up or self._in_a_row >= HOPELESS

    def _close_pair(
        self, items: Sequence[Item], answered: list[Answered], done: Round, watcher: Watcher
    ) -> None:
        if len({one.answer.versions for one in answered}) > 1:
            done.mixed += 1
            watcher.mixed(items[0].pair)
            return
        done.answered += answered
        if len(answered) < len(items):
            done.incomplete += 1
        else:
            done.complete += 1
            done.apart += len({one.answer.route for one in answered}) > 1
        if answered:
            self._publish(items[0].pair, answered)
