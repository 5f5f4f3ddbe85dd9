"""Worker of the judge: outputs from one topic, judgements to another, each before its offset.

A batch is judged, its judgements are written, and only then are its offsets committed. A worker
that is killed in between judges that batch again after the next start: at most ``concurrency``
outputs are billed and reported twice per kill. Every judgement names its output, so that the second
one can be recognised. While the judge answers nobody, the batch waits; what is judged of it is not
asked for again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from monitor.errors import AccessError, SourceError
from monitor.judging.decisions import decision
from monitor.judging.judge_protocol import Judge, JudgeAwayError, StoppedError
from monitor.judging.judgements import judged, unreadable
from monitor.judging.output_events import (
    Judgement,
    OutputHead,
    UnreadableOutputError,
    encode,
    read_output,
)
from monitor.judging.prompt import Prompt

PAUSE_SECONDS = 5.0
"""Time between two tries at a broker that is away."""
CONCURRENCY = 4
"""Outputs that a worker judges at a time; an output beyond them waits in its topic."""
Result = tuple[OutputHead | None, Judgement]
"""Judgement with the head of its output; None where that cannot be read."""


class JudgingTopics(Protocol):
    """Stream from which a Worker reads outputs and to which it writes results."""

    def read(self, most: int) -> Sequence[bytes | None]:
        """Return the values of at most ``most`` next messages; empty if none came for a moment.

        None in the list is a tombstone, which erases an output and is not judged.
        """

    def write(self, judgements: Iterable[tuple[bytes, bytes]]) -> None:
        """Write judgements, as (key, value) pairs, and return once all are written."""

    def write_decisions(self, decisions: Iterable[tuple[bytes, bytes]]) -> None:
        """Write decisions, as (key, value) pairs, and return once all are written."""

    def commit(self) -> None:
        """Commit all messages read so far, so that no later read returns them."""

    def rewind(self) -> None:
        """Make the next read start from the last commit."""


@dataclass(frozen=True, slots=True)
class JudgingTerms:
    """Settings of a worker: outputs at a time, and audit probability.

    Attributes:
        concurrency: outputs that are judged at a time.
        audit_p: audit probability of decisions; None: no decisions are written.
    """

    concurrency: int = CONCURRENCY
    audit_p: float | None = None


@dataclass(slots=True)
class Worker:
    """Worker that reads outputs, judges them and writes judgements until it is stopped.

    Args:
        stream: the topics.
        judge: the judge to ask.
        prompt: instructions of the judge.
        plan: terms of the work.
        stop: set from anywhere.
        now: returns the time, ISO.

    Attributes:
        counts: outputs by status.
        waits_for: what the worker waits for, in words; empty while it works.
        broker_fault: what the broker refuses, in words; empty while it answers.
    """

    stream: JudgingTopics
    judge: Judge
    prompt: Prompt
    plan: JudgingTerms
    stop: threading.Event
    now: Callable[[], str] = lambda: datetime.now(UTC).isoformat(timespec="milliseconds")
    counts: Counter[str] = field(default_factory=Counter)
    waits_for: str = ""
    broker_fault: str = ""
    _results: dict[bytes, Result] = field(default_factory=dict)

    @property
    def trouble(self) -> str:
        """Return why no outputs are judged, in words; empty while outputs are judged."""
        return self.broker_fault or self.waits_for

    def run(self, wait: Callable[[], None]) -> None:
        """Read, judge, write and commit batch by batch until ``stop`` is set; add to ``counts``.

        Args:
            wait: returns once the judge may answer again, or the worker is to end.

        Raises:
            SlicewatchError: a broker or the endpoint refuses us.
        """
        with ThreadPoolExecutor(self.plan.concurrency, "judge") as pool:
            while not self.stop.is_set():
                batch = self.stream.read(self.plan.concurrency)
                if not batch:
                    continue
                outputs = [value for value in batch if value is not None]
                self._results = {v: self._results[v] for v in outputs if v in self._results}
                judging = [pool.submit(self._judge, value) for value in outputs]
                wait_for(judging)
                try:
                    results = [answer.result() for answer in judging]
                except StoppedError:
                    break
                except JudgeAwayError as error:
                    self.waits_for = str(error)
                    if self._done(self.stream.rewind):
                        wait()
                    continue
                self.waits_for = ""
                if not self._done(partial(self._write, results)):
                    break
                self.stream.commit()
                self.counts.update(judgement.status for _, judgement in results)

    def _done(self, action: Callable[[], None]) -> bool:
        """Do something at the broker, again while it is away; return False when stopped before.

        It is tried once even after a stop: what is judged is paid for, and is written.
        """
        while True:
            try:
                action()
            except AccessError:
                raise
            except SourceError as error:
                self.broker_fault = str(error)
                if self.stop.wait(PAUSE_SECONDS):
                    return False
            else:
                return True

    def _judge(self, value: bytes) -> Result:
        """Return the result of a message, from the last try of the batch if there was one."""
        if value not in self._results:
            self._results[value] = self._judge_message(value)
        return self._results[value]

    def _judge_message(self, value: bytes) -> Result:
        try:
            output = read_output(value)
        except UnreadableOutputError as error:
            return error.head, unreadable(self.judge, self.prompt, self.now(), error)
        return output, judged(output, self.judge, self.prompt, self.now)

    def _write(self, results: Sequence[Result]) -> None:
        """Write the judgements to their topic and, if audits are drawn, decisions to theirs."""
        self.stream.write((_key(judgement), encode(judgement)) for _, judgement in results)
        if self.plan.audit_p is None:
            return
        audit_p = self.plan.audit_p
        self.stream.write_decisions(
            (_key(judgement), decision(head, judgement, audit_p=audit_p))
            for head, judgement in results
            if head is not None
        )


def _key(judgement: Judgement) -> bytes:
    return str(judgement.output_id or "").encode()
