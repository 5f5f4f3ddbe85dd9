"""An existing log as events: where in its messages each of our fields is.

A message is mapped before it is decoded; whatever else it has is never looked at. What comes out
may be no event: that is for the codec to say.

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
    """Origin of a field of an event.

    Attributes:
        path: of names and indices; None when the log has no place for it.
        texts: what texts of the log mean.
        constant: stands where the log has nothing; absent when there is none.
    """

    path: tuple[str, ...] | None
    texts: Mapping[str, Any]
    constant: Any = ABSENT

    def found(self, message: Any) -> Any:
        """The value, or absent."""
        value = ABSENT if self.path is None else _at(message, self.path)
        if value is ABSENT or value is None:
            return self.constant
        return self.texts.get(value, value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class EventMapping:
    """Maps messages of a log to events of one kind.

    Attributes:
        places: by field, nested ones with a dot; whole ``attributes`` before parts of them.
        time_unit: of times that are numbers.
    """

    places: Mapping[str, _Place]
    time_unit: TimeUnit = "milliseconds"

    def __call__(self, message: bytes) -> bytes:
        """The message as an event, or as an array of them; empty when it is no JSON.

        Not as it is then: fields of the log that are named like ours would be read.
        """
        try:
            content = _decode(message)
            if isinstance(content, list):
                return _encode([self._event(one) for one in content])
            return _encode(self._event(content))
        except (ValueError, RecursionError):
            return b""

    def _event(self, content: Any) -> Any:
        """One event; what is no object stays what it is."""
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
    """A mapping as the settings have it; None when nothing is mapped.

    Args:
        kind: of events.
        fields: JSON pointers by field.
        values: what texts of the log mean, by ``FIELD=TEXT``.
        constants: by field, as JSON, or text that is none.
        time_unit: of times that are numbers.

    Raises:
        SettingsError: a field that no event has, a pointer that is none, a required field without a
            place.
    """
    key = f"mapping.{kind}"
    if not (fields or values or constants):
        return None
    named = sorted({*fields, *constants}, key=lambda one: ("." in one, one))
    for field in named:
        _check_field(kind, key, field)
    for field in _required(kind):
        if field not in named and field != "attributes":  # which may be in parts, or none
            raise SettingsError(
                f"{key}.fields: {field} is missing; say where it is, or set it in {key}.constants"
            )
    texts = _texts(key, values, named)
    places = {"attributes": _Place(None, {}, {})} if kind == "decisions" else {}
    for field in named:
        places[field] = _Place(
            _path(f"{key}.fields.{field}", fields[field]) if field in fields else None,
            texts.get(field, {}),
            _plain(constants[field]) if field in constants else ABSENT,
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


def _required(kind: str) -> list[str]:
    return [field.name for field in msgspec.structs.fields(_type(kind)) if field.required]


def _check_field(kind: str, key: str, field: str) -> None:
    outer, dot, inner = field.partition(".")
    known = outer in _type(kind).__struct_fields__
    nested = outer in _NESTED and bool(inner)
    if not known or (dot and not nested):
        raise SettingsError(f"{key}: {field} is no field of an event; use one of the JSON Schema")
    if outer == "versions" and inner and inner not in Versions.__struct_fields__:
        names = ", ".join(Versions.__struct_fields__)
        raise SettingsError(f"{key}: {field} is no version; use one of {names}")


def _path(key: str, pointer: str) -> tuple[str, ...]:
    """The steps of a JSON pointer."""
    if not pointer.startswith("/"):
        raise SettingsError(f"{key}: is no JSON pointer; begin it with /, such as /request/id")
    steps = pointer[1:].split("/")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def _texts(key: str, values: Mapping[str, str], named: list[str]) -> dict[str, dict[str, Any]]:
    """Meanings of texts, by field."""
    found: dict[str, dict[str, Any]] = {}
    for one, meaning in values.items():
        field, equals, text = one.partition("=")
        if not equals or field not in named:
            raise SettingsError(f'{key}.values: {one} is not "FIELD=TEXT" with a field of {key}')
        found.setdefault(field, {})[text] = _plain(meaning)
    return found


def _plain(text: str) -> Any:
    """JSON, or a text that is none.

    Example:
        >>> [_plain(text) for text in ("true", "0.05", "auto_serve", '"7"')]
        [True, 0.05, 'auto_serve', '7']
    """
    try:
        return _decode(text.encode())
    except msgspec.DecodeError:
        return text
