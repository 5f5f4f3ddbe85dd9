"""Signatures of probe decisions: whoever signs and whoever checks see the same fields.

What an event says is signed, not how it is written: the order of keys, escapes, ``1`` or ``1.0``
and the zone of a time make no difference, any change of meaning does.

Example:
    >>> from datetime import UTC, datetime
    >>> from consumers.events import Versions
    >>> probe = Decision(
    ...     decision_id="d1", decided_at=datetime(2026, 6, 1, tzinfo=UTC), route="auto_serve",
    ...     judge_score=1, threshold=0.7, evidence_passed=True, audit_p=1, label_requested=False,
    ...     traffic="probe", pair_id="p1", variant="formal", probe_set="0" * 64,
    ...     attributes={"channel": "email"}, versions=Versions("j1", "r1", "p1", "t1"),
    ... )
    >>> probe.signature = sign(probe, b"a key of 16 bytes or more")
    >>> is_signed(probe, b"a key of 16 bytes or more"), is_signed(probe, b"some other key")
    (True, False)
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from consumers.events import Decision, FastDecision
from monitor.core import probes
from monitor.core.time import to_micros

_LENGTH = 2 * sha256().digest_size
_TEXTS = msgspec.json.Decoder(dict[str, str])


def sign(decision: Decision, key: bytes) -> str:
    """The signature that the event is to carry; one that it carries already does not matter.

    Raises:
        TypeError: decided_at has no zone.
    """
    return probes.signature(_fields(decision), key)


def is_signed(decision: Decision | FastDecision, key: bytes) -> bool:
    """Whether the event carries its own signature; nested parts must have been checked.

    An event whose signature has not even its length costs nothing.
    """
    given = decision.signature
    return given is not None and len(given) == _LENGTH and probes.is_signed(_fields(decision), key)


def _fields(decision: Decision | FastDecision) -> Mapping[str, object]:
    """What the event says, however it was written and read."""
    score = decision.judge_score
    return msgspec.structs.asdict(decision) | {
        "decided_at": to_micros(decision.decided_at),
        "judge_score": None if score is None else _number(score),
        "threshold": _number(decision.threshold),
        "audit_p": _number(decision.audit_p),
        "attributes": _texts(decision.attributes),
        "versions": _texts(decision.versions),
    }


def _number(value: float) -> float:
    """Whole numbers as floats, and no -0.0."""
    return float(value) + 0.0


def _texts(part: Mapping[str, str] | msgspec.Struct | msgspec.Raw) -> Mapping[str, str]:
    if isinstance(part, msgspec.Raw):
        return _TEXTS.decode(part)
    return msgspec.structs.asdict(part) if isinstance(part, msgspec.Struct) else part
