"""Progress of publication, and what it waits for, from the newest stored Snapshot.

It reveals no more than the Snapshot: which slice of a group-by is slow is withheld.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from monitor.core.publish.snapshot import ContractTable, GroupTable, Period, WindowTable, decode
from monitor.core.time import to_datetime
from monitor.store.evaluator.records import RecordStore

FIRST_DECISIONS = "its first whole hour"
FIRST_LABELS = "the labels of its first whole hour"


@dataclass(frozen=True, slots=True)
class PublishedReport:
    """Progress of a contract's group-by in the contract's window, and what it waits for.

    Attributes:
        contract: name of the contract.
        group_by: attribute names joined by ``+``; empty for all decisions together.
        decisions_until: event time up to which selection and blocked rates go; None before any.
        labels_until: event time up to which rates of labels go; None before any.
        waits_for: missing data, a text each; empty where the group-by is as new as it can be.
    """

    contract: str
    group_by: str
    decisions_until: datetime | None
    labels_until: datetime | None
    waits_for: tuple[str, ...]


def published_ages(engine: sa.Engine) -> Iterator[PublishedReport]:
    """Yield the progress of each group-by in the newest Snapshot; none without a Snapshot."""
    newest = RecordStore(engine).newest_snapshot()
    if newest is None:
        return
    snapshot = decode(newest[1])
    for contract in snapshot.contracts:
        for window in contract.windows:
            if window.window == contract.window:
                yield _report(contract, window)
                yield from (_report(contract, group) for group in window.groups)


def _report(contract: ContractTable, table: WindowTable | GroupTable) -> PublishedReport:
    """Return up to when a table is published, and what it waits for."""
    waits = (
        FIRST_DECISIONS if table.decisions is None else "",
        FIRST_LABELS if table.labelled is None else "",
    )
    return PublishedReport(
        contract.contract,
        table.group_by,
        _end(table.decisions),
        _end(table.labelled),
        tuple(filter(None, waits)),
    )


def _end(period: Period | None) -> datetime | None:
    return None if period is None else to_datetime(period.end)
