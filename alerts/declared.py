"""Names, placeholders and optional parts of the YAML files of alerts and of dashboards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Literal

from msgspec import Meta

from monitor.settings import Settings

Text = Annotated[str, Meta(min_length=1)]
Name = Annotated[str, Meta(pattern=r"^[a-z][a-z_]*$")]
PanelName = Annotated[
    str, Meta(pattern=r"^[a-z]+\.[a-z_]+$", description="A dashboard and a panel of it: fleet.age.")
]
Part = Literal["probes.sets", "bias_dimension", "judge.model"]
"""Part of the settings that only some installations declare, with alerts and panels."""
_PLACEHOLDER = re.compile(r"<< (\w+) >>")


def is_declared(settings: Settings, part: Part | None) -> bool:
    """Return True if the settings declare this part; None is a part of every installation."""
    return part is None or bool(attrgetter(part)(settings))


def filled(text: str, replacements: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced, also those inside the replacements.

    Example:
        >>> filled("up to << day >>", {"day": "<< year >>-01-01", "year": "2026"})
        'up to 2026-01-01'
    """
    return _PLACEHOLDER.sub(lambda match: filled(replacements[match[1]], replacements), text)
