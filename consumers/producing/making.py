"""Events made from a team's own objects, and checked by the consumer's types before sending.

An event is encoded and then decoded as the service decodes it. The service will read every event
that passes here, if its attributes are declared and its time is plausible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any, Literal
from uuid import UUID

import msgspec

from consumers.event_words import nearest, reason_and_field, refusal_text
from consumers.events import MAX_NESTED_BYTES, Decision, Label, Versions

Kind = Literal["decision", "label"]

_TYPES: Mapping[Kind, type[msgspec.Struct]] = {"decision": Decision, "label": Label}
_NESTED = {"attributes", "versions"}
_TIMES = ("decided_at", "labelled_at")
_SCALARS = (str, int, float, datetime)  # true and false are int to Python
_encode = msgspec.json.Encoder().encode
_decode_decision = msgspec.json.Decoder(Decision).decode
_decode_label = msgspec.json.Decoder(Label).decode


class EventError(ValueError):
    """Error for an event that the service would not count; its text quotes no value of the event.

    Attributes:
        kind: ``decision`` or ``label``.
        reason: as the service counts dead letters, such as ``missing_field``.
        field: the field to correct; empty where it is the whole event.
    """

    def __init__(self, kind: Kind, reason: str, field: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.reason = reason
        self.field = field


@dataclass(frozen=True, slots=True)
class Message:
    """Event as it is sent: its kind, its key and its JSON.

    Attributes:
        kind: ``decision`` or ``label``.
        key: the decision's id, so that all copies of a decision come into one partition.
        value: the event, as JSON.
    """

    kind: Kind
    key: bytes
    value: bytes

    def to_bytes(self) -> bytes:
        """Return the event's JSON."""
        return self.value


def decision_message(source: object = None, /, **given: object) -> Message:
    """Return a decision's message from a team's own object, its fields replaced by ``given``.

    Args:
        source: a mapping, or an object with attributes, named like the fields of a decision;
            anything else in it is ignored.
        given: fields that replace or complete those of ``source``; None means absent.

    Raises:
        EventError: the service would not count it.

    Example:
        >>> message = decision_message(
        ...     decision_id=7, decided_at=1_780_000_000_000, route="auto_serve",
        ...     evidence_passed=True, attributes={"channel": "chat"}, audit_p=0.05,
        ...     label_requested=False,
        ... )
        >>> message.key
        b'7'
    """
    return message_of("decision", fields_of("decision", source, given))


def label_message(source: object = None, /, **given: object) -> Message:
    """Return the message of a label, made like that of :func:`decision_message`.

    Raises:
        EventError: the service would not count it.
    """
    return message_of("label", fields_of("label", source, given))


def fields_of(kind: Kind, source: object, given: Mapping[str, object]) -> dict[str, object]:
    """Return an event's fields in JSON's types: ``given``, else from ``source``, without None.

    Raises:
        EventError: an unknown field is given, or a value has an unknown type.
    """
    names = _TYPES[kind].__struct_fields__
    for name in given.keys() - set(names):
        suggestion = nearest(name, names)
        hint = f"; did you mean {suggestion}?" if suggestion else ""
        raise EventError(kind, "unknown_field", "", f"has a field that no {kind} has{hint}")
    fields = (
        (name, given[name] if name in given else _field_value(source, name)) for name in names
    )
    return {name: _json_value(kind, name, value) for name, value in fields if value is not None}


def message_of(kind: Kind, fields: Mapping[str, object]) -> Message:
    """Return an event's message from plain fields; raise EventError if it would be refused.

    Raises:
        EventError: the service would not count it.
    """
    parts = dict(fields)
    for name in _NESTED & parts.keys():
        parts[name] = part = msgspec.Raw(_encode(parts[name]))
        if len(bytes(part)) > MAX_NESTED_BYTES:
            raise _error(kind, "too_large", name)
    value = _encode(parts)
    try:
        key = _key_of_decision(value) if kind == "decision" else _key_of_label(value)
    except (ValueError, RecursionError) as error:
        reason, field = reason_and_field(error)
        raise _error(kind, reason, field, fields.get(field)) from None
    return Message(kind, key, value)


def _key_of_decision(value: bytes) -> bytes:
    """Return the message key of an encoded decision; an error if its versions do not fit."""
    event = _decode_decision(value)
    versions = msgspec.structs.astuple(event.versions or Versions())
    if any(text is not None and text.endswith("\n") for text in versions):
        # The $ of the pattern lets a newline pass.
        raise msgspec.ValidationError("Invalid - at `$.versions`")
    return str(event.decision_id).encode()


def _key_of_label(value: bytes) -> bytes:
    return str(_decode_label(value).decision_id).encode()


def _error(kind: Kind, reason: str, field: str, content: object = None) -> EventError:
    top = field.partition(".")[0]
    return EventError(kind, reason, top, refusal_text(reason, top, content))


def _field_value(source: object, name: str) -> object:
    """Return a field of a mapping or an object; None if it is absent."""
    if isinstance(source, Mapping):
        return source.get(name)
    return getattr(source, name, None)


def _json_value(kind: Kind, name: str, value: object) -> object:
    """Return a field's value in JSON's types if that loses nothing; else raise EventError."""
    if name not in _NESTED:
        return _scalar(kind, name, value)
    if name == "versions" and not isinstance(value, (Mapping, *_SCALARS, list, tuple)):
        value = {field: _field_value(value, field) for field in Versions.__struct_fields__}
    if not isinstance(value, Mapping):
        raise _error(kind, "wrong_type", name, value)
    return {
        _scalar(kind, name, key): _scalar(kind, name, part)
        for key, part in value.items()
        if part is not None
    }


def _scalar(kind: Kind, name: str, value: Any) -> object:
    """Return a value as JSON can hold it; an EventError names an unfit one."""
    if isinstance(value, Enum):
        value = value.value
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, UUID):
        value = str(value)
    if isinstance(value, datetime) and type(value) is not datetime:
        value = value.isoformat()  # for example, of a data frame
    if not isinstance(value, _SCALARS) or (isinstance(value, datetime) and name not in _TIMES):
        raise _error(kind, "wrong_type", name, value)
    if isinstance(value, float) and not isfinite(value):
        # JSON has no such numbers: they would be sent as null, which means absent.
        raise EventError(kind, "invalid_value", name, f"{name} is not a finite number")
    if isinstance(value, str) and not value.isascii():
        _check_text(kind, name, value)
    return value


def _check_text(kind: Kind, name: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        raise _error(kind, "malformed_json", name) from None
