"""Which answers of a broker have messages sent again, and which count as refused."""

from __future__ import annotations

from unittest.mock import Mock

import lesson
import pytest

from consumers.producing import label_message
from consumers.producing.transports import Topics, TransportError, _Confluent

MESSAGES = [label_message(label) for _, label in zip(range(2), lesson.labels(), strict=False)]
REFUSED = Mock(retriable=Mock(return_value=False), code=Mock(return_value=10))
AWAY = Mock(retriable=Mock(return_value=True), code=Mock(return_value=7))
OUT_OF_TIME = Mock(retriable=Mock(return_value=False), code=Mock(return_value=-192))


def sent(*answers: Mock | None) -> int:
    """Return how many of two messages are taken by a client that gives these answers."""
    told = iter(answers)

    def produce(*_: object, on_delivery: Mock, **__: object) -> None:
        for answer in told:
            on_delivery(answer, None)
            break

    client = Mock(produce=produce)
    return _Confluent(client, Topics(), lambda message: message.value).send(MESSAGES)


def test_refused_messages_are_not_counted_as_sent() -> None:
    assert (sent(None, None), sent(None, REFUSED)) == (2, 1)


@pytest.mark.parametrize("answers", [(None,), (None, AWAY), (OUT_OF_TIME, None)])
def test_without_an_answer_that_lasts_all_are_sent_again(answers: tuple[Mock | None]) -> None:
    with pytest.raises(TransportError):
        sent(*answers)
