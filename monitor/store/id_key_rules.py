"""Rules of id keys: which keys a store can go on with, as labels must find decisions' hashes.

The store remembers the name, the start and a fingerprint of every key. So a key cannot be
exchanged, moved over decisions that are hashed already, or left out too soon.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from monitor.core.time import DAY, Grain, day_text, pane_of, pane_start
from monitor.errors import OutdatedError, StoreError
from monitor.id_key import BEGINNING, NEAR, IdKey
from monitor.settings.sections import SINGLE_KEY, STORE_KEY

CHANGED = (
    "this worker's settings are older than the store's: its id keys have changed since it started;"
    " restart it with the new ones"
)
_LABELS_LOST = "labels would not find their decisions"


@dataclass(frozen=True, slots=True)
class KeyMark:
    """Name, start and fingerprint of an id key: all that a store knows, never the key."""

    id: str
    start: int
    fingerprint: str

    @classmethod
    def from_key(cls, key: IdKey) -> KeyMark:
        """Return the mark of an id key, with the fingerprint of its bytes."""
        mark = blake2b(b"slicewatch id key", digest_size=8, key=key.key).hexdigest()
        return cls(key.id, key.start, mark)


def marks_of(keys: Iterable[IdKey]) -> tuple[KeyMark, ...]:
    """Return the marks of keys, in their order."""
    return tuple(KeyMark.from_key(key) for key in keys)


def ends(marks: Iterable[KeyMark]) -> dict[str, int]:
    """Return the end of each key's days by key id: the next key's start. The newest has none."""
    ordered = sorted(marks, key=lambda mark: mark.start)
    return {mark.id: after.start for mark, after in pairwise(ordered)}


def first_day(read_to: int) -> int:
    """Return the start (microseconds) of the first day that has no hashed ids yet."""
    return pane_start(pane_of(read_to + NEAR, Grain.DAY) + 1, Grain.DAY)


def free_day(end: int, horizon: int) -> int:
    """Return the instant (microseconds) from which a key of days up to ``end`` may be destroyed."""
    return -(-(end + horizon) // DAY) * DAY


def gone(stored: Sequence[KeyMark], wanted: Sequence[KeyMark], read_to: int) -> tuple[KeyMark, ...]:
    """Return the stored keys that the settings no longer have; refuse keys that cannot follow.

    Args:
        stored: keys of the store, by start; at least one.
        wanted: keys of the settings and the store's own, by start; at least one.
        read_to: newest event time that was read.

    Raises:
        OutdatedError: the settings lack a key that came later than one they have.
        StoreError: these keys cannot follow the store's.
    """
    by_id = {mark.id: mark for mark in stored}
    for mark in wanted:
        if mark.id in by_id:
            _refuse_changed(by_id[mark.id], mark, read_to)
        else:
            _refuse_new(mark, stored, read_to)
    names = {mark.id for mark in wanted}
    missing = tuple(mark for mark in stored if mark.id not in names)
    for mark in missing:
        if mark.start > wanted[0].start:
            raise outdated(mark)
    return missing


def outdated(mark: KeyMark) -> OutdatedError:
    """Return the error for settings that lack a key that the store was started with."""
    return OutdatedError(
        f"this worker's settings are older than the store's: privacy.id_keys lacks the key"
        f' "{mark.id}"{_since(mark)}; restart it with the new ones'
    )


def needed(mark: KeyMark, end: int, horizon: int) -> StoreError:
    """Return the error for a missing key that labels can still need."""
    return StoreError(
        f'privacy.id_keys: the key "{mark.id}" is missing, but decisions before {day_text(end)} are'
        f" hashed with it and can still get labels; keep it until event time has passed"
        f" {day_text(free_day(end, horizon))}, or give them up: slicewatch db drop-key {mark.id}"
    )


def not_set(stored: Sequence[KeyMark]) -> StoreError:
    """Return the error for settings without a key, where the store was written with keys."""
    names = ", ".join(f'"{mark.id}"' for mark in stored)
    return StoreError(
        f"privacy.id_key: is not set, but this store was written with the key {names}, so"
        f" {_LABELS_LOST}; set it, or begin a new store (store.url)"
    )


def refuse_another(stored: KeyMark, wanted: KeyMark) -> None:
    """Raise StoreError if a key differs from the store's key of the same name."""
    if stored.fingerprint != wanted.fingerprint:
        raise StoreError(
            f"{_field(wanted)}: this store was written with another key, so {_LABELS_LOST}; use"
            f" that key, and rotate to a new one by [[privacy.id_keys]]"
        )


def _refuse_changed(stored: KeyMark, wanted: KeyMark, read_to: int) -> None:
    """Raise an error if a key in use has another value, or starts on another day."""
    refuse_another(stored, wanted)
    if stored.start != wanted.start and min(stored.start, wanted.start) <= read_to + NEAR:
        was = "no from_day" if stored.start == BEGINNING else f"from_day = {day_text(stored.start)}"
        raise StoreError(
            f'privacy.id_keys: the key "{wanted.id}" was in use with {was}; set it so again: what'
            " is hashed cannot be hashed anew"
        )


def _refuse_new(wanted: KeyMark, stored: Sequence[KeyMark], read_to: int) -> None:
    """Raise an error if a new key is known by another id, or starts too early for its store."""
    for mark in stored:
        if mark.fingerprint == wanted.fingerprint:
            raise StoreError(
                f'{_field(wanted)}: this store knows this key as "{mark.id}"; write'
                f' id = "{mark.id}" in [[privacy.id_keys]]'
            )
    if wanted.start > read_to + NEAR:
        return
    day = day_text(first_day(read_to))
    if stored[-1].id == STORE_KEY:
        raise StoreError(
            f"{_field(wanted)}: this store was written with a key of its own; set yours in"
            f" [[privacy.id_keys]] with from_day = {day} or later: the store's serves the days"
            " before, and is deleted when the horizon has passed them"
        )
    raise StoreError(
        f"{_field(wanted)}: is new and meant{_since(wanted) or ' for all days'}, but ids of"
        f' decisions up to {day_text(read_to)} are hashed with the key "{stored[-1].id}"; keep that'
        f" one in [[privacy.id_keys]], and add the new one with from_day = {day} or later"
    )


def _since(mark: KeyMark) -> str:
    return "" if mark.start == BEGINNING else f" from {day_text(mark.start)} on"


def _field(mark: KeyMark) -> str:
    return "privacy.id_key" if mark.id == SINGLE_KEY else f'privacy.id_keys, key "{mark.id}"'
