"""Probe sets that are sent to the router in production, and the key that signs them."""

from __future__ import annotations

from fractions import Fraction

from monitor.core.time import DAY, HOUR
from monitor.settings.kinds import Count, Digest, Duration, Limit, Name, Path, Secret, Term
from monitor.settings.sections import Section


class ProbeSetSettings(Section, frozen=True, kw_only=True):
    """A declared probe set: what is sent, how often, and what its variants are compared with."""

    name: Name
    digest: Digest
    pairs: Count
    variants: tuple[Name, ...]
    reference: Name
    every: Term = Duration(DAY)
    max_flip_ratio: Limit = Fraction("0.05")


class Probes(Section, frozen=True, kw_only=True):
    """Matched-pair test traffic on the decisions topic."""

    key: Secret | None = None
    key_file: Path | None = None
    timeout: Term = Duration(HOUR)
    sets: tuple[ProbeSetSettings, ...] = ()
