"""A writer's schema, prepared for reading events.

The writer of a message chooses its bytes and its schema. So schemas are refused by which a few
bytes could take any amount of memory or stack: schemas that contain themselves, or lists of types
without bytes.

Source: Apache Avro 1.12, specification; the package fastavro.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import fastavro
import msgspec

from consumers.wire.registry import Written

MAX_DEPTH = 32
"""Most nested types; an event has three or four."""
MAX_PARTS = 500
"""Most fields of an event and its parts; an event has twenty, and its attributes."""
_MILLIS = "timestamp-millis"
_encode = msgspec.json.Encoder(decimal_format="number").encode


class UnreadableError(ValueError):
    """Error for a message that misfits its schema; its argument is the dead letter's reason."""


class _UnusableError(ValueError):
    """Error for a schema that cannot be used to read events; its text quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """Writer's schema, parsed for reading messages, or the reason why it is unusable.

    Attributes:
        parsed: in fastavro's form.
        unusable: reason why no event is read with it; empty where some are.
    """

    parsed: Any
    unusable: str = ""

    @classmethod
    def from_written(cls, written: Written) -> WriterSchema:
        """Parse a registered schema; return one with :attr:`unusable` set if it cannot be used."""
        if written.kind != "AVRO":
            return cls(None, "it is not an Avro schema")
        try:
            return cls(_parsed(written))
        except _UnusableError as error:
            return cls(None, str(error))
        except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
            return cls(None, "it is not valid Avro")

    def to_json(self, payload: bytes) -> bytes:
        """Return a message's Avro content as JSON; raise UnreadableError if it does not fit.

        Args:
            payload: the message after its number.

        Raises:
            UnreadableError: it does not fit the schema, or is no event and no list of events.
        """
        stream = io.BytesIO(payload)
        try:
            content = fastavro.schemaless_reader(stream, self.parsed, None)
        except OverflowError:  # a time out of range
            raise UnreadableError("invalid_value") from None
        except Exception:  # another program's bytes may fail in any way
            raise UnreadableError("malformed_avro") from None
        if stream.tell() != len(payload) or not isinstance(content, dict | list):
            raise UnreadableError("malformed_avro")
        return _encode(_json_safe(content))


def _json_safe(value: Any) -> Any:
    """Return a value with bytes and non-finite numbers, which JSON lacks, as empty lists.

    Else bytes would be read as text, and infinite numbers as absent.
    """
    kind = type(value)
    if kind is dict:
        return {name: _json_safe(part) for name, part in value.items()}
    if kind is list:
        return [_json_safe(part) for part in value]
    if kind is bytes or (kind is float and not isfinite(value)):
        return []
    return value


def _parsed(written: Written) -> Any:
    """Return a parsed schema with its references; refuse one that is too large."""
    names: dict[str, Any] = {}
    for text in written.references:
        fastavro.parse_schema(_without_millis(json.loads(text)), named_schemas=names)
    parsed = fastavro.parse_schema(
        _without_millis(json.loads(written.schema)), named_schemas=names, expand=False
    )
    _Sizes(names).size_of(parsed, ())
    return parsed


def _without_millis(schema: Any) -> Any:
    """Return a schema without millisecond times, since fastavro reads only a range of these."""
    if isinstance(schema, list):
        return [_without_millis(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    parts = {name: _without_millis(part) for name, part in schema.items() if name != "default"}
    if parts.get("logicalType") == _MILLIS:
        del parts["logicalType"]
    return parts


@dataclass(frozen=True, slots=True)
class _Size:
    """Least number of bytes of a type's value, and its largest number of parts without lists."""

    least: int
    parts: int = 1


_LEAF = {"null": _Size(0), "float": _Size(4), "double": _Size(8)}
_BYTE = _Size(1)


class _Sizes:
    """Calculator of the sizes of schema types, each computed once; it refuses unsafe types.

    Args:
        names: named types, by full name.
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._found: dict[str, _Size] = {}

    def size_of(self, schema: Any, within: tuple[str, ...]) -> _Size:
        """Return the size of a type; ``within`` names the types around it, to refuse cycles.

        Raises:
            _UnusableError: the type, or a part of it, is refused.
        """
        if len(within) > MAX_DEPTH:
            raise _UnusableError(f"it has more than {MAX_DEPTH} types within each other")
        if isinstance(schema, list):
            sizes = [self.size_of(part_type, (*within, "union")) for part_type in schema]
            return _Size(
                1 + min((size.least for size in sizes), default=0),
                max((size.parts for size in sizes), default=1),
            )
        if isinstance(schema, str):
            named = self._names.get(schema)
            return _LEAF.get(schema, _BYTE) if named is None else self._size_of_named(named, within)
        if "name" in schema:
            return self._size_of_named(schema, within)
        return self._size_of_unnamed(schema, within)

    def _size_of_unnamed(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> _Size:
        """Return the least size of an array, map or primitive; refuse a list of nothing."""
        kind = schema["type"]
        if kind == "array" and not self.size_of(schema["items"], (*within, "array")).least:
            raise _UnusableError("it has a list of what takes no bytes")
        if kind == "map":
            self.size_of(schema["values"], (*within, "map"))
        return _BYTE if kind in ("array", "map") else self.size_of(kind, within)

    def _size_of_named(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> _Size:
        """Return the least size of a named type, measured once; refuse one that holds itself."""
        name = schema["name"]
        if name in within:
            raise _UnusableError("it contains itself")
        if name not in self._found:
            self._found[name] = self._measured(schema, (*within, name))
        return self._found[name]

    def _measured(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> _Size:
        """Return the least size and number of parts of a record, an enum or a fixed."""
        if schema["type"] == "fixed":
            return _Size(int(schema["size"]))
        if schema["type"] == "enum":
            return _BYTE
        sizes = [self.size_of(field["type"], within) for field in schema["fields"]]
        size = _Size(
            sum(field_size.least for field_size in sizes),
            1 + sum(field_size.parts for field_size in sizes),
        )
        if size.parts > MAX_PARTS:
            raise _UnusableError(f"it has more than {MAX_PARTS} fields")
        return size
