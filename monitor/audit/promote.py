"""A new set from flips: what failed once is asked of every router from then on."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.audit.model import ProbeSet
from monitor.errors import AuditError


def promote(source: ProbeSet, flips: Iterable[str], *, name: str, version: str) -> ProbeSet | None:
    """The pairs that flipped, whole, as a set of their own.

    Pairs that are held out never become part of what a router is repaired on: they stay out.

    Args:
        source: the set that was sent, with its requests where the new set is to be sent too.
        flips: ids of the pairs that flipped, in any order and number.
        name: of the new set.
        version: of the new set; name and version together are not the source's.

    Returns:
        The set, whose identity is the hash of its content; None if no pair flipped that is not
        held out.

    Raises:
        AuditError: the source is not synthetic, is what the new set would be called, or has not
            all of these pairs.
    """
    flipped = set(flips)
    if not source.synthetic:
        raise AuditError(
            "only synthetic pairs are promoted: requests of real people are no fixture"
        )
    if (name, version) == (source.name, source.version):
        raise AuditError("the new set needs a name or a version of its own: a set never changes")
    if flipped - {item.pair for item in source.items}:
        raise AuditError("a flip is of a pair that this set has not: promote from the set itself")
    held_out = {item.pair for item in source.items if item.held_out}
    items = tuple(item for item in source.items if item.pair in flipped - held_out)
    if not items:
        return None
    return ProbeSet(name, version, synthetic=True, varies=source.varies, items=items)
