"""Metrics, one row each: what they count, whom they harm, and what people call them.

A further metric takes a row here, its limit in :class:`monitor.core.contract.Limits` and in the
settings, and a paragraph in the runbook of breaches. It takes an estimator only if it counts
something new.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Among(enum.Enum):
    """Decisions of which a rate tells the share: all, those of one label, or those served."""

    ALL = enum.auto()
    READY = enum.auto()
    NOT_READY = enum.auto()
    SERVED = enum.auto()


class Share(enum.Enum):
    """Hits of a rate: served or blocked decisions, or ready replies."""

    SERVED = enum.auto()
    BLOCKED = enum.auto()
    READY = enum.auto()


class Metric(enum.StrEnum):
    """Rate of a slice that a contract may limit; READY, the base rate, has no limit."""

    SELECTION = "selection"
    TPR = "tpr"
    FPR = "fpr"
    BLOCKED = "blocked"
    READY = "ready"
    PRECISION = "precision"

    @property
    def row(self) -> MetricRow:
        """Return the row of the metric."""
        return _ROWS[self]

    @property
    def labelled(self) -> bool:
        """Return True when the rate is based on labels."""
        return self.row.among is not Among.ALL or self.row.share is Share.READY

    @property
    def harmed_by_less(self) -> bool:
        """Return True when a lower rate is worse for a slice, False when a higher one is."""
        return self.row.harmed_by_less

    @property
    def of_ready(self) -> bool:
        """Return True for a share of ready replies among decisions, False for a share of routes."""
        return self.row.share is Share.READY


@dataclass(frozen=True, slots=True)
class MetricRow:
    """Row of a metric, with all that distinguishes it from the others.

    Attributes:
        among: the trials.
        share: the hits among them.
        harmed_by_less: whether the lower rate is the worse one: help is delayed, or fewer served
            replies are ready. For READY the orientation has no meaning.
        page_share: the part of the page budget that its gaps get; 0: it has no limit.
        usual: the rate that bets on it assume before the first data.
        heading: its name on pages and in reports.
        symbol: the probability.
        meaning: its meaning in one sentence.
        name: its name inside a sentence, and in narrow tables.
        event: the rate as an event that happens to a slice more or less often.
        subject: subject of an alert's title.
        verb: verb of an alert's title.
        first_step: what an alert tells people to do first; ``<< cause >>`` is filled in later.
        always_shown: whether every contract shows it; else only one that limits it.
        support: name of the contract's number of trials that it needs; None: both numbers together.
    """

    among: Among
    share: Share
    harmed_by_less: bool
    page_share: float
    usual: float
    heading: str
    symbol: str
    meaning: str
    name: str
    event: str
    subject: str = ""
    verb: str = ""
    first_step: str = ""
    always_shown: bool = True
    support: str | None = None


# In the order in which texts tell of them: the gravest harm first.
_ROWS = {
    Metric.TPR: MetricRow(
        Among.READY,
        Share.SERVED,
        harmed_by_less=True,
        page_share=0.40,
        usual=0.85,
        support="min_positives",
        heading="Ready replies served at once (TPR)",
        symbol="P(auto_serve | ready)",
        meaning=(
            "Where it is lower, replies that were ready are held back for review: help comes late."
        ),
        name="TPR",
        event="ready replies served",
        subject="Ready replies",
        verb="are sent at once",
        first_step=(
            "review the waiting replies of those worse off before others, and << cause >>."
            " Do not send more of them to review."
        ),
    ),
    Metric.FPR: MetricRow(
        Among.NOT_READY,
        Share.SERVED,
        harmed_by_less=False,
        page_share=0.20,
        usual=0.15,
        support="min_negatives",
        heading="Unready replies served (FPR)",
        symbol="P(auto_serve | not ready)",
        meaning="Where it is higher, replies that were not ready go out without review.",
        name="FPR",
        event="unready replies served",
        subject="Unready replies",
        verb="are sent at once",
        first_step="send the requests of those worse off to human review, and << cause >>.",
    ),
    Metric.PRECISION: MetricRow(
        Among.SERVED,
        Share.READY,
        harmed_by_less=True,
        page_share=0.20,
        usual=0.9,
        always_shown=False,
        heading="Served replies that were ready (precision)",
        symbol="P(ready | auto_serve)",
        meaning="Where it is lower, more of the replies that go out without review are not ready.",
        name="precision",
        event="served replies ready",
        subject="Replies sent at once",
        verb="are ready",
        first_step=(
            "compare the shares of ready replies and the FPR. If only the shares differ,"
            " the owner decides; if the FPR is higher, << cause >>."
        ),
    ),
    Metric.BLOCKED: MetricRow(
        Among.ALL,
        Share.BLOCKED,
        harmed_by_less=False,
        page_share=0.20,
        usual=0.05,
        heading="Requests blocked (blocked rate)",
        symbol="P(blocked_by_evidence)",
        meaning="Where it is higher, more requests get no reply because evidence is missing.",
        name="blocked rate",
        event="requests blocked",
        subject="Requests",
        verb="are blocked",
        first_step="check documents and retrieval for those worse off, and << cause >>.",
    ),
    Metric.SELECTION: MetricRow(
        Among.ALL,
        Share.SERVED,
        harmed_by_less=True,
        page_share=0.20,
        usual=0.5,
        heading="Requests served at once (selection rate)",
        symbol="P(auto_serve)",
        meaning="Of all requests, ready or not: it differs, too, where other requests come.",
        name="selection rate",
        event="requests served",
        subject="Requests",
        verb="are answered at once",
        first_step=(
            "compare the shares of ready replies (metric ready). If those worse off have fewer, it"
            " is expected; if not, << cause >>."
        ),
    ),
    Metric.READY: MetricRow(
        Among.ALL,
        Share.READY,
        harmed_by_less=False,
        page_share=0.0,
        usual=0.5,
        heading="Replies that are ready (base rate)",
        symbol="P(ready)",
        meaning="By the reviewers' judgement; no property of the router, and never limited.",
        name="base rate",
        event="replies ready",
    ),
}

GRAVEST_FIRST = tuple(_ROWS)
"""All metrics, in the order in which texts tell of them."""

LIMITED = tuple(metric for metric in GRAVEST_FIRST if metric.row.page_share)
"""Metrics that a contract may limit, in that order."""

USUAL_METRICS = tuple(metric for metric in Metric if metric.row.always_shown)
"""Metrics that every contract shows."""
