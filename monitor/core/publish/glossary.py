"""Glossary of metrics and states: a name and a definition each.

Page, API and documentation take their words from this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import parse_atom
from monitor.core.publish.annotations import Annotation
from monitor.core.publish.snapshot import WITHHELD

_TOTAL = "all decisions"
SYNTHETIC = "Synthetic test conditions, not a finding about people."


FINDINGS: Mapping[Annotation, str] = {
    Annotation.GAP: "on a weekly list: over the limit (false discovery rate 0.10)",
    Annotation.DRIFT: "on a weekly list: worse than its own reference period, mix by mix",
    Annotation.MIX_SHIFT: "its rate moved because other requests come, not for any one mix",
    Annotation.ADWIN: "a change (ADWIN)",
    Annotation.PAGE_HINKLEY: "a change (Page-Hinkley)",
    Annotation.LABELS_LATER: "its labels came later than its reference's",
    Annotation.LABELS_EARLIER: "its labels came earlier than its reference's",
    Annotation.VERSION_CHANGE: "other versions of the router began to answer it",
}
"""Advisory findings in words."""


def slice_name(text: str) -> str:
    """Return the name of a slice or reference for people; the empty text is the total.

    Example:
        >>> slice_name("channel=chat,device=phone"), slice_name(""), slice_name("complement")
        ('channel=chat, device=phone', 'all decisions', 'all others')
    """
    if text == WITHHELD:
        return "a hidden slice"
    if text == COMPLEMENT:
        return "all others"
    return ", ".join(f"{name}={value}" for name, value in parse_atom(text).items()) or _TOTAL


def slice_names(slice_: str, further: Iterable[str]) -> str:
    """Return the names of an incident's slices for people, the main one first."""
    return "; ".join(map(slice_name, (slice_, *further)))


def attribute_values(slice_: str) -> dict[str, str]:
    """Return the attribute values of a slice; none for the total.

    Example:
        >>> attribute_values("channel=chat,device=phone")
        {'channel': 'chat', 'device': 'phone'}
    """
    return parse_atom(slice_)
