"""Content negotiation with a scraper: exposition format and compression."""

from __future__ import annotations

import re
from collections.abc import Iterator

_OPENMETRICS_VERSIONS = ("", "0.0.1", "1.0.0")


def accepts_gzip(accept_encoding: str) -> bool:
    """Return True when an Accept-Encoding allows gzip; anything unreadable does not.

    Example:
        >>> accepts_gzip("deflate, gzip;q=0.5"), accepts_gzip("gzip;q=0"), accepts_gzip("")
        (True, False, False)
    """
    weights = {name: weight for name, _, weight in _choices(accept_encoding)}
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def wants_openmetrics(accept: str) -> bool:
    """Return True when an Accept prefers OpenMetrics 1.0 over text; anything unreadable does not.

    Example:
        >>> wants_openmetrics("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        True
        >>> wants_openmetrics("application/openmetrics-text;version=abc;q=x")
        False
    """
    openmetrics = text = 0.0
    for name, parameters, weight in _choices(accept):
        if name == "application/openmetrics-text":
            if parameters.get("version", "") in _OPENMETRICS_VERSIONS:
                openmetrics = max(openmetrics, weight)
        elif name == "text/plain":
            text = max(text, weight)
    return openmetrics > 0 and openmetrics >= text


def _choices(header: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for choice in header.split(","):
        name, *rest = (part.strip().lower() for part in choice.split(";"))
        pairs = (part.partition("=") for part in rest)
        parameters = {key.strip(): value.strip().strip('"') for key, _, value in pairs}
        yield name, parameters, _weight(parameters.get("q", "1"))


def _weight(text: str) -> float:
    # Digits only: float() would take nan, inf and 1_0.
    return float(text) if re.fullmatch(r"[01](\.[0-9]{0,3})?", text) else 0.0
