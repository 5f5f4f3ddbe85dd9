"""Generated PromQL by which an alert keeps its last verdict while its series are absent."""

from __future__ import annotations

import enum
import re

from alerts.exposition.catalogue import FAMILIES

PREFIX = "Slicewatch"
"""Beginning of the names of all alerts."""
HOLD = "6h"
"""Time for which a verdict is held: a night. After it, an alert about the monitor has been
unanswered for so long that the last verdict is worthless."""


class AlertSubject(enum.StrEnum):
    """Object of the Snapshot that an alert reads, named by the label that identifies it."""

    CONTRACT = "contract"
    PROBE_SET = "probe_set"

    @property
    def family(self) -> str:
        """Return the name of a metric that is exported whenever the subject has any metric."""
        families = {AlertSubject.CONTRACT: "slice_state", AlertSubject.PROBE_SET: "probe_set_info"}
        return FAMILIES[families[self]].name

    @property
    def record(self) -> str:
        """Return the name of the rule that counts the subject's series by job and label."""
        return f"{self}:{self.family}:count"

    @property
    def record_expr(self) -> str:
        """Return the PromQL of the rule :attr:`record`."""
        return f"count by (job, {self}) ({self.family})"


def held_name(key: str) -> str:
    """Return the name of the record that holds an alert's last verdict, by its name or condition.

    Example:
        >>> held_name("SlicewatchGapTicket"), held_name("window_old")
        ('slicewatch:gap_ticket:held', 'slicewatch:window_old:held')
    """
    words = re.findall("[A-Z][a-z]*|[a-z_]+", key.removeprefix(PREFIX))
    return f"slicewatch:{'_'.join(words).lower()}:held"


def held_expression(key: str, expr: str, shown: AlertSubject) -> str:
    """Return PromQL for an alert's verdict; while its series are absent, for the last one.

    An exported state always wins, so a repair resolves at once. A restart, a lost evaluator or a
    lost exporter exports none, and resolves nothing. The record reads its own last sample, which is
    gone after one evaluation without a sample: a resolved verdict does not come back.

    The states are queried in the same expression, not through their record: a scrape that times out
    ends all series at its start, which may be between two rules of one evaluation.
    """
    name, matching = held_name(key), f"on (job, {shown})"
    return (
        f"({expr})\n"
        "or\n"
        f"(\n  ({name} unless {matching} {shown.family})\n"
        f"  and {matching} last_over_time({shown.record}[{HOLD}])\n)"
    )
