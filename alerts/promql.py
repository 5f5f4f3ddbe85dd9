"""PromQL that several rules share."""

from __future__ import annotations

import re
from dataclasses import dataclass

from alerts import catalogue
from alerts.catalogue import Family

PREFIX = "Slicewatch"
"""Of the names of all alerts."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Something whose verdicts stand as they were while nothing of it is shown.

    Attributes:
        words: for people, what is looked for.
        label: that names it, beside the job.
        family: always shown with it.
    """

    words: str
    label: str
    family: Family

    @property
    def record(self) -> str:
        """How many series of it are shown, by job and name; absent while there is none."""
        return f"{self.label}:{self.family.name}:count"

    @property
    def record_expr(self) -> str:
        """What the record holds."""
        return f"count by (job, {self.label}) ({self.family.name})"


CONTRACT = Shown("slice", "contract", catalogue.STATE)
PROBE_SET = Shown("probe set", "probe_set", catalogue.PROBE_SET_INFO)

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


def held(alert: str, expr: str, shown: Shown) -> str:
    """What an expression says, and while nothing it is about is shown, what it said before.

    A state that is shown always wins, so a repair resolves at once; a restart, a lost evaluator
    or a lost exporter shows none, and resolves nothing. It looks back to its own last sample,
    which is gone as soon as one evaluation has had none: what was resolved does not come back.

    The states are asked for in the same query, not by their record: a scrape that times out ends
    all series as of when it began, which may be between two rules of one evaluation.
    """
    name, one = held_name(alert), f"on (job, {shown.label})"
    return (
        f"({expr})\n"
        "or\n"
        f"(\n  ({name} unless {one} {shown.family.name})\n"
        f"  and {one} last_over_time({shown.record}[{HOLD}])\n)"
    )


def found_lately(by: str, found_at: str) -> str:
    """What was found within the last days of event time, by some labels.

    Event time, since findings have it: a stream that is behind, or simulated, has its own now.
    """
    now = f"max by (job) ({catalogue.WATERMARK.name})"
    days = int(RECENT.removesuffix("d"))
    return f"({now}\n  - on (job) group_right ()\n  max by ({by}) ({found_at})\n) < {days * 86_400}"
