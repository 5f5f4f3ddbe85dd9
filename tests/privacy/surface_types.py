"""What the surface table is made of: surfaces and rows; the rules are the product's."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from monitor.core.privacy.rules import PrivacyRule as Rule


class Surface(enum.StrEnum):
    """Where a name is read."""

    METRIC = "metric"  # /metrics, both ports
    SNAPSHOT = "snapshot"  # the Snapshot: pages, /snapshot/ID, replay --json, demo --json
    PUBLISHED = "published"  # the tables of the reporter's login
    DEMO = "demo"  # slicewatch demo --json
    STATUS = "status"  # slicewatch db status --json
    DEAD_LETTER = "dead letter"  # slicewatch db dead-letters
    RECEIVED = "received"  # answers of POST /v1/events
    INCIDENT = "incident"  # slicewatch incident --json, /incidents
    PAGE = "page"  # the status page, its files and the API, beside Snapshot and incidents
    REPORT = "report"  # slicewatch report, in every format: the Release, and what is beside it
    BACKTEST = "backtest"  # slicewatch backtest, with --propose too
    PROBES = "probes"  # slicewatch probe status --json
    AUDIT = "audit"  # slicewatch audit, in every format
    LOG = "log"  # standard error of the service
    LATER = "later"  # what later steps of the plan export


@dataclass(frozen=True, slots=True)
class Row:
    """One exported name.

    Attributes:
        surface: where it is read.
        name: as it is read there; of a log line, its event with the places of its arguments.
        rule: what it obeys.
        why: how it comes to obey the rule, or why it may be exact.
    """

    surface: Surface
    name: str
    rule: Rule
    why: str


def rows_for(surface: Surface, rule: Rule, why: str, *names: str) -> Iterator[Row]:
    """A row for each of the names that stand in some texts."""
    return (Row(surface, name, rule, why) for text in names for name in text.split())
