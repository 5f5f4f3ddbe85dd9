"""Events in the wire format of a schema registry, which is asked once for each kind."""

from __future__ import annotations

import io
from unittest.mock import patch

import fastavro
import lesson

from consumers.producing import label_message
from consumers.producing.avro import _Registry, avro
from consumers.producing.avro_schema import SCHEMAS


def test_each_event_follows_the_number_of_its_schema() -> None:
    message = label_message(next(lesson.labels()))
    encode = avro("http://registry")
    with patch.object(_Registry, "number", return_value=7) as number:
        first, second = encode(message), encode(message)
    assert first == second
    assert number.call_count == 1
    content = io.BytesIO(first)
    assert content.read(5) == b"\x00\x00\x00\x00\x07"
    event = fastavro.schemaless_reader(content, SCHEMAS["label"], None)
    assert isinstance(event, dict)
    assert event["label_id"] == next(lesson.labels())["label_id"]
