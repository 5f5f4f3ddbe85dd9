"""The probe protocol, version 1, over any transport: requests and answers.

A probe is one variant of a matched pair. The router decides on it as on any other request, and acts
on nothing. A request is signed with a key of its own, derived from the key that signs decision
events: a router that checks requests cannot pass decisions off as probes.

Example:
    >>> headers = signed_headers(b"{}", 1_767_225_600, router_key(b"a key of 16 bytes or more"))
    >>> headers["Slicewatch-Timestamp"], headers["Slicewatch-Signature"][:3]
    ('1767225600', 'v1=')
"""

from __future__ import annotations

import enum
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

import msgspec
from msgspec import Struct

from consumers.events import RouteName, UnitInterval, VersionName
from monitor.core.counts.cells import Route
from monitor.core.probes.flips import Observed

VERSION = 1
TIMESTAMP, SIGNATURE = "Slicewatch-Timestamp", "Slicewatch-Signature"
_PURPOSE = b"slicewatch probe request v1"
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Probe:
    """Variant of a matched pair, as sent to the router.

    Attributes:
        probe_set: content hash of the set.
        pair: id of the matched pair.
        variant: name of the variant.
        attributes: allow-listed attribute values.
        request: request to decide on, any JSON value.
    """

    probe_set: str
    pair: str
    variant: str
    attributes: Mapping[str, str]
    request: object


class AnswerVersions(Struct, frozen=True, forbid_unknown_fields=True):
    """Versions of the four parts of a router that decided; runs are compared per tuple.

    All are required, unlike the ``Versions`` of an event.
    """

    judge: VersionName
    rubric: VersionName
    policy: VersionName
    router: VersionName


class Answer(Struct, frozen=True, kw_only=True):
    """Router's decision on a probe; fields that are not listed here are ignored.

    Attributes:
        route: where the request would go.
        judge_score: score of the judge; None when there was none.
        threshold: scores at or above it are auto_serve.
        evidence_passed: whether the request passed the evidence gate.
        versions: versions of judge, rubric, policy and router.
    """

    route: RouteName
    judge_score: UnitInterval | None
    threshold: UnitInterval
    evidence_passed: bool
    versions: AnswerVersions

    @property
    def observed(self) -> Observed:
        """Return route, score, threshold and evidence gate as an Observed decision."""
        route = Route[self.route.upper()]
        return Observed(route, self.judge_score, self.threshold, self.evidence_passed)


class FailureKind(enum.StrEnum):
    """Kind of failure because of which a variant has no answer."""

    UNREACHABLE = "unreachable"  # no connection, or one that broke before the answer
    TIMEOUT = "timeout"
    UNTRUSTED = "untrusted"  # TLS: the certificate, or no TLS at all
    BUSY = "busy"  # 429 or 503, to the last attempt
    REDIRECT = "redirect"
    STATUS = "status"  # any other status than 200
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"  # an answer, but not of the protocol


RETRIED = frozenset({FailureKind.UNREACHABLE, FailureKind.BUSY})
"""Failures that may be over in a moment. A request that timed out may still be running in the
router: another one would add to its load."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of a probe, in words that quote nothing from the router.

    Attributes:
        kind: reason to count by.
        text: continuation of "the router ...".
        retry_after: seconds that the router wants to be left alone; None if it names none.
    """

    kind: FailureKind
    text: str
    retry_after: float | None = None


class Router(Protocol):
    """Router under test, behind any transport."""

    def ask(self, probe: Probe) -> Answer | Failure:
        """Send a probe once; return an Answer or a Failure, never raising for router or network."""
        ...

    def close(self) -> None:
        """Close the connections to the router."""
        ...


_decoder = msgspec.json.Decoder(Answer)


def router_key(probe_key: bytes) -> str:
    """Derive the key that signs requests from the key that signs events; return it in hexadecimal.

    Requests are signed with this text itself, so that it can be kept in a file.
    """
    return hmac.new(probe_key, _PURPOSE, sha256).hexdigest()


def body(probe: Probe) -> bytes:
    """Return the JSON body of a probe's request, as bytes."""
    about = {
        "protocol": VERSION,
        "probe_set": probe.probe_set,
        "pair_id": probe.pair,
        "variant": probe.variant,
    }
    return _encode({"probe": about, "attributes": probe.attributes, "request": probe.request})


def signed_headers(content: bytes, at: int, key: str) -> dict[str, str]:
    """Return the timestamp header, and the signature header: HMAC-SHA256 over ``timestamp.body``.

    Args:
        content: the body as it is sent.
        at: seconds since 1970 UTC; the router refuses old requests.
        key: key from :func:`router_key`.

    Source: RFC 2104.
    """
    signed = hmac.new(key.encode(), b"%d." % at + content, sha256).hexdigest()
    return {TIMESTAMP: str(at), SIGNATURE: f"v{VERSION}={signed}"}


def read_answer(content: bytes) -> Answer | Failure:
    """Decode a response body into an Answer, or into a Failure that quotes nothing from it."""
    try:
        return _decoder.decode(content)
    except msgspec.ValidationError as error:
        return Failure(
            FailureKind.MALFORMED, f"did not answer by the protocol: {_field_problem(error)}"
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Failure(FailureKind.MALFORMED, "did not answer in JSON")


def _field_problem(error: msgspec.ValidationError) -> str:
    """Explain a validation error as "field: problem", without quoting the answer."""
    problem, _, path = str(error).partition(" - at ")
    field = path.strip("`").removeprefix("$.").removeprefix("$")
    if "Invalid enum value" in problem:
        problem = "is none of auto_serve, human_review, blocked_by_evidence"
    elif "unknown field" in problem:
        problem = "has a field that it must not have"
    return f"{field or 'the answer'}: {problem}"
