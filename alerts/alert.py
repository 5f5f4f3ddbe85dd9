"""One alert: when it fires, how loud it is, what it says and what is to be done."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from alerts.promql import Shown, held_name
from alerts.runbook import Runbook


class Severity(enum.StrEnum):
    """How loud an alert is; Alertmanager routes by it."""

    PAGE = "page"  # somebody is woken
    TICKET = "ticket"  # somebody looks at it in office hours
    INFO = "info"  # said, and nobody must act; its end is never said
    NONE = "none"  # the sign of life


class About(enum.StrEnum):
    """What an alert is about; inhibition goes by it."""

    FAIRNESS = "fairness"  # contracts, by the published Snapshot
    LABELS = "labels"  # what the rates rest on
    PROBES = "probes"  # matched pairs of synthetic requests, by the published Snapshot
    PIPELINE = "pipeline"  # from the topics to the store
    MONITOR = "monitor"  # the service itself, and those who look after it


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        name: CamelCase, with the prefix of all; its runbook has the same name.
        severity: how loud.
        about: of what.
        expr: PromQL. Its labels are the alert's identity: never a slice, a number or a version.
        summary: one line; may be a template, of the labels of ``expr`` alone.
        description: the same, in sentences.
        runbook: what is to be done.
        wait: minutes it must hold before it fires.
        keep: minutes it goes on firing after it has ceased to hold.
        held: of what it is read from the slice page, and hence stands as it was while nothing of
            that is shown: what cannot be seen has not been repaired. None for any other.
        latched: whether it begins with an evaluation alone, never because data are missing.
        links: further annotations, by their names.
    """

    name: str
    severity: Severity
    about: About
    expr: str
    summary: str
    description: str
    runbook: Runbook
    wait: int = 0
    keep: int = 0
    held: Shown | None = None
    latched: bool = False
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def watched(self) -> str:
        """What its rule looks at: the expression, or the record that holds what it said last."""
        return held_name(self.name) if self.held else self.expr
