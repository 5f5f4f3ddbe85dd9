"""Reasons why an event is not counted, by field and in words, without the event's content.

Producers use it before they send (:mod:`consumers.producing`), so it imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from difflib import get_close_matches
from typing import get_args

import msgspec

from consumers.events import RouteName
from consumers.tolerance import decode_tolerantly

# Anchored at both ends: the text between may quote the payload, which must not be kept.
_PATH = re.compile(r" - at `\$\.?([a-z_.]*)[^`]*`\Z")
_WRONG_TYPE = re.compile(r"Expected `[^`]*`, got `")
_NULL = re.compile(r"Expected `[^`]*`, got `null` - at `\$\.")
_MISSING = re.compile(r"Object missing required field `([a-z_]+)`")

_ID = "text of 1 to 200 characters, or a whole number"
_HASH = "text of 1 to 128 characters, or a whole number"
_TIME = "a time with its zone such as 2026-06-01T10:00:00Z, or milliseconds since 1970"
_YES_NO = "true or false"
_SCORE = "a number from 0 to 1"
_ROUTES = ", ".join(get_args(RouteName))

EXPECTED: Mapping[str, str] = {
    "decision_id": _ID,
    "decided_at": _TIME,
    "route": f"one of {_ROUTES}",
    "judge_score": f"{_SCORE}, or absent",
    "threshold": f"{_SCORE}, or absent",
    "evidence_passed": _YES_NO,
    "audit_p": "a number above 0 and up to 1",
    "label_requested": _YES_NO,
    "traffic": "production or probe, or absent",
    "unit": f"{_HASH}, or absent",
    "pair_id": f"{_ID}, or absent",
    "variant": "text of 1 to 200 characters, or absent",
    "probe_set": "text of 1 to 128 characters, or absent",
    "expected_ready": f"{_YES_NO}, or absent",
    "signature": "text of 1 to 128 characters, or absent",
    "attributes": "an object of at most 4,096 bytes; each value is text of at most 200 characters,"
    " a number, true, false or null",
    "versions": "an object with some of judge, rubric, policy and router, each of 1 to 128"
    " printable characters, without a blank at its ends or _ as the first; or absent",
    "label_id": _ID,
    "version": "a whole number from 1 to 1,000,000",
    "ready": f"{_YES_NO}, or absent when the reviewer could not tell",
    "kind": "one of initial, correction, adjudication, retraction",
    "reason": "one of audit, review, complaint",
    "reviewer": _HASH,
    "labelled_at": _TIME,
    "blind": f"{_YES_NO}, or absent",
}
"""Expected content of the fields of both events, in words that follow "expected"."""

REASONS: Mapping[str, str] = {
    "malformed_json": "is not JSON in UTF-8, nor a row of CSV with a cell in each column",
    "malformed_avro": "is not what its schema says, or no Avro in the registry's wire format",
    "unknown_schema": "names a schema that the registry does not have, or that fits no event",
    "wrong_type": "is of the wrong kind",
    "invalid_value": "is not an allowed value",
    "missing_field": "is missing or null",
    "too_large": "is too large",
    "too_many_events": "has more than 10,000 events in one message",
    "too_early": "lies after the time of the message",
    "future": "lies in the future",
    "too_old": "is longer before the newest event than stream.horizon",
    "jump": "is longer after the events before it than stream.horizon",
}
"""All reasons why an event is not counted, in words that follow the field."""

_KINDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number with a fraction",
    str: "text",
    list: "a list",
    dict: "an object",
    datetime: "a time",
}

_BIAS_RESULT = msgspec.Raw(b'"bias_result"')
_NEAR = 0.75  # 1 is for equal words: this allows one wrong letter in four, but not another word
_TIMELY = ("too_early", "future", "too_old", "jump", "too_large")
"""Reasons that are clear without the expected content."""


class _Mark(msgspec.Struct):
    label_id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    type: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_marks = msgspec.json.Decoder(_Mark | list[_Mark]).decode


def seems_label(message: bytes | None) -> bool:
    """Return True if a message holds labels or bias results; False if it is unreadable."""
    with suppress(ValueError, IndexError, RecursionError):
        return holds_labels(message or b"")
    return False


def holds_labels(message: bytes) -> bool:
    """Return True if a message holds labels or bias results, by the first of its events.

    Raises:
        ValueError, IndexError, RecursionError: it holds no event.
    """
    content = decode_tolerantly(_marks, message)
    first = content if isinstance(content, _Mark) else content[0]
    return first.label_id is not msgspec.UNSET or first.type == _BIAS_RESULT


def reason_and_field(error: Exception) -> tuple[str, str]:
    """Return reason and field of a dead letter for a decoder's error, without the event's content.

    Args:
        error: error of the decoder.
    """
    if not isinstance(error, msgspec.ValidationError):
        return "malformed_json", ""
    text = str(error)
    if missing := _MISSING.match(text):
        return "missing_field", missing.group(1)
    path = _PATH.search(text)
    if _NULL.match(text):
        return "missing_field", path.group(1) if path else ""
    reason = "wrong_type" if _WRONG_TYPE.match(text) else "invalid_value"
    return reason, path.group(1) if path else ""


def kind_of(value: object) -> str:
    """Return the kind of a value's type, in words that follow "found".

    Example:
        >>> [kind_of(value) for value in (True, 7, "x", b"x")]
        ['true or false', 'a whole number', 'text', 'bytes']
    """
    return _KINDS.get(type(value), type(value).__name__)


def refusal_text(reason: str, field: str, content: object) -> str:
    """Explain a dead letter in one line; for a field of the wrong type, add the type found.

    Args:
        reason: reason of the dead letter.
        field: field of the dead letter.
        content: content of the field; None when unknown.
    """
    text = why(reason, field)
    if reason != "wrong_type" or content is None or isinstance(content, Mapping):
        return text
    return f"{text}, found {kind_of(content)}"


def why(reason: str, field: str) -> str:
    """Return one line that explains a dead letter, from its reason and field.

    Example:
        >>> why("invalid_value", "route")
        'route is not an allowed value; expected one of auto_serve, human_review, \
blocked_by_evidence'
        >>> why("malformed_json", "")
        'the event is not JSON in UTF-8, nor a row of CSV with a cell in each column'
    """
    text = f"{field or 'the event'} {REASONS[reason]}"
    expected = EXPECTED.get(field)
    return text if expected is None or reason in _TIMELY else f"{text}; expected {expected}"


def nearest(word: str, names: tuple[str, ...]) -> str | None:
    """Return the name spelled most like ``word``, whatever its case; None if none is near."""
    lower = [name.lower() for name in names]
    near = get_close_matches(word.strip().lower()[:64], lower, n=1, cutoff=_NEAR)
    return next((name for name in names if near and name.lower() == near[0]), None)
