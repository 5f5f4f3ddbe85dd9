"""PromQL that is generated: an alert keeps its last verdict while its series are absent."""

from __future__ import annotations

import enum
import re

from alerts.exposition import catalogue

PREFIX = "Slicewatch"
"""The names of all alerts begin with it."""
HOLD = "6h"
"""Time for which a verdict is held: a night. Beyond it, an alert about the monitor has been
unanswered for longer than the last verdict is worth anything."""


class AlertSubject(enum.StrEnum):
    """Object of the Snapshot that an alert reads, named by the label that identifies it."""

    CONTRACT = "contract"
    PROBE_SET = "probe_set"

    @property
    def family(self) -> str:
        """The metric that is exported whenever anything of it is."""
        families = {
            AlertSubject.CONTRACT: catalogue.STATE,
            AlertSubject.PROBE_SET: catalogue.PROBE_SET_INFO,
        }
        return families[self].name

    @property
    def words(self) -> str:
        """The name for people."""
        return {AlertSubject.CONTRACT: "slice", AlertSubject.PROBE_SET: "probe set"}[self]

    @property
    def record(self) -> str:
        """The rule that counts its series, by job and label; absent while there are none."""
        return f"{self}:{self.family}:count"

    @property
    def record_expr(self) -> str:
        """The expression of that rule."""
        return f"count by (job, {self}) ({self.family})"


def held_name(alert: str) -> str:
    """Name of the record that holds the last verdict of an alert.

    Example:
        >>> held_name("SlicewatchTprBreach")
        'slicewatch:tpr_breach:held'
    """
    words = re.findall("[A-Z][a-z]*", alert.removeprefix(PREFIX))
    return f"slicewatch:{'_'.join(words).lower()}:held"


def held(alert: str, expr: str, shown: AlertSubject) -> str:
    """The verdict of an expression or, while none of its series are exported, the last one.

    A state that is exported always wins, so a repair resolves at once; a restart, a lost evaluator
    or a lost exporter exports none, and resolves nothing. The record reads its own last sample,
    which is gone as soon as one evaluation has had none: what was resolved does not come back.

    The states are queried in the same expression, not through their record: a scrape that times
    out ends all series as of when it began, which may be between two rules of one evaluation.
    """
    name, one = held_name(alert), f"on (job, {shown})"
    return (
        f"({expr})\n"
        "or\n"
        f"(\n  ({name} unless {one} {shown.family})\n"
        f"  and {one} last_over_time({shown.record}[{HOLD}])\n)"
    )
