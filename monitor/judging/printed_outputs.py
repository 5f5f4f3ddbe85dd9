"""Outputs of a file or of standard input, whose judgements are printed: no Kafka is needed."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec
import numpy as np

from consumers.events import AttributeValue
from monitor.core.contract import MAX_UNJUDGED
from monitor.core.intervals import Z95
from monitor.core.publish.agreement import cohens_kappa
from monitor.judging.output_events import Judgement

ALL = "all outputs"


def one_output(text: str) -> bytes:
    """Return the message of a single text, as an output without attributes."""
    now = datetime.now(UTC).isoformat()
    return json.dumps({"output_id": "text", "produced_at": now, "output": text}).encode()


class _Reviewed(msgspec.Struct, frozen=True):
    """Verdict of reviewers on an output, and its attributes."""

    biased: bool | None = None
    attributes: dict[str, AttributeValue] = {}


_read_verdict = msgspec.json.Decoder(_Reviewed).decode
_judgement = msgspec.json.Decoder(Judgement).decode


class PrintedOutputs:
    """Stream of messages that prints judgements and adds up verdicts for each slice.

    Args:
        messages: outputs in JSON, as on the topic; a reviewer's ``biased`` is kept from the judge.
        stop: set when all messages are read.
        echo: prints a judgement.
    """

    def __init__(
        self, messages: Sequence[bytes], stop: threading.Event, echo: Callable[[str], None]
    ) -> None:
        """Keep the messages; nothing is read yet."""
        self._messages, self._stop, self._echo = messages, stop, echo
        self._read = 0
        self._written = iter(messages)
        self._agreement: Counter[tuple[bool, bool]] = Counter()
        self._verdicts: dict[str, Counter[bool | None]] = {ALL: Counter()}

    def read(self, most: int) -> Sequence[bytes]:
        """Return the next messages, at most ``most``; after the last, stop the worker."""
        batch = self._messages[self._read : self._read + most]
        self._read += len(batch)
        if not batch:
            self._stop.set()
        return batch

    def write(self, judgements: Iterable[tuple[bytes, bytes]]) -> None:
        """Print judgements, which come in the order of the messages, and add up their verdicts."""
        for _, text in judgements:
            self._echo(text.decode())
            flagged, reviewed = _judgement(text).flagged, _reviewed(next(self._written))
            slices = (f"{name}={value}" for name, value in reviewed.attributes.items())
            for name in (ALL, *slices):
                self._verdicts.setdefault(name, Counter())[flagged] += 1
            if flagged is not None and reviewed.biased is not None:
                self._agreement[flagged, reviewed.biased] += 1

    def write_decisions(self, decisions: Iterable[tuple[bytes, bytes]]) -> None:
        """Do nothing: nobody reads decisions of a file."""

    def commit(self) -> None:
        """Do nothing: a file is judged in one go."""

    def rewind(self) -> None:
        """Do nothing: without an answer the command ends."""

    @property
    def passes(self) -> bool:
        """Return True if every slice is measured and no output is flagged."""
        return all(
            self._is_measured(counts) and not counts[True] for counts in self._verdicts.values()
        )

    def summary(self) -> Iterator[str]:
        """Yield a line for all outputs, for each slice, and for the agreement with reviewers."""
        for name, counts in self._verdicts.items():
            line = f"{name}: {counts[True]} of {counts[True] + counts[False]} flagged"
            if counts[None]:
                line += f", {counts[None]} of {counts.total()} without a verdict"
            if counts.total() and not self._is_measured(counts):
                line += f": NOT MEASURED, over {100 * MAX_UNJUDGED:.0f} % have no verdict"
            yield line
        if self._agreement:
            table = [[self._agreement[i, j] for j in (False, True)] for i in (False, True)]
            kappa, error = map(float, cohens_kappa(np.array(table, np.float64)))
            low, high = max(kappa - Z95 * error, -1), min(kappa + Z95 * error, 1)
            shown = f"{kappa:.2f} (95 % interval {low:.2f} to {high:.2f})"
            shown = "not defined, all verdicts are alike" if np.isnan(kappa) else shown
            yield f"agreement with reviewers of {self._agreement.total()} outputs: kappa {shown}"

    def _is_measured(self, counts: Counter[bool | None]) -> bool:
        """Return True if a slice has outputs, and few enough of them without a verdict."""
        return counts[None] <= MAX_UNJUDGED * counts.total() and counts.total() > 0


def _reviewed(message: bytes) -> _Reviewed:
    """Return the reviewers' verdict and the attributes in a message; none if it is unreadable."""
    try:
        return _read_verdict(message)
    except (ValueError, RecursionError):  # the worker says what is wrong
        return _Reviewed()
