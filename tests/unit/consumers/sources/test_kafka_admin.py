"""Where partitions end, when not every leader answers."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from consumers.sources.kafka_admin import _ask_for_ends

WHERES = [TopicPartition("decisions", number) for number in range(3)]


class Client:
    """Partitions above ``led`` have a leader that is away, or none at all."""

    def __init__(self, led: int, failure: type[Exception]) -> None:
        self.led = led
        self.failure = failure

    def end_offsets(self, wheres: list[TopicPartition], timeout_ms: int) -> dict[Any, int]:
        if all(where.partition < self.led for where in wheres):
            return {where: 7 + where.partition for where in wheres}
        raise KafkaTimeoutError if len(wheres) == 1 else self.failure


@pytest.mark.parametrize("failure", [KafkaTimeoutError, KeyError])
@pytest.mark.parametrize("led", [3, 2, 1])
def test_a_leader_that_is_away_leaves_the_ends_of_others(
    led: int, failure: type[Exception]
) -> None:
    assert _ask_for_ends(Client(led, failure), WHERES, 4.0) == {
        where: 7 + where.partition for where in WHERES[:led]
    }


def test_no_leader_at_all_is_an_error() -> None:
    with pytest.raises(KafkaTimeoutError):
        _ask_for_ends(Client(0, KafkaTimeoutError), WHERES, 4.0)
