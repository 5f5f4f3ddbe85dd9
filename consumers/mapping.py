"""Mapping of an existing log to events: the place of each of our fields in its messages.

A message is mapped before it is decoded; its other content is ignored. The outcome may not be a
valid event: the codec decides that.

Source: RFC 6901 (JSON pointers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from consumers.events import Decision, Label, Versions
from monitor.errors import SettingsError

ABSENT = msgspec.UNSET
TimeUnit = Literal["milliseconds", "seconds", "microseconds"]

_MILLIS: Mapping[TimeUnit, float] = {"milliseconds": 1.0, "seconds": 1e3, "microseconds": 1e-3}
_TIMES = ("decided_at", "labelled_at")
_NESTED = ("attributes", "versions")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class _Place:
    """Place of an event's field in a message: path, meanings of its texts, and a constant.

    Attributes:
        path: names and indices; None when the log has no place for it.
        texts: meanings of the log's texts.
        constant: value where the log has none; absent when there is no constant.
    """

    path: tuple[str, ...] | None
    texts: Mapping[str, Any]
    constant: Any = ABSENT

    def found(self, message: Any) -> Any:
        """Return the field's translated value in a decoded message, or else the constant."""
        value = ABSENT if self.path is None else _at(message, self.path)
        if value is ABSENT or value is None:
            return self.constant
        return self.texts.get(value, value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class EventMapping:
    """Mapping of a log's JSON messages to events of one kind, made from the settings.

    Attributes:
        places: by field, nested ones with a dot; whole ``attributes`` before parts of them.
        time_unit: unit of times that are numbers.
    """

    places: Mapping[str, _Place]
    time_unit: TimeUnit = "milliseconds"

    def __call__(self, message: bytes) -> bytes:
        """Return the message as JSON of an event or an array of events; empty if it is no JSON.

        The message itself is not returned then: its fields that are named like ours would be read.
        """
        try:
            content = _decode(message)
            if isinstance(content, list):
                return _encode([self._event(element) for element in content])
            return _encode(self._event(content))
        except (ValueError, RecursionError):
            return b""

    def _event(self, content: Any) -> Any:
        """Return an event's fields from a decoded message; return a non-object unchanged."""
        if not isinstance(content, dict):
            return content
        event: dict[str, Any] = {}
        for field, place in self.places.items():
            value = place.found(content)
            if value is ABSENT:
                continue
            outer, _, inner = field.partition(".")
            if inner:
                part = event.setdefault(outer, {})
                if isinstance(part, dict):
                    part[inner] = value
            elif isinstance(value, dict):
                event[field] = dict(value)  # parts are put into it
            else:
                event[field] = self._time(value) if field in _TIMES else value
        return event

    def _time(self, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        if self.time_unit == "milliseconds":
            return value
        return round(value * _MILLIS[self.time_unit])


def mapping_of(
    kind: Literal["decisions", "labels"],
    fields: Mapping[str, str],
    values: Mapping[str, str],
    constants: Mapping[str, str],
    time_unit: TimeUnit,
) -> EventMapping | None:
    """Return a mapping from the settings of one topic; None if nothing is mapped.

    Args:
        kind: kind of the events.
        fields: JSON pointers by field.
        values: meanings of the log's texts, by ``FIELD=TEXT``.
        constants: by field, as JSON or plain text.
        time_unit: unit of times that are numbers.

    Raises:
        SettingsError: an unknown field, an invalid pointer, a required field without a place.
    """
    key = f"mapping.{kind}"
    if not (fields or values or constants):
        return None
    mapped_fields = sorted({*fields, *constants}, key=lambda name: ("." in name, name))
    for field in mapped_fields:
        _check_field(kind, key, field)
    for name in (field.name for field in msgspec.structs.fields(_type(kind)) if field.required):
        # Attributes may come in parts, or be empty.
        if name not in mapped_fields and name != "attributes":
            raise SettingsError(
                f"{key}.fields: {name} is missing; say where it is, or set it in {key}.constants"
            )
    texts = _meanings_by_field(key, values, mapped_fields)
    places = {"attributes": _Place(None, {}, {})} if kind == "decisions" else {}
    for field in mapped_fields:
        places[field] = _Place(
            _pointer_steps(f"{key}.fields.{field}", fields[field]) if field in fields else None,
            texts.get(field, {}),
            _json_or_text(constants[field]) if field in constants else ABSENT,
        )
    return EventMapping(places, time_unit)


def _at(content: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        if isinstance(content, dict):
            content = content.get(step, ABSENT)
        elif isinstance(content, list) and step.isdecimal() and int(step) < len(content):
            content = content[int(step)]
        else:
            return ABSENT
    return content


def _type(kind: str) -> type[msgspec.Struct]:
    return Decision if kind == "decisions" else Label


def _check_field(kind: str, key: str, field: str) -> None:
    outer, dot, inner = field.partition(".")
    is_field = outer in _type(kind).__struct_fields__
    is_nested = outer in _NESTED and bool(inner)
    if not is_field or (dot and not is_nested):
        raise SettingsError(f"{key}: {field} is no field of an event; use one of the JSON Schema")
    if outer == "versions" and inner and inner not in Versions.__struct_fields__:
        names = ", ".join(Versions.__struct_fields__)
        raise SettingsError(f"{key}: {field} is no version; use one of {names}")


def _pointer_steps(key: str, pointer: str) -> tuple[str, ...]:
    """Return the unescaped steps of a JSON pointer; errors name the setting ``key``."""
    if not pointer.startswith("/"):
        raise SettingsError(f"{key}: is no JSON pointer; begin it with /, such as /request/id")
    steps = pointer[1:].split("/")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def _meanings_by_field(
    key: str, values: Mapping[str, str], fields: list[str]
) -> dict[str, dict[str, Any]]:
    """Return the meanings of texts, by field and text, from settings such as ``FIELD=TEXT``."""
    meanings: dict[str, dict[str, Any]] = {}
    for key_text, meaning in values.items():
        field, equals, text = key_text.partition("=")
        if not equals or field not in fields:
            raise SettingsError(
                f'{key}.values: {key_text} is not "FIELD=TEXT" with a field of {key}'
            )
        meanings.setdefault(field, {})[text] = _json_or_text(meaning)
    return meanings


def _json_or_text(text: str) -> Any:
    """Return the JSON value that a text holds, or the text itself if it is no JSON.

    Example:
        >>> [_json_or_text(text) for text in ("true", "0.05", "auto_serve", '"7"')]
        [True, 0.05, 'auto_serve', '7']
    """
    try:
        return _decode(text.encode())
    except msgspec.DecodeError:
        return text
