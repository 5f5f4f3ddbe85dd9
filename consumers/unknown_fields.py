"""Fields that no event type has: dropped unread, and counted by name.

Senders choose names, so names may be made up without end, or be personal data. A name is shown once
a hundred events had it, if it looks like a name and not like an id. At most 64 names are shown; all
others are counted as ``__other__``. The content of a field is never read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from consumers.tolerance import decode_tolerantly
from monitor.core.counts.cells import OTHER

MAX_NAMES = 64
"""Most names told apart, ever: each is a series, and a field of the hot path's type."""
SHOWN_FROM = 100
"""Events with a name before it is shown: a name that contains an id has few events."""
MAX_CANDIDATES = 512
"""Most names watched until they are frequent; beyond it all are forgotten."""
MAX_LENGTH = 64
"""Most characters of a name; longer names are never told apart."""
MAX_EACH = 64
"""Most names read per event: a message has room for millions."""
MAX_PENDING = 1_024
"""Most names between two flushes: an event may be read again until it is stored."""

# At most three digits: a field's version, but no telephone number, no hash and no UUID.
_PLAIN = re.compile(r"(?!(?:.*[0-9]){4})[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")

_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def is_plain(name: str) -> bool:
    """Return True if a text looks like a field's name, so that it may be shown.

    Example:
        >>> [is_plain(name) for name in ("comment", "utm-source2", "a@b.example", "user_83271")]
        [True, True, False, False]
    """
    return _PLAIN.match(name) is not None


def unknown_names(event: bytes | msgspec.Raw, known_names: Iterable[str]) -> set[str]:
    """Return the names of a JSON object's fields that are not among ``known_names``.

    Raises:
        ValueError: it is no JSON object.
    """
    return decode_tolerantly(_names, bytes(event)).keys() - set(known_names)


def names_of_event(names: Iterable[str]) -> Counter[str]:
    """Return a count of 1 for each field name of an event; names beyond limits: ``__other__``."""
    return Counter(
        name if position < MAX_EACH and len(name) <= MAX_LENGTH else OTHER
        for position, name in enumerate(names)
    )


def add_counts(total: Counter[str], counts: Mapping[str, int]) -> None:
    """Add counts by name to ``total`` in place; new names without room are added as OTHER."""
    for name, number in counts.items():
        total[name if name in total or len(total) < MAX_PENDING else OTHER] += number


class UnknownFields:
    """Counter of one event type's unknown fields, which finds frequent names in fixed memory.

    Attributes:
        frequent: names told apart, at most ``MAX_NAMES``, in the order of their discovery.
    """

    def __init__(self) -> None:
        self.frequent: list[str] = []
        self._shown: dict[str, str] = {OTHER: OTHER}
        self._seen: Counter[str] = Counter()

    def record(self, counts: Mapping[str, int]) -> Counter[str]:
        """Add numbers of events by field name; return them by the names that may be shown.

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
        """Count a name; show it once it is frequent, and forget all counts if names are many."""
        self._seen[name] += events
        if self._seen[name] >= SHOWN_FROM:
            del self._seen[name]
            self.frequent.append(name)
            self._shown[name] = name if is_plain(name) else OTHER
        elif len(self._seen) > MAX_CANDIDATES:
            self._seen.clear()


class KnownFields:
    """Event type extended by frequent unknown names as fields, so that decoding can count these.

    To look for unknown names costs more than to decode the event, and most producers that send
    unknown fields send them always.

    Args:
        event: the type, which ignores unknown fields.
        names: names told apart.

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
        """Return the number of events of :attr:`type` with each name; zeros are left out."""
        absent = {
            name: list(map(get_field, events)).count(UNSET) for name, get_field in self._extra
        }
        return {name: len(events) - n for name, n in absent.items() if n < len(events)}
