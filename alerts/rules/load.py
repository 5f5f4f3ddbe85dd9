"""The declared alerts, with the values of an installation's settings put in."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources

import msgspec
import yaml

from alerts.rules.declarations import Alert, Declarations
from monitor.core.time import SECOND
from monitor.settings import Settings

FILE = "alerts.yaml"
_PLACEHOLDER = re.compile(r"<< (\w+) >>")
_STALE_SECONDS = 300
_STALE_CYCLES = 3
"""One slow cycle is not yet an outage, three missed ones are."""


@functools.cache
def declarations() -> Declarations:
    """The file, checked against its types; a mistake is reported with its place."""
    text = (resources.files(__package__) / FILE).read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), Declarations)


def groups(settings: Settings) -> dict[str, tuple[Alert, ...]]:
    """All alerts, by the group of rules that evaluates them."""
    return {
        name: tuple(_with_expression(alert, settings) for alert in group)
        for name, group in declarations().groups.items()
    }


def alerts(settings: Settings) -> tuple[Alert, ...]:
    """All alerts, in the order of the file."""
    return tuple(alert for group in groups(settings).values() for alert in group)


def _with_expression(alert: Alert, settings: Settings) -> Alert:
    return msgspec.structs.replace(alert, expr=filled(alert.expr, values(alert, settings)))


def values(alert: Alert, settings: Settings) -> dict[str, str]:
    """Values of the placeholders of one alert."""
    return declarations().texts | alert.with_ | _parameters(settings)


def _parameters(settings: Settings) -> dict[str, str]:
    stale = max(_STALE_SECONDS, settings.evaluate.cycle * _STALE_CYCLES // SECOND)
    return {
        "job": settings.alerting.job,
        "external_url": settings.alerting.external_url,
        "labels_topic": settings.stream.labels_topic,
        "labels_stale_seconds": str(settings.alerting.labels_stale // SECOND),
        "completeness": f"{float(settings.evaluate.completeness):g}",
        "evaluation_stale_seconds": str(stale),
    }


def filled(text: str, known: Mapping[str, str]) -> str:
    """A text with its placeholders replaced, also those inside what replaces them.

    Example:
        >>> filled("up to << day >>", {"day": "<< year >>-01-01", "year": "2026"})
        'up to 2026-01-01'
    """
    return _PLACEHOLDER.sub(lambda found: filled(known[found[1]], known), text)
