"""Fields that no event type has: dropped unread, and counted by name.

A name is chosen by whoever sends it, so it may be made up without end, or be somebody's. It is
shown once a hundred events had it, if it looks like a name and not like an id; at most 64 are, and
whatever else comes is counted as ``__other__``. What a field held is never read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from monitor.core.counts.cells import OTHER

MAX_NAMES = 64
"""Names told apart, ever: each is a series, and a field of the type that the hot path decodes."""
SHOWN_FROM = 100
"""Events that must have had a name before it is shown: one that holds an id is of few events."""
MAX_CANDIDATES = 512
"""Names watched until they are frequent; all are forgotten when they are more."""
MAX_LENGTH = 64
"""A longer name is never told from others."""
MAX_EACH = 64
"""Names looked at in one event: a message has room for millions."""
MAX_PENDING = 1_024
"""Names between two flushes: until one is stored, nobody knows whether it is read again."""

# At most three digits: a version of a field, but no telephone number, no hash and no UUID.
_PLAIN = re.compile(r"(?!(?:.*[0-9]){4})[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")

_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def is_plain(name: str) -> bool:
    """Return True for what looks like the name of a field: it may be shown.

    Example:
        >>> [is_plain(name) for name in ("comment", "utm-source2", "a@b.example", "user_83271")]
        [True, True, False, False]
    """
    return _PLAIN.match(name) is not None


def unknown_names(event: bytes | msgspec.Raw, known: Iterable[str]) -> set[str]:
    """Names of an object's fields that are not known.

    Raises:
        ValueError: it is no JSON object with names in UTF-8.
    """
    return _names(event).keys() - set(known)


def of_one_event(names: Iterable[str]) -> Counter[str]:
    """Fields of one event by name, those beyond what is looked at as ``__other__``."""
    return Counter(
        name if position < MAX_EACH and len(name) <= MAX_LENGTH else OTHER
        for position, name in enumerate(names)
    )


def add_counts(total: Counter[str], counts: Mapping[str, int]) -> None:
    """Add counts by name to others, within a fixed amount of memory."""
    for name, number in counts.items():
        total[name if name in total or len(total) < MAX_PENDING else OTHER] += number


class UnknownFields:
    """Names of one event type's unknown fields that were counted, in a fixed amount of memory.

    Attributes:
        frequent: names told apart, at most ``MAX_NAMES``, in the order in which they became so.
    """

    def __init__(self) -> None:
        self.frequent: list[str] = []
        self._shown: dict[str, str] = {OTHER: OTHER}
        self._seen: Counter[str] = Counter()

    def record(self, counts: Mapping[str, int]) -> Counter[str]:
        """Take in how many events had a field, by name; returns what to show of them.

        Each event may be recorded once: a rare name must not become frequent by being read again.
        """
        shown: Counter[str] = Counter()
        for name, events in counts.items():
            shown[self._shown_as(name, events)] += events
        return shown

    def _shown_as(self, name: str, events: int) -> str:
        if (shown := self._shown.get(name)) is not None:
            return shown
        if len(self.frequent) < MAX_NAMES:
            self._watch(name, events)
        return self._shown.get(name, OTHER)

    def _watch(self, name: str, events: int) -> None:
        self._seen[name] += events
        if self._seen[name] >= SHOWN_FROM:
            del self._seen[name]
            self.frequent.append(name)
            self._shown[name] = name if is_plain(name) else OTHER
        elif len(self._seen) > MAX_CANDIDATES:
            self._seen.clear()


class KnownFields:
    """An event type together with the frequent names, so that decoding alone counts them.

    To look for unknown names costs more than to decode the event, and most producers of some send
    them always.

    Args:
        event: the type, which ignores unknown fields.
        names: told apart.

    Attributes:
        type: like ``event``, but any other field is an error.
    """

    def __init__(self, event: type[msgspec.Struct], names: Sequence[str] = ()) -> None:
        fields = [f"extra_{i}" for i in range(len(names))]
        self._extra = [(name, attrgetter(field)) for name, field in zip(names, fields, strict=True)]
        absent = msgspec.Raw | UnsetType
        self.type: Any = msgspec.defstruct(
            event.__name__,
            [
                (field, absent, msgspec.field(default=UNSET, name=name))
                for name, field in zip(names, fields, strict=True)
            ],
            bases=(event,),
            kw_only=True,
            forbid_unknown_fields=True,
            gc=event.__struct_config__.gc,
        )

    def counts(self, events: Sequence[object]) -> dict[str, int]:
        """Events of :attr:`type` that have each of the names."""
        absent = {name: list(map(of, events)).count(UNSET) for name, of in self._extra}
        return {name: len(events) - n for name, n in absent.items() if n < len(events)}
