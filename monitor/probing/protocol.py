"""The probe protocol, version 1: a request's body, its signature, and what an answer must hold.

The signature is of a key of its own, derived from the one that signs decision events: a router
that checks requests cannot make decisions pass for probes.

Example:
    >>> headers = signed_headers(b"{}", 1_767_225_600, router_key(b"a key of 16 bytes or more"))
    >>> headers["Slicewatch-Timestamp"], headers["Slicewatch-Signature"][:3]
    ('1767225600', 'v1=')
"""

from __future__ import annotations

import hmac
from hashlib import sha256

import msgspec

from monitor.probing.router import Answer, Failure, FailureKind, Probe

VERSION = 1
TIMESTAMP, SIGNATURE = "Slicewatch-Timestamp", "Slicewatch-Signature"
_PURPOSE = b"slicewatch probe request v1"
_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Answer)


def router_key(probe_key: bytes) -> str:
    """The key that requests are signed with, from the one that signs events; in hexadecimal.

    It is used as the text it is, so that it can be kept in a file.
    """
    return hmac.new(probe_key, _PURPOSE, sha256).hexdigest()


def body(probe: Probe) -> bytes:
    """The request's body."""
    about = {
        "protocol": VERSION,
        "probe_set": probe.probe_set,
        "pair_id": probe.pair,
        "variant": probe.variant,
    }
    return _encode({"probe": about, "attributes": probe.attributes, "request": probe.request})


def signed_headers(content: bytes, at: int, key: str) -> dict[str, str]:
    """HMAC-SHA256 over ``timestamp.body``, and the timestamp.

    Args:
        content: the body as it is sent.
        at: seconds since 1970 UTC; the router refuses what is old.
        key: of :func:`router_key`.

    Source: RFC 2104.
    """
    signed = hmac.new(key.encode(), b"%d." % at + content, sha256).hexdigest()
    return {TIMESTAMP: str(at), SIGNATURE: f"v{VERSION}={signed}"}


def read_answer(content: bytes) -> Answer | Failure:
    """The answer that a body holds; what it holds instead is not repeated."""
    try:
        return _decoder.decode(content)
    except msgspec.ValidationError as error:
        return Failure(FailureKind.MALFORMED, f"did not answer by the protocol: {_where(error)}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Failure(FailureKind.MALFORMED, "did not answer in JSON")


def _where(error: msgspec.ValidationError) -> str:
    """The field and what is wrong with it; only names of our own are known to be harmless."""
    what, _, path = str(error).partition(" - at ")
    field = path.strip("`").removeprefix("$.").removeprefix("$")
    if "Invalid enum value" in what:
        what = "is none of auto_serve, human_review, blocked_by_evidence"
    elif "unknown field" in what:
        what = "has a field that it must not have"
    return f"{field or 'the answer'}: {what}"
