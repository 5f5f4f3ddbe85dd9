"""Limits that page and limits that open tickets, for ``slicewatch check``."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator

from monitor.core.contract import Contract, Severity
from monitor.detection.pages.budget import Budget
from monitor.detection.pages.declared import all_streams
from monitor.detection.pages.streams import BUDGET_DAYS, Stream
from monitor.settings import Settings


def page_lines(settings: Settings) -> Iterator[str]:
    """Yield a line per contract on its limits that page, and what sharing one bound costs them."""
    streams = all_streams(settings.contracts, settings.coding)
    budget = Budget().declare(streams)
    for contract in settings.contracts:
        by_limit: dict[str, list[Stream]] = defaultdict(list)
        for stream in streams:
            if stream.contract == contract.name:
                by_limit[stream.limit_name].append(stream)
        cost = max((_cost(watching, budget) for watching in by_limit.values()), default=0)
        yield (
            f"ok: contract {contract.name}: {_severities(contract, by_limit)}; all limits share one"
            f" false page in {BUDGET_DAYS:g} days, so a breach takes up to {cost:.0%} more days to"
            " find than if its limit were the only one"
        )


def _severities(contract: Contract, limits: Iterable[str]) -> str:
    """Return in words which limits page and which are tickets."""
    named: dict[Severity, list[str]] = {Severity.PAGE: [], Severity.TICKET: []}
    for limit in limits:
        named[contract.severity(limit)].append(limit)
    pages, tickets = (", ".join(names) or "no limit" for names in named.values())
    return f"breaches of {pages} page, of {tickets} are tickets"


def _cost(streams: list[Stream], budget: Budget) -> float:
    """Return the relative growth of the evidence that a limit needs because others share."""
    alone = Budget().declare(streams)
    return max(_needed(s, budget) / _needed(s, alone) for s in streams) - 1


def _needed(stream: Stream, budget: Budget) -> float:
    """Return the evidence in nats at which a stream pages; the days to a page grow with it."""
    return math.log(BUDGET_DAYS / budget.weights[stream.key])
