"""Anonymised requests of production, read from a file and kept nowhere.

Errors in a file are reported by line and field; the content is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from consumers.events import AttributeName, AttributeValue
from monitor.errors import SlicewatchError

LARGEST_FILE = 256 << 20
"""All of it is held in memory; a sample of traffic is far smaller."""


class Trace(Struct, frozen=True, forbid_unknown_fields=True):
    """One request as the router met it, without anything that says whose it was.

    Attributes:
        id: by which it can be found for review; unique in the file.
        attributes: allow-listed attribute values.
        request: what the router decided on, any JSON value.
    """

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    attributes: dict[AttributeName, AttributeValue]
    request: Any


_decoder = msgspec.json.Decoder(Trace)


def read_traces(path: Path) -> list[Trace]:
    """All traces of a JSON-lines file.

    Raises:
        SlicewatchError: it cannot be read, or a line of it is no trace.
    """
    lines = _lines(path)
    found: dict[str, Trace] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            trace = _trace(line, f"{path}, line {number}")
            if trace.id in found:
                raise SlicewatchError(
                    f"{path}, line {number}: id stands there twice; make it unique"
                )
            found[trace.id] = trace
    if not found:
        raise SlicewatchError(f"{path} is empty; write a JSON object with id, attributes, request")
    return list(found.values())


def _lines(path: Path) -> Iterator[bytes]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise SlicewatchError(f"{path} is larger than {LARGEST_FILE >> 20} MiB; take a sample")
        yield from path.read_bytes().splitlines()
    except OSError as error:
        raise SlicewatchError(f"{path}: {error.strerror or 'cannot be read'}") from None


def _trace(line: bytes, where: str) -> Trace:
    try:
        trace = _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise SlicewatchError(f"{where}: {_without_names(error)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise SlicewatchError(f"{where}: is not valid JSON") from None
    if not trace.id.isprintable():
        raise SlicewatchError(f"{where}: id must be one line of plain text")
    return trace


def _without_names(error: msgspec.ValidationError) -> str:
    """Error text with its place; an undeclared key is left out: it could be somebody's name."""
    text = str(error)
    if "unknown field" in text:
        return "has more fields than id, attributes and request; leave them out"
    return text
