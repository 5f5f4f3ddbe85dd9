"""Events made from a team's own objects, and checked by the consumer's own types before sending.

An event is encoded and then decoded as the service decodes it: what passes here is read there,
provided that its attributes are declared and its time is believable.
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

from consumers.event_words import nearest, reason_and_field, refusal
from consumers.events import MAX_NESTED_BYTES, Decision, Label, Versions

Kind = Literal["decision", "label"]

_TYPES: Mapping[Kind, type[msgspec.Struct]] = {"decision": Decision, "label": Label}
_NESTED = {"attributes", "versions"}
_TIMES = ("decided_at", "labelled_at")
_SCALARS = (str, int, float, datetime)  # true and false are whole numbers to Python
_encode = msgspec.json.Encoder().encode
_decode_decision = msgspec.json.Decoder(Decision).decode
_decode_label = msgspec.json.Decoder(Label).decode


class EventError(ValueError):
    """An event that the service would not count; the message never has a value of it.

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
    """One event as it is sent.

    Attributes:
        kind: ``decision`` or ``label``.
        key: the decision's id: all copies of a decision come into one partition.
        value: the event, as JSON.
    """

    kind: Kind
    key: bytes
    value: bytes

    def to_bytes(self) -> bytes:
        """The event, as JSON."""
        return self.value


def decision_message(source: object = None, /, **given: object) -> Message:
    """A decision, from the fields of an object of the team's own and those that are given.

    Args:
        source: a mapping, or an object with attributes, named like the fields of a decision;
            whatever else it has is not looked at.
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
    """A label, like :func:`decision_message`.

    Raises:
        EventError: the service would not count it.
    """
    return message_of("label", fields_of("label", source, given))


def fields_of(kind: Kind, source: object, given: Mapping[str, object]) -> dict[str, object]:
    """Fields of an event that are not None, in plain types.

    Raises:
        EventError: no event has a field of that name, or a value is of a kind that none has.
    """
    names = _TYPES[kind].__struct_fields__
    for name in given.keys() - set(names):
        near = nearest(name, names)
        meant = f"; did you mean {near}?" if near else ""
        raise EventError(kind, "unknown_field", "", f"has a field that no {kind} has{meant}")
    found = ((name, given[name] if name in given else _of(source, name)) for name in names)
    return {name: _plain(kind, name, value) for name, value in found if value is not None}


def message_of(kind: Kind, fields: Mapping[str, object]) -> Message:
    """An event from its fields in plain types.

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
    event = _decode_decision(value)
    versions = msgspec.structs.astuple(event.versions or Versions())
    if any(text is not None and text.endswith("\n") for text in versions):
        raise msgspec.ValidationError("Invalid - at `$.versions`")  # the pattern's $ lets it pass
    return str(event.decision_id).encode()


def _key_of_label(value: bytes) -> bytes:
    return str(_decode_label(value).decision_id).encode()


def _error(kind: Kind, reason: str, field: str, given: object = None) -> EventError:
    top = field.partition(".")[0]
    return EventError(kind, reason, top, refusal(reason, top, given))


def _of(source: object, name: str) -> object:
    if isinstance(source, Mapping):
        return source.get(name)
    return getattr(source, name, None)


def _plain(kind: Kind, name: str, value: object) -> object:
    """A value in types that JSON has, wherever that loses nothing."""
    if name not in _NESTED:
        return _scalar(kind, name, value)
    if name == "versions" and not isinstance(value, (Mapping, *_SCALARS, list, tuple)):
        value = {one: _of(value, one) for one in Versions.__struct_fields__}
    if not isinstance(value, Mapping):
        raise _error(kind, "wrong_type", name, value)
    return {
        _scalar(kind, name, one): _scalar(kind, name, part)
        for one, part in value.items()
        if part is not None
    }


def _scalar(kind: Kind, name: str, value: Any) -> object:
    if isinstance(value, Enum):
        value = value.value
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, UUID):
        value = str(value)
    if isinstance(value, datetime) and type(value) is not datetime:
        value = value.isoformat()  # of a data frame, say
    if not isinstance(value, _SCALARS) or (isinstance(value, datetime) and name not in _TIMES):
        raise _error(kind, "wrong_type", name, value)
    if isinstance(value, float) and not isfinite(value):
        # JSON has no such numbers: it would be sent as null, which means absent.
        raise EventError(kind, "invalid_value", name, f"{name} is not a finite number")
    if isinstance(value, str) and not value.isascii():
        _check_text(kind, name, value)
    return value


def _check_text(kind: Kind, name: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        raise _error(kind, "malformed_json", name) from None
