"""The judge's worker: outputs from one topic, judgements to another, each before its offset.

A batch is judged, its judgements are written, and only then are its offsets committed. Whoever is
killed in between judges that batch again after the next start: at most ``concurrency`` outputs are
billed and reported twice for each kill. Every judgement names its output, so that the second one
can be told.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from monitor.judging.decisions import decision
from monitor.judging.judge_protocol import BudgetSpentError, Judge, StoppedError
from monitor.judging.judgements import Rules, judged, unreadable
from monitor.judging.output_events import (
    Judgement,
    ModelOutput,
    UnreadableOutputError,
    encode,
    read_output,
)
from monitor.judging.prompt import Prompt


class JudgingTopics(Protocol):
    """The topics, as far as the worker needs them."""

    def read(self, most: int) -> Sequence[bytes | None]:
        """The next messages, at most so many; none: nothing has come for a moment.

        None among them is a tombstone, which erases an output and is none.
        """

    def write(self, judgements: Iterable[tuple[bytes, bytes]]) -> None:
        """Write judgements with their keys, and return once all are written."""

    def write_decisions(self, decisions: Iterable[tuple[bytes, bytes]]) -> None:
        """The same for decisions."""

    def commit(self) -> None:
        """Record that what was read is done with."""

    def rewind(self) -> None:
        """Read again what is not committed."""


@dataclass(frozen=True, slots=True)
class JudgingTerms:
    """Terms of a judge's work: its rules, how much at a time, and the share that is audited.

    Attributes:
        rules: from findings to flags.
        concurrency: outputs that are judged at a time.
        audit_p: as of decisions; None: no decisions are written.
    """

    rules: Rules
    concurrency: int = 4
    audit_p: float | None = None


@dataclass(slots=True)
class Worker:
    """Judges until it is stopped.

    Args:
        stream: topics.
        judge: that is asked.
        prompt: what it is told.
        plan: how.
        stop: set from anywhere.
        now: the time, ISO.

    Attributes:
        counts: outputs by status, ``flagged`` and ``findings`` among them, and ``tombstones``.
    """

    stream: JudgingTopics
    judge: Judge
    prompt: Prompt
    plan: JudgingTerms
    stop: threading.Event
    now: Callable[[], str] = lambda: datetime.now(UTC).isoformat(timespec="milliseconds")
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, wait_for_budget: Callable[[], None]) -> None:
        """Judge what comes.

        Args:
            wait_for_budget: returns once there may be more, or the worker is to end.

        Raises:
            SlicewatchError: a broker or the endpoint refuses us.
        """
        with ThreadPoolExecutor(self.plan.concurrency, "judge") as pool:
            while not self.stop.is_set():
                batch = self.stream.read(self.plan.concurrency)
                if not batch:
                    continue
                outputs = [value for value in batch if value is not None]
                try:
                    results = list(pool.map(self._judge, outputs))
                except StoppedError:
                    break
                except BudgetSpentError:
                    self.stream.rewind()
                    wait_for_budget()
                    continue
                self._write(results)
                self.stream.commit()
                self._count(results)
                self.counts["tombstones"] += len(batch) - len(outputs)

    def _judge(self, value: bytes) -> tuple[ModelOutput | None, Judgement]:
        try:
            output = read_output(value)
        except UnreadableOutputError as error:
            return None, unreadable(self.judge, self.prompt, self.now(), str(error))
        return output, judged(output, self.judge, self.prompt, self.plan.rules, self.now)

    def _write(self, results: Sequence[tuple[ModelOutput | None, Judgement]]) -> None:
        self.stream.write((_key(one), encode(one)) for _, one in results)
        if self.plan.audit_p is None:
            return
        found = []
        for output, one in results:
            if output is None:
                continue
            made = decision(
                output, one, threshold=self.plan.rules.threshold, audit_p=self.plan.audit_p
            )
            if made is not None:
                found.append((_key(one), made))
        self.stream.write_decisions(found)

    def _count(self, results: Iterable[tuple[ModelOutput | None, Judgement]]) -> None:
        for _, one in results:
            self.counts[one.status] += 1
            self.counts["flagged"] += bool(one.flagged)
            self.counts["findings"] += len(one.findings)


def _key(one: Judgement) -> bytes:
    return str(one.output_id or "").encode()
