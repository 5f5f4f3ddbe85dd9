"""The properties that are fuzzed, and how: a few seconds in the tests, `make fuzz` for longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fuzz_codec
import fuzz_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@dataclass(frozen=True)
class Property:
    """What is tried, what must hold, and how many examples a few seconds are worth."""

    inputs: st.SearchStrategy[tuple[Any, ...]]
    check: Callable[..., None]
    examples: int

    def hammer(self, times: float = 1.0) -> int:
        """Try new inputs; a failure is shrunk and raised with the input that shows it."""
        examples = max(1, round(self.examples * times))

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(self.inputs)
        def one(arguments: tuple[Any, ...]) -> None:
            self.check(*arguments)

        one()
        return examples


PROPERTIES = {
    "codec": Property(fuzz_codec.CODEC, fuzz_codec.check_codec, 200),
    "shard": Property(fuzz_codec.SHARD, fuzz_codec.check_shard, 200),
    "pipeline": Property(fuzz_codec.PIPELINE, fuzz_codec.check_pipeline, 20),
    "settings": Property(fuzz_settings.SETTINGS, fuzz_settings.check_settings, 150),
}
