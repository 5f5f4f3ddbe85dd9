"""PromQL that several rules share."""

from __future__ import annotations

import re

from alerts import catalogue

PREFIX = "Slicewatch"
"""Of the names of all alerts."""

SHOWN = "contract:slicewatch_slice_state:count"
"""Record: how many states of a contract are shown, by job and contract; absent while none is."""
SHOWN_EXPR = f"count by (job, contract) ({catalogue.STATE.name})"

HOLD = "6h"
"""For how long a verdict stands while nothing is shown: a night. Beyond it, an alert about the
monitor has been unanswered for longer than what was known before is worth anything."""
RECENT = "8d"
"""How long after it was found something counts as found: the next weekly list comes before."""


def held_name(alert: str) -> str:
    """The record that holds what an alert's expression said last.

    Example:
        >>> held_name("SlicewatchTprBreach")
        'slicewatch:tpr_breach:held'
    """
    words = re.findall("[A-Z][a-z]*", alert.removeprefix(PREFIX))
    return f"slicewatch:{'_'.join(words).lower()}:held"


def held(alert: str, expr: str) -> str:
    """What an expression says, and while nothing of its contract is shown, what it said before.

    A state that is shown always wins, so a repair resolves at once; a restart, a lost evaluator
    or a lost exporter shows none, and resolves nothing. It looks back to its own last sample,
    which is gone as soon as one evaluation has had none: what was resolved does not come back.

    The states are asked for in the same query, not by their record: a scrape that times out ends
    all series as of when it began, which may be between two rules of one evaluation.
    """
    name = held_name(alert)
    return (
        f"({expr})\n"
        "or\n"
        f"(\n  ({name} unless on (job, contract) {catalogue.STATE.name})\n"
        f"  and on (job, contract) last_over_time({SHOWN}[{HOLD}])\n)"
    )


def found_lately(by: str, found_at: str) -> str:
    """What was found within the last days of event time, by some labels.

    Event time, since findings have it: a stream that is behind, or simulated, has its own now.
    """
    now = f"max by (job) ({catalogue.WATERMARK.name})"
    days = int(RECENT.removesuffix("d"))
    return f"({now}\n  - on (job) group_right ()\n  max by ({by}) ({found_at})\n) < {days * 86_400}"
