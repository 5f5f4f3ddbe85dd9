"""States of slices, one row each: their words, classes and colours.

A further state takes a row here, its condition in :mod:`monitor.core.publish.states`, and a text on
what ends it in :mod:`monitor.core.publish.reasons`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class State(enum.StrEnum):
    """State of a slice and metric under its contract; WITHIN_CONTRACT is the only good state."""

    SUPPRESSED = "suppressed"  # fewer than k, whatever the reason
    INSUFFICIENT_SUPPORT = "insufficient_support"  # too little, or too much is blocked
    MATURING = "maturing"  # labels are missing that could break the limit
    NO_LIMIT = "no_limit"  # the contract sets none that applies
    INCONCLUSIVE = "inconclusive"  # support, but the interval straddles the limit
    WITHIN_CONTRACT = "within_contract"  # upper bound at or below the limit
    STALE = "stale"  # it was within the contract, but that is longer ago than max_age
    BETTER_OFF = "better_off"  # upper bound below minus the limit: others are worse off
    SUSPECTED = "suspected"  # lower bound above the limit
    BREACH = "breach"  # the sequential test has crossed

    @property
    def row(self) -> StateRow:
        """Return the row of the state."""
        return _ROWS[self]


@dataclass(frozen=True, slots=True)
class StateRow:
    """Row of a state, with all that distinguishes it from the others.

    Attributes:
        words: the state in words, the same on every surface.
        badge: the state in two or three words, for tables of the page.
        slice_class: class of a slice in that state, for counts and filters.
        tone: CSS class, for the colour; words always say the same.
        color: colour in Grafana; undecided states have no colour of a verdict.
        code: number for panels that can only draw numbers; the worst state is the highest.
    """

    words: str
    badge: str
    slice_class: str
    tone: str
    color: str
    code: int


# From the worst to the unknown ones.
_ROWS = {
    State.BREACH: StateRow(
        "over the limit, confirmed by the sequential test", "breach", "breach", "bad", "dark-red", 9
    ),
    State.SUSPECTED: StateRow(
        "over the limit, not yet confirmed", "over limit", "over_limit", "bad", "orange", 8
    ),
    State.BETTER_OFF: StateRow(
        "others are worse off by more than the limit",
        "better off",
        "within_limit",
        "plain",
        "semi-dark-yellow",
        7,
    ),
    State.INCONCLUSIVE: StateRow(
        "not enough data yet to tell", "undecided", "undecided", "unsure", "blue", 5
    ),
    State.STALE: StateRow(
        "was within the limit; the data are too old now", "too old", "undecided", "old", "purple", 6
    ),
    State.MATURING: StateRow(
        "labels are still to come", "labels to come", "undecided", "old", "light-blue", 4
    ),
    State.WITHIN_CONTRACT: StateRow(
        "within the limit", "within limit", "within_limit", "good", "green", 0
    ),
    State.INSUFFICIENT_SUPPORT: StateRow(
        "not enough data yet", "not enough data", "undecided", "grey", "super-light-blue", 3
    ),
    State.NO_LIMIT: StateRow(
        "no limit applies", "no limit", "within_limit", "plain", "rgba(128, 128, 128, 0.25)", 1
    ),
    State.SUPPRESSED: StateRow(
        "hidden to protect privacy", "hidden", "hidden", "hidden", "rgba(128, 128, 128, 0.5)", 2
    ),
}

RANKS = tuple(_ROWS)
"""States, from the worst to the unknown ones."""

SLICE_CLASSES = ("breach", "over_limit", "undecided", "hidden", "within_limit")
"""Classes of slices for counts and filters; a slice is in the first that any of its cells is in."""
