"""The content hash of a probe set: what it is, whatever file it stands in.

The set file, results of it, JSON lines or CSV, in any order of rows: the same content has the same
hash, and another content has another one.

Example:
    >>> canonical({"b": [1, None], "a": "ä"})
    '{"a":"ä","b":[1,null]}'
    >>> request_digest(None), len(request_digest({"text": "Where is my parcel?"}))
    ('', 64)
"""

from __future__ import annotations

import json
from hashlib import sha256

from monitor.audit.model import Item, ProbeSet


def canonical(value: object) -> str:
    """JSON with sorted keys and without spaces: equal values have equal texts.

    Raises:
        ValueError: it holds NaN, an infinite number or half of a surrogate pair.
    """
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    text.encode()
    return text


def request_digest(request: object) -> str:
    """SHA-256 of the request's canonical JSON in hexadecimal; empty without a request."""
    return "" if request is None else sha256(canonical(request).encode()).hexdigest()


def digest(probe_set: ProbeSet) -> str:
    """SHA-256 over everything the set fixes, in hexadecimal.

    Of the requests their own hashes are covered, so that results, which do not keep the requests,
    have the hash of their set.
    """
    head = {
        "dataset": probe_set.name,
        "dataset_version": probe_set.version,
        "synthetic": probe_set.synthetic,
        "varies": sorted(probe_set.varies),
    }
    lines = [canonical(head), *sorted(_content(item) for item in probe_set.items)]
    return sha256("\n".join(lines).encode()).hexdigest()


def _content(item: Item) -> str:
    return canonical(
        {
            "pair_id": item.pair,
            "variant": item.variant,
            "axis": item.axis,
            "attributes": dict(item.attributes),
            "expected_ready": item.expected_ready,
            "policy": item.policy,
            "evidence": item.evidence,
            "reviewers_agree": item.reviewers_agree,
            "held_out": item.held_out,
            "request_sha256": item.request_digest,
        }
    )
