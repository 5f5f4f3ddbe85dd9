"""What every source that reads Kafka as a member of a group has, whichever client it uses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence

from consumers.sources.delivery import Delivery
from consumers.sources.kafka_topics import KafkaConnection, KafkaTopics
from monitor.errors import SourceError
from monitor.ports import Shard

SESSION_SECONDS = 45.0
"""A member silent for so long loses its shards; on Tansu half of it is also the time to join."""
COMMIT_SECONDS = 5.0


class GroupSource(ABC):
    """Topics, delivery and losses still to be told; the client is the subclass's."""

    def __init__(self, connection: KafkaConnection, topics: Sequence[str]) -> None:
        self._connection = connection
        self._topics = KafkaTopics(connection)
        self._delivery = Delivery()
        self._untold: deque[SourceError] = deque()
        self._closed = False
        try:
            for topic in topics:
                self._topics.partitions(topic)
        except BaseException:
            self._topics.close()
            raise

    @property
    def finished(self) -> bool:
        """Never: more may be produced."""
        return False

    def ended(self, shard: Shard) -> bool:
        """Never: more may be produced."""
        return False

    def shards(self, topic: str) -> Sequence[Shard]:
        """All partitions of a topic, asked anew. Unknown or no answer: SourceError."""
        return [Shard(topic, number) for number in self._topics.partitions(topic)]

    def topic_id(self, topic: str) -> str | None:
        """The broker's identity of the topic; None where it gives none (Kafka before 2.8)."""
        return self._topics.topic_id(topic)

    def pause(self, shards: Iterable[Shard]) -> None:
        """Hold shards back; nothing of them is lost."""
        self._delivery.pause(shards)
        self._let_flow()

    def resume(self, shards: Iterable[Shard]) -> None:
        """Undo :meth:`pause`."""
        self._delivery.resume(shards)
        self._let_flow()

    def close(self) -> None:
        """Leave the group, within seconds also when the broker is gone."""
        if self._closed:
            return
        self._closed = True
        try:
            self._leave()
        finally:
            self._topics.close()

    def _require_more(self) -> None:
        """Raise what a poll has to say before it asks for messages."""
        if self._closed:
            raise SourceError("the source is closed")
        if self._untold:
            raise self._untold.popleft()

    @abstractmethod
    def _let_flow(self) -> None:
        """Make the client deliver what may flow and nothing else."""

    @abstractmethod
    def _leave(self) -> None:
        """Close the client."""
