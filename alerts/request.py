"""Reading an HTTP request head: pure functions over bytes, strict where it is cheap to be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VERSIONS = ("HTTP/1.0", "HTTP/1.1")
_OPENMETRICS_VERSIONS = ("", "0.0.1", "1.0.0")


class MalformedRequestError(ValueError):
    """The head is no HTTP/1 request; the connection is answered 400 and closed."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request without a body.

    Attributes:
        method: as sent.
        path: target without its query.
        headers: lower-case names; repeated ones joined by commas.
        keep_alive: whether the connection may be used again.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    keep_alive: bool


def parse_request(head: bytes) -> Request:
    r"""The request of a head, its closing empty line cut off.

    Example:
        >>> parse_request(b"GET /metrics?x=1 HTTP/1.1\r\nHost: a").path
        '/metrics'

    Raises:
        MalformedRequestError: it is not one.
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or parts[2] not in _VERSIONS:  # noqa: PLR2004
        raise MalformedRequestError("request line")
    headers = _headers(lines)
    connection = headers.get("connection", "").lower()
    # A body is never read, so what follows it could not be told from a next request.
    body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    stays = "close" not in connection if parts[2] == "HTTP/1.1" else "keep-alive" in connection
    return Request(parts[0], parts[1].partition("?")[0], headers, stays and not body)


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name):
            raise MalformedRequestError("header")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an Accept-Encoding allows gzip; anything unreadable does not.

    Example:
        >>> accepts_gzip("deflate, gzip;q=0.5"), accepts_gzip("gzip;q=0"), accepts_gzip("")
        (True, False, False)
    """
    weights = {name: weight for name, _, weight in _choices(accept_encoding)}
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def wants_openmetrics(accept: str) -> bool:
    """Whether an Accept prefers OpenMetrics 1.0 over text; anything unreadable does not.

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
