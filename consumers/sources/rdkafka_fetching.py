"""Which partitions librdkafka fetches, and its messages as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from consumers.sources.delivery import Changes
from monitor.ports import Records, Shard

# Messages that came from a broker have all of these; one call each for a whole column.
_topic = cast(Callable[[Message], str], Message.topic)
_partition = cast(Callable[[Message], int], Message.partition)
_offset = cast(Callable[[Message], int], Message.offset)
_value = cast(Callable[[Message], bytes | None], Message.value)
_timestamp = cast(Callable[[Message], tuple[int, int]], Message.timestamp)


class Fetching:
    """The partitions that the client fetches: those of the group that were begun.

    The client is given none of the group's partitions before its position is known, so there is
    nothing it could fetch from elsewhere. The group's callbacks run inside ``consume``, on the
    caller's thread.

    Attributes:
        changes: what the group gave and took.
        running: what may be delivered; messages of other shards are left-overs.
    """

    def __init__(self, client: Consumer) -> None:
        self._client = client
        self._held: set[Shard] = set()
        self.changes = Changes()
        self.running: set[Shard] = set()

    def join(self, topics: Sequence[str]) -> None:
        """Become a member of the group; partitions come with some later ``consume``."""
        # Lost partitions come to the same callback as revoked ones.
        self._client.subscribe(list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke)

    def run(self, shard: Shard, offset: int) -> None:
        """Fetch from ``offset`` on; what the client fetched before is dropped by it."""
        where = TopicPartition(shard.topic, shard.partition, offset)
        if shard in self._held and not self._seek(where):
            self.drop(shard)
        if shard not in self._held:
            self._client.incremental_assign([where])
        self._client.resume([where])  # a pause outlives the assignment
        self._held.discard(shard)
        self.running.add(shard)

    def hold(self, shard: Shard) -> None:
        """Fetch nothing until the shard runs again."""
        if shard in self.running:
            self._client.pause([where_of(shard)])
            self.running.discard(shard)
            self._held.add(shard)

    def drop(self, shard: Shard) -> None:
        """Take a shard from the client: once it could not read a position, it never seeks again."""
        self._drop([shard])

    def _drop(self, shards: Iterable[Shard]) -> None:
        known = {shard for shard in shards if shard in self.running | self._held}
        self._client.incremental_unassign([where_of(shard) for shard in known])
        self.running -= known
        self._held -= known

    def _seek(self, where: TopicPartition) -> bool:
        try:
            self._client.seek(where)
        except KafkaException:
            return False  # it has not started yet, or has given the partition up
        return True

    def _on_assign(self, client: Consumer, given: list[TopicPartition]) -> None:
        client.incremental_assign([])  # else the client begins them where it likes
        self.changes.gave(Shard(one.topic, one.partition) for one in given)

    def _on_revoke(self, client: Consumer, taken: list[TopicPartition]) -> None:
        shards = [Shard(one.topic, one.partition) for one in taken]
        self._drop(shards)
        self.changes.took(shards)


def where_of(shard: Shard) -> TopicPartition:
    """A shard in the client's words."""
    return TopicPartition(shard.topic, shard.partition)


def split(messages: list[Message]) -> tuple[list[Message], list[tuple[KafkaError, Message]]]:
    """Messages, and what only looks like one: errors and ends of partitions."""
    if not any(map(Message.error, messages)):
        return messages, []
    events = [(error, one) for one in messages if (error := one.error()) is not None]
    return [one for one in messages if one.error() is None], events


def columns(shard: Shard, messages: Sequence[Message], high_water: int | None) -> Records:
    """Messages of one shard as columns."""
    return Records(
        shard,
        list(map(_offset, messages)),
        list(map(_value, messages)),
        [stamp for _, stamp in map(_timestamp, messages)],
        high_water,
    )


def by_shard(messages: Sequence[Message]) -> Iterator[tuple[Shard, list[Message]]]:
    """Messages of each shard in their order; what one fetch brought lies together already."""
    found: dict[tuple[str, int], list[Message]] = {}
    start = 0
    places = zip(map(_topic, messages), map(_partition, messages), strict=True)
    for place, run in groupby(places):
        end = start + len(list(run))
        found.setdefault(place, []).extend(messages[start:end])
        start = end
    return ((Shard(*place), own) for place, own in found.items())


def last_offset(messages: Sequence[Message]) -> int:
    """Offset of the newest message."""
    return _offset(messages[-1])
