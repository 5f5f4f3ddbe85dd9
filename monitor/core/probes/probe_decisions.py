"""Probe decisions on the stream: matched-pair test traffic, signed by the owner of the set.

Unsigned decisions count as production; otherwise anyone could hide requests from the rates by
calling them probes.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from monitor.core.probes.flips import Observed

SIGNATURE = "signature"


@dataclass(frozen=True, slots=True)
class ProbeDecision:
    """Decision about one variant of a declared probe set.

    Attributes:
        probe_set: content hash of the set from the event; a name could mean another set while
            decisions about the old one are on their way.
        pair: id of the matched pair.
        variant: name of the variant.
        at: decided_at, microseconds.
        observed: treatment by the router.
        expected_ready: readiness that the set expects; None if it states none.
    """

    probe_set: str
    pair: str
    variant: str
    at: int
    observed: Observed
    expected_ready: bool | None = None


def signature(event: Mapping[str, object], key: bytes) -> str:
    """Return the HMAC-SHA256 of a decision event without its signature, in hexadecimal.

    The canonical text is JSON with sorted keys, without spaces and without nulls, so that signer
    and checker need not agree on how absent fields are written.

    Args:
        event: fields of the decision as read: ``decided_at`` in microseconds, scores and
            probabilities as floats, ``attributes`` and ``versions`` as mappings.
        key: the probe key.

    Source: RFC 2104.
    """
    signed = {k: v for k, v in event.items() if k != SIGNATURE and v is not None}
    text = json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hmac.new(key, text.encode(), sha256).hexdigest()


def is_signed(event: Mapping[str, object], key: bytes) -> bool:
    """Return True when the event's signature is valid for the probe key; constant-time."""
    sent_signature = event.get(SIGNATURE)
    return isinstance(sent_signature, str) and hmac.compare_digest(
        sent_signature.encode(), signature(event, key).encode()
    )
