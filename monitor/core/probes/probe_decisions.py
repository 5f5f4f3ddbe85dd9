"""Probe decisions on the stream: matched-pair test traffic, signed by whoever owns the set.

What is not signed counts as production: else anyone could hide requests from the rates by calling
them probes.
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
    """One decision about one variant of a declared probe set.

    Attributes:
        probe_set: content hash of the set, as the event has it: a name may come to mean another
            set while decisions about the old one are on their way.
        pair: id of the matched pair.
        variant: name of the variant.
        at: decided_at, microseconds.
        observed: what the router did.
        expected_ready: what the set expects; None where it says nothing.
    """

    probe_set: str
    pair: str
    variant: str
    at: int
    observed: Observed
    expected_ready: bool | None = None


def signature(event: Mapping[str, object], key: bytes) -> str:
    """HMAC-SHA256 over the whole decision event but for its signature, in hexadecimal.

    The canonical text is JSON with sorted keys, without spaces and without what is null: whoever
    signs and whoever checks need not agree on how absent fields are written.

    Args:
        event: the decision's fields as they were read: ``decided_at`` in microseconds, scores and
            probabilities as floats, ``attributes`` and ``versions`` as mappings.
        key: the probe key.

    Source: RFC 2104.
    """
    signed = {k: v for k, v in event.items() if k != SIGNATURE and v is not None}
    text = json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hmac.new(key, text.encode(), sha256).hexdigest()


def is_signed(event: Mapping[str, object], key: bytes) -> bool:
    """Return True when the event carries its own signature; compared in constant time."""
    given = event.get(SIGNATURE)
    return isinstance(given, str) and hmac.compare_digest(
        given.encode(), signature(event, key).encode()
    )
