"""Parts of the settings that only some installations declare, each with alerts and panels."""

from __future__ import annotations

from operator import attrgetter
from typing import Literal

from monitor.settings import Settings

Part = Literal["probes.sets", "bias_dimension", "judge.model"]


def is_declared(settings: Settings, part: Part | None) -> bool:
    """Return True if the settings declare this part; None is a part of every installation."""
    return part is None or bool(attrgetter(part)(settings))
