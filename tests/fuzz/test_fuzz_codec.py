"""Whatever a producer sends: each event ends once, nothing leaks, memory stays bounded."""

from __future__ import annotations

import fuzz_codec
import pytest
from fuzzing import PROPERTIES
from hostile_events import WHOLE

pytestmark = pytest.mark.full


@pytest.mark.parametrize("name", ["codec", "shard", "pipeline"])
def test_hostile_events(name: str) -> None:
    PROPERTIES[name].hammer()


@pytest.mark.parametrize("topic", ["decisions", "labels"])
def test_every_extreme_message_at_once(topic: str) -> None:
    fuzz_codec.check_codec(topic, WHOLE)
