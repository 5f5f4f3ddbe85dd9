"""Probes signed and checked as the design has it, written apart from the service's own code.

Also what the tests' settings say of probes: a key, and one declared set.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

KEY = "a key for the probes of tests"
SET, DIGEST, VARIANTS = "pairs", "5e7" + "0" * 61, ("formal", "conversational")
KEY_TABLE = f"""
[probes]
key = "{KEY}"
"""
SET_TABLE = f"""
[[probes.sets]]
name = "{SET}"
digest = "{DIGEST}"
pairs = 4
variants = ["formal", "conversational"]
"""
WITH_KEY = {"SLICEWATCH__PROBES__KEY": KEY}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def signature(event: Mapping[str, Any], key: str = KEY) -> str:
    """HMAC-SHA256 over sorted JSON without what is null, times in microseconds."""
    fields = {name: value for name, value in event.items() if value is not None}
    fields.pop("signature", None)
    at = datetime.fromisoformat(event["decided_at"].replace("Z", "+00:00"))
    fields["decided_at"] = (at - _EPOCH) // timedelta(microseconds=1)
    for name in ("judge_score", "threshold", "audit_p"):
        if name in fields:
            fields[name] = float(fields[name])
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def signed(event: Mapping[str, Any], key: str = KEY) -> dict[str, Any]:
    """The event with its signature."""
    return {**event, "signature": signature(event, key)}


def changed(event: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """The event with other fields; signed anew if it was signed."""
    made = {**event, **fields}
    return signed(made) if is_probe(event) else made


def is_probe(event: Mapping[str, Any], key: str = KEY) -> bool:
    """Whether it calls itself a probe and is signed."""
    return event.get("traffic") == "probe" and event.get("signature") == signature(event, key)
