"""Protocols of the outside world: the source of messages and the clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from monitor.records import Polled, Shard, Start


@runtime_checkable
class RecordSource(Protocol):
    """Source of messages; all calls come from one thread.

    ``finished`` is True when no more messages can come (files); a broker is never finished.
    """

    @property
    def finished(self) -> bool:
        """True when every shard was read to a fixed end."""
        ...

    def shards(self, topic: str) -> Sequence[Shard]:
        """Return all partitions of a topic.

        Raises SourceError when the topic does not exist.
        """
        ...

    def topic_id(self, topic: str) -> str | None:
        """Return the identity of a topic; it changes when the topic is deleted and created again.

        None if the source has no identities. Raises MissingTopicError when the topic does not
        exist, and SourceError when no broker can tell.
        """
        ...

    def poll(self, timeout: float) -> Polled:
        """Wait up to ``timeout`` seconds for messages; the result may be empty."""
        ...

    def is_member(self, shards: Sequence[Shard]) -> bool:
        """Prove to the coordinator that the shards are ours; False means not proven yet."""
        ...

    def first_offset(self, shard: Shard, start: Start) -> int:
        """Return the first offset of a shard without a stored position."""
        ...

    def begin(self, shard: Shard, offset: int) -> None:
        """Deliver an assigned shard from ``offset`` on.

        Raises DataLossError when the topic does not hold the offset. A broker tells only when asked
        for messages: then :meth:`poll` raises the error soon after. Either way its ``shard`` is
        silent until it begins at another offset, and polling can go on.
        """
        ...

    def pause(self, shards: Iterable[Shard]) -> None:
        """Deliver nothing from these shards until they are resumed."""
        ...

    def resume(self, shards: Iterable[Shard]) -> None:
        """Undo :meth:`pause`."""
        ...

    def high_water(self, shard: Shard) -> int | None:
        """Return the next offset to be written in a shard; None if unknown."""
        ...

    def position(self, shard: Shard) -> int | None:
        """Return the next offset to be read; None before :meth:`begin`.

        It passes records that are never delivered (control, aborted, compacted). A shard is caught
        up when it equals :meth:`high_water`, even if the last message lies further back.
        """
        ...

    def ended(self, shard: Shard) -> bool:
        """Return True when a shard was read to a fixed end."""
        ...

    def report(self, positions: Mapping[Shard, int]) -> None:
        """Report our positions to the broker, as best effort, so that lag tools work."""
        ...

    def close(self) -> None:
        """Leave the group and release everything; safe to call twice."""
        ...


class Clock(Protocol):
    """Wall clock for humans, monotonic clock for durations; injected so that tests move time."""

    def now(self) -> int:
        """Return microseconds since 1970 UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some fixed moment; never goes back."""
        ...
