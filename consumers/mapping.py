"""Mapping of an existing log to events: the place of each of our fields in its messages.

A message is mapped before it is decoded; its other content is ignored. The outcome may not be a
valid event: the codec decides that.

Source: RFC 6901 (JSON pointers).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo

import msgspec

from consumers.events import Decision, Label, RouteName, Versions
from consumers.field_values import FRACTIONS, TimeForm, TimeUnit, reader_of, text_of
from consumers.tolerance import repaired
from monitor.errors import SettingsError
from monitor.settings.as_text import toml
from monitor.settings.problems import Problems
from monitor.settings.sections import IF_LABELLED, DecisionMappingSettings, EventMappingSettings

ABSENT = msgspec.UNSET
Kind = Literal["decisions", "labels"]

_NESTED = ("attributes", "versions")
_LONGEST_DIGITS = 300  # longer ones are no finite number
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class _Place:
    """Place of an event's field in a message: path, meanings of its texts, and a constant.

    Attributes:
        path: names and indices; None when the log has no place for it.
        texts: meanings of the log's texts, numbers and truths, by their text.
        read: turns any other value into one of the field.
        constant: value where the log has none; absent when there is no constant.
    """

    path: tuple[str, ...] | None
    texts: Mapping[str, Any] = field(default_factory=dict)
    read: Callable[[Any], Any] = lambda value: value
    constant: Any = ABSENT

    def found(self, message: Any) -> Any:
        """Return the field's translated value in a decoded message, or else the constant."""
        value = ABSENT if self.path is None else _at(message, self.path)
        if value is ABSENT or value is None:
            return self.constant
        if self.texts and (text := text_of(value)) in self.texts:
            return self.texts[str(text)]
        return self.read(value)


@dataclass(frozen=True, slots=True)
class EventMapping:
    """Mapping of a log's JSON messages to events of one kind, made from the settings.

    Attributes:
        places: by field, nested ones with a dot; whole ``attributes`` before parts of them.
        audit_p: audit_p by route, where a message has none.
        labelled: ids of the decisions whose label was requested; None where the log says which.
    """

    places: Mapping[str, _Place]
    audit_p: Mapping[str, float] = field(default_factory=dict)
    labelled: frozenset[str] | None = None

    def __call__(self, message: bytes) -> bytes:
        """Return the message as JSON of an event or an array of events; empty if it is no JSON.

        The message itself is not returned then: its fields that are named like ours would be read.
        """
        try:
            content = _content_of(message)
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
        for name, place in self.places.items():
            value = place.found(content)
            if value is ABSENT:
                continue
            outer, _, inner = name.partition(".")
            if inner:
                part = event.setdefault(outer, {})
                if isinstance(part, dict):
                    part[inner] = value
            else:
                # Parts are put into a whole, which may be a constant.
                event[name] = dict(value) if isinstance(value, dict) else value
        if self.audit_p and "audit_p" not in event and (route := event.get("route")) is not None:
            event["audit_p"] = self.audit_p.get(str(route))
        if self.labelled is not None:
            event["label_requested"] = text_of(event.get("decision_id")) in self.labelled
        return event


def _content_of(message: bytes) -> Any:
    """Return a message's content; values that no event can hold are empty lists.

    Raises:
        ValueError: it is no JSON, even when it is read tolerantly.
    """
    try:
        return _decode(message)
    except ValueError:
        text = repaired(message)
    content = json.loads(text, parse_float=_finite, parse_int=_finite)
    # An array has a beginning of its own; one that the repair made would lose the message.
    return content if content != [] or message.lstrip()[:1] == b"[" else None


def _finite(text: str) -> object:
    """Return a number of JSON; an empty list, which no field takes, if it is not finite."""
    number = float(text)
    if not isfinite(number):
        return []
    return int(text) if text.lstrip("-").isdecimal() and len(text) < _LONGEST_DIGITS else number


def mapping_of(
    kind: Kind, section: EventMappingSettings, labelled: frozenset[str] | None = None
) -> EventMapping | None:
    """Return a mapping from the settings of one topic; None if nothing is mapped.

    Args:
        kind: kind of the events.
        section: settings of this kind.
        labelled: ids of the decisions that have a label; None where no file of labels is read.

    Raises:
        SettingsError: all that is wrong, with a mapping to copy where a field has no place.
    """
    if section == type(section)():
        return None
    problems = Problems()
    for check in (_checked_names, _checked_values, _checked_time, _checked_of_decisions):
        for text in check(kind, section):
            with problems.collected():
                raise SettingsError(f"mapping.{kind}{text}")
    problems.raise_any()
    return _built(kind, section, labelled)


def _built(
    kind: Kind, section: EventMappingSettings, labelled: frozenset[str] | None
) -> EventMapping:
    """Return the mapping of a section, ready to run: where each field is read, and how."""
    zone = None if section.time_zone is None else ZoneInfo(section.time_zone)
    times = TimeForm.named(section.times, zone)
    of_decisions = section if isinstance(section, DecisionMappingSettings) else None
    divide = of_decisions.divide if of_decisions else {}
    places = {"attributes": _Place(None, constant={})} if kind == "decisions" else {}
    for name in _mapped_fields(section):
        places[name] = _Place(
            _pointer_steps(section.fields[name]) if name in section.fields else None,
            _meanings(name, section.values),
            reader_of(name, times, divide.get(name)),
            _json_or_text(section.constants[name]) if name in section.constants else ABSENT,
        )
    if of_decisions is None:
        return EventMapping(places)
    if of_decisions.requested_if_labelled and labelled is None:
        raise SettingsError(
            f'mapping.decisions.constants.label_requested: "{IF_LABELLED}" is for files, which'
            " slicewatch replay reads; on a topic every decision must say whether its label was"
            " requested"
        )
    if not of_decisions.requested_if_labelled:
        labelled = None
    return EventMapping(places, of_decisions.audit_p, labelled)


def _mapped_fields(section: EventMappingSettings) -> list[str]:
    return sorted({*section.fields, *section.constants}, key=lambda name: ("." in name, name))


def _at(content: Any, path: tuple[str, ...]) -> Any:
    """Return what is at a path of names and list indices; ABSENT if it leads nowhere."""
    for step in path:
        if isinstance(content, dict):
            content = content.get(step, ABSENT)
        elif isinstance(content, list) and step.isdecimal() and int(step) < len(content):
            content = content[int(step)]
        else:
            return ABSENT
    return content


def _type(kind: Kind) -> type[msgspec.Struct]:
    return Decision if kind == "decisions" else Label


def _checked_names(kind: Kind, section: EventMappingSettings) -> Iterator[str]:
    """Yield what is wrong with names of fields and pointers, and which fields are missing."""
    fields = _type(kind).__struct_fields__
    for name in _mapped_fields(section):
        outer, dot, inner = name.partition(".")
        if outer not in fields or (dot and not (outer in _NESTED and inner)):
            yield f": {name} is no field of an event; use one of the JSON Schema"
        elif outer == "versions" and inner and inner not in Versions.__struct_fields__:
            yield f": {name} is no version; use one of {', '.join(Versions.__struct_fields__)}"
    for name, pointer in section.fields.items():
        if not pointer.startswith("/"):
            yield f".fields.{name}: is no JSON pointer; begin it with /, such as /request/id"
    given = {*section.fields, *section.constants, "attributes"}  # these may come in parts
    if isinstance(section, DecisionMappingSettings):
        given |= {"audit_p"} if section.audit_p else set()
    required = [info.name for info in msgspec.structs.fields(_type(kind)) if info.required]
    if missing := [name for name in required if name not in given]:
        yield f".fields: {_missing_text(kind, section, missing)}"


def _missing_text(kind: Kind, section: EventMappingSettings, missing: Sequence[str]) -> str:
    places = {**section.fields, **{name: f"/{name}" for name in missing}}
    verb = "is" if len(missing) == 1 else "are"
    return (
        f"{', '.join(missing)} {verb} missing; say where it is, or set it in"
        f" mapping.{kind}.constants; to copy, with the places of your log: fields = {toml(places)}"
    )


def _checked_values(kind: Kind, section: EventMappingSettings) -> Iterator[str]:
    """Yield what is wrong with the keys of ``values``, each FIELD=TEXT."""
    for key in section.values:
        name, equals, _ = key.partition("=")
        if not equals or name not in _mapped_fields(section):
            yield f'.values: {key} is not "FIELD=TEXT" with a field of mapping.{kind}'


def _checked_time(kind: Kind, section: EventMappingSettings) -> Iterator[str]:
    """Yield what is wrong with the time zone or time format of a section."""
    try:
        ZoneInfo(section.time_zone or "UTC")
    except (ValueError, OSError, KeyError):
        yield ".time_zone: is no known time zone; write one such as UTC or Europe/Berlin"
    if section.times not in get_args(TimeUnit):
        try:
            example = datetime(2026, 6, 1, tzinfo=UTC).strftime(section.times)
            if example == section.times:
                raise ValueError
            datetime.strptime(example, section.times)  # noqa: DTZ007 - only tried
        except ValueError:
            units = ", ".join(get_args(TimeUnit))
            yield f".times: use {units}, or a format of strptime such as %d.%m.%Y %H:%M:%S"


def _checked_of_decisions(kind: Kind, section: EventMappingSettings) -> Iterator[str]:
    if isinstance(section, DecisionMappingSettings):
        for name in section.divide.keys() - set(FRACTIONS):
            yield f".divide: {name} is no number to divide; use {', '.join(FRACTIONS)}"
        for name in section.audit_p.keys() - set(get_args(RouteName)):
            yield f".audit_p: {name} is no route; use {', '.join(get_args(RouteName))}"


def _pointer_steps(pointer: str) -> tuple[str, ...]:
    steps = pointer[1:].split("/")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def _meanings(name: str, values: Mapping[str, str]) -> dict[str, Any]:
    """Return the meanings of one field's texts from settings such as ``FIELD=TEXT``."""
    pairs = ((key.partition("="), meaning) for key, meaning in values.items())
    return {text: _json_or_text(meaning) for (key, _, text), meaning in pairs if key == name}


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
