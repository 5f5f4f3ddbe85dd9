"""Schemas by number, asked for once and kept, in a fixed amount of memory.

Messages wait for a registry that does not answer, as for a broker. An unknown number is asked for
again for a moment, since one registry of several may lag behind. After that its messages are
unreadable.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import monotonic as _monotonic

from consumers.wire.registry import Written
from consumers.wire.writer_schema import WriterSchema
from monitor.errors import SourceError

MAX_SCHEMAS = 1_000
"""Most schemas, and unknown numbers, in memory: a producer has a few, a hostile one millions."""
MAX_ASKED = 50
"""Most questions in one turn of the loop; the rest wait for the next."""
ASKING_SECONDS = 2.0
"""Longest time for all questions of a turn."""
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 8.0
"""Pauses between tries of a registry that does not answer."""
PATIENCE_SECONDS = 10.0
"""Time for the registry to learn of an unknown number."""
RUN_SECONDS = 600.0
"""Messages wait for unknown numbers only once in this time, however many come."""
UNKNOWN_SECONDS = 60.0
"""Interval at which a number that is unknown for good is asked for."""
TROUBLE_SECONDS = 10.0
"""Absence of a registry after which it is reported; a restart takes no longer."""

_MAGIC, _HEADER = 0, 5

Ask = Callable[[int], Written | None]
"""Returns the schema of a number, or None; raises SourceError without an answer."""

_log = logging.getLogger("slicewatch.ingest")


def schema_number(value: bytes | None) -> int | None:
    """Return the number of a message's schema; None for a message in another format.

    Example:
        >>> schema_number(bytes([0, 0, 0, 1, 2, 9])), schema_number(b'{"a": 1}')
        (258, None)
    """
    if value is None or len(value) < _HEADER or value[0] != _MAGIC:
        return None
    return int.from_bytes(value[1:_HEADER], "big")


class WriterSchemas:
    """Cache of a registry's schemas for one thread; any thread may read :attr:`trouble`.

    Args:
        ask: asks the registry.
        monotonic: clock, seconds.
    """

    def __init__(self, ask: Ask, monotonic: Callable[[], float] = _monotonic) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._known: OrderedDict[int, WriterSchema] = OrderedDict()
        self._unknown: OrderedDict[int, float] = OrderedDict()
        self._again: dict[int, float] = {}
        self._run = self._run_ends = -RUN_SECONDS
        self._pause = 0.0
        self._next = self._turn_ends = 0.0
        self._asked = 0
        self._away: tuple[float, str] | None = None

    @property
    def trouble(self) -> str | None:
        """Return the registry's error if messages have waited for a while; None otherwise."""
        if self._away is None or self._monotonic() - self._away[0] < TROUBLE_SECONDS:
            return None
        return self._away[1]

    def begin_turn(self) -> None:
        """Reset the limits on questions to the registry, for one turn of the loop."""
        self._asked = 0
        self._turn_ends = self._monotonic() + ASKING_SECONDS

    def settled(self, values: Sequence[bytes | None]) -> int:
        """Return how many leading messages have a settled schema, known or unknown; ask if due."""
        for row, value in enumerate(values):
            number = schema_number(value)
            if number is not None and not self._settle(number):
                return row
        return len(values)

    def get(self, number: int) -> WriterSchema | None:
        """Return the schema of a :meth:`settled` message; None if the registry does not know it.

        Raises:
            SourceError: the schema was dropped since, for a thousand others, and the registry
                does not answer.
        """
        if (schema := self._known.get(number)) is not None:
            self._known.move_to_end(number)
            return schema
        if number in self._unknown:
            return None
        written = self._ask(number)
        if written is None:
            self._forget_oldest(self._unknown)
            self._unknown[number] = self._monotonic() + UNKNOWN_SECONDS
            return None
        return self._keep(number, written)

    def _settle(self, number: int) -> bool:
        """Return True if it is known by now what a schema is, or that there is none."""
        if number in self._known:
            return True
        now = self._monotonic()
        if self._unknown.get(number, now) > now:
            return True
        if now < max(self._next, self._again.get(number, now)) or not self._may_ask(now):
            return False
        try:
            written = self._ask(number)
        except SourceError as error:
            self._failed(str(error))
            return False
        self._answered()
        if written is None:
            return self._note_unknown(number)
        self._keep(number, written)
        return True

    def _may_ask(self, now: float) -> bool:
        """Count a question; return False if this turn has had its questions or its time."""
        self._asked += 1
        return self._asked <= MAX_ASKED and now < self._turn_ends

    def _keep(self, number: int, written: Written) -> WriterSchema:
        """Remember a schema, and forget the oldest; log one that cannot be used."""
        self._again.pop(number, None)
        self._unknown.pop(number, None)
        self._forget_oldest(self._known)
        self._known[number] = schema = WriterSchema.from_written(written)
        if schema.unusable:
            _log.error(
                "messages with a schema of the registry cannot be read: %s",
                schema.unusable,
                extra={"schema": number},
            )
        return schema

    def _note_unknown(self, number: int) -> bool:
        """Record a number without a schema; return True once messages no longer wait for it."""
        now = self._monotonic()
        if now >= self._run_ends:
            self._run = now
            _log.warning("the schema registry does not know a schema", extra={"schema": number})
        self._run_ends = now + RUN_SECONDS
        if now - self._run < PATIENCE_SECONDS:
            self._again = {number: now + FIRST_SECONDS}
            return False
        self._again.pop(number, None)
        self._forget_oldest(self._unknown)
        self._unknown[number] = now + UNKNOWN_SECONDS
        return True

    def _failed(self, why: str) -> None:
        """Note that the registry failed; the pause before the next question doubles."""
        now = self._monotonic()
        self._pause = min(2 * self._pause or FIRST_SECONDS, LONGEST_SECONDS)
        self._next = now + self._pause
        if self._away is None:
            _log.error("messages wait for their schemas: %s", why)
        self._away = (now if self._away is None else self._away[0], why)

    def _answered(self) -> None:
        """Note that the registry answers; the next question need not wait."""
        if self._away is not None:
            _log.info("the schema registry answers again")
        self._away, self._pause, self._next = None, 0.0, 0.0

    @staticmethod
    def _forget_oldest(kept: OrderedDict[int, WriterSchema] | OrderedDict[int, float]) -> None:
        if len(kept) >= MAX_SCHEMAS:
            kept.popitem(last=False)
