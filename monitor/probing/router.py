"""Probes sent to a router and the answers or failures that come back, over any transport.

A probe is one variant of a matched pair. The router decides on it as on any other request, and
acts on nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from consumers.events import RouteName, UnitInterval, Versions
from monitor.core.counts.cells import Route
from monitor.core.probes.flips import Observed


@dataclass(frozen=True, slots=True)
class Probe:
    """One variant, as it is sent.

    Attributes:
        probe_set: content hash of the set.
        pair: id of the matched pair.
        variant: name of the variant.
        attributes: allow-listed attribute values.
        request: what the router decides on, any JSON value.
    """

    probe_set: str
    pair: str
    variant: str
    attributes: Mapping[str, str]
    request: object


class Answer(Struct, frozen=True, kw_only=True):
    """Decision of the router; fields of an answer that are not listed here are ignored.

    Attributes:
        route: where the request would go.
        judge_score: score of the judge; None when there was none.
        threshold: at or above it the score is auto_serve.
        evidence_passed: whether the evidence gate let it through.
        versions: versions of judge, rubric, policy and router.
    """

    route: RouteName
    judge_score: UnitInterval | None
    threshold: UnitInterval
    evidence_passed: bool
    versions: Versions

    @property
    def observed(self) -> Observed:
        """The same in the terms of matched pairs."""
        route = Route[self.route.upper()]
        return Observed(route, self.judge_score, self.threshold, self.evidence_passed)


class FailureKind(enum.StrEnum):
    """Reason why a variant has no answer."""

    UNREACHABLE = "unreachable"  # no connection, or one that broke before the answer
    TIMEOUT = "timeout"
    UNTRUSTED = "untrusted"  # TLS: the certificate, or no TLS at all
    BUSY = "busy"  # 429 or 503, to the last attempt
    REDIRECT = "redirect"
    STATUS = "status"  # any other status than 200
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"  # an answer, but not of the protocol


RETRIED = frozenset({FailureKind.UNREACHABLE, FailureKind.BUSY})
"""Failures that may be over in a moment. A request that timed out may still be at work in the
router: another would add to its load."""


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer, and why; the text holds nothing of what the router said.

    Attributes:
        kind: to be counted by.
        text: goes on after "the router ...".
        retry_after: seconds in which the router does not want to be asked; None if it did not say.
    """

    kind: FailureKind
    text: str
    retry_after: float | None = None


class Router(Protocol):
    """Somebody who decides on probes."""

    def ask(self, probe: Probe) -> Answer | Failure:
        """One attempt; never raises for what the router or the network does."""
        ...

    def close(self) -> None:
        """Close its connections."""
        ...
