"""Glossary of metrics and states: a name and a definition each.

Page, API and documentation take their words from this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monitor.core.contract import COMPLEMENT, Metric, State
from monitor.core.counts.cells import parse_atom
from monitor.core.publish.annotations import Annotation
from monitor.core.publish.snapshot import WITHHELD

_TOTAL = "all decisions"
SYNTHETIC = "Synthetic test conditions, not a finding about people."


@dataclass(frozen=True, slots=True)
class Term:
    """Metric in words: heading, short name, symbol and meaning.

    Attributes:
        name: heading.
        short: name within a sentence or table.
        symbol: the probability.
        meaning: meaning in one sentence.
    """

    name: str
    short: str
    symbol: str
    meaning: str


TERMS: Mapping[Metric, Term] = {
    Metric.TPR: Term(
        "Ready replies served at once (TPR)",
        "TPR",
        "P(auto_serve | ready)",
        "Where it is lower, replies that were ready are held back for review: help comes late.",
    ),
    Metric.FPR: Term(
        "Unready replies served (FPR)",
        "FPR",
        "P(auto_serve | not ready)",
        "Where it is higher, replies that were not ready go out without review.",
    ),
    Metric.SELECTION: Term(
        "Requests served at once (selection rate)",
        "selection rate",
        "P(auto_serve)",
        "Of all requests, ready or not: it differs, too, where other requests come.",
    ),
    Metric.BLOCKED: Term(
        "Requests blocked (blocked rate)",
        "blocked rate",
        "P(blocked_by_evidence)",
        "Where it is higher, more requests get no reply because evidence is missing.",
    ),
    Metric.READY: Term(
        "Replies that are ready (base rate)",
        "base rate",
        "P(ready)",
        "By the reviewers' judgement; no property of the router, and never limited.",
    ),
    Metric.PRECISION: Term(
        "Served replies that were ready (precision)",
        "precision",
        "P(ready | auto_serve)",
        "Where it is lower, more of the replies that go out without review are not ready.",
    ),
}
"""Metrics in words; "ready" is the reviewers' judgement."""

STATES: Mapping[State, str] = {
    State.SUPPRESSED: "hidden to protect privacy",
    State.INSUFFICIENT_SUPPORT: "not enough data yet",
    State.MATURING: "labels are still to come",
    State.NO_LIMIT: "no limit applies",
    State.INCONCLUSIVE: "not enough data yet to tell",
    State.WITHIN_CONTRACT: "within the limit",
    State.STALE: "was within the limit; the data are too old now",
    State.BETTER_OFF: "others are worse off by more than the limit",
    State.SUSPECTED: "over the limit, not yet confirmed",
    State.BREACH: "over the limit, confirmed by the sequential test",
}
"""States in words, the same on every surface."""

BADGES: Mapping[State, str] = {
    State.SUPPRESSED: "hidden",
    State.INSUFFICIENT_SUPPORT: "not enough data",
    State.MATURING: "labels to come",
    State.NO_LIMIT: "no limit",
    State.INCONCLUSIVE: "undecided",
    State.WITHIN_CONTRACT: "within limit",
    State.STALE: "too old",
    State.BETTER_OFF: "better off",
    State.SUSPECTED: "over limit",
    State.BREACH: "breach",
}
"""States in two or three words, for tables of the page."""

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


def attribute_values(slice_: str) -> dict[str, str]:
    """Return the attribute values of a slice; none for the total.

    Example:
        >>> attribute_values("channel=chat,device=phone")
        {'channel': 'chat', 'device': 'phone'}
    """
    return parse_atom(slice_)
