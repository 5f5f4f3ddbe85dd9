"""View of the demo: the newest Snapshot, with the true rates that the generator knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import msgspec

from monitor.core.metric import Metric
from monitor.core.publish.snapshot import (
    GroupTable,
    ShownGap,
    ShownIncident,
    ShownRate,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.publish.words import iso_text
from monitor.core.state import State
from monitor.core.time import DAY, SECOND
from monitor.demo.traffic import Produced
from monitor.demo.world import REGRESSED, Truth
from monitor.shard_status import ShardStatus

SYNTHETIC = "synthetic test conditions, not a finding about people"
REGRESSED_SLICE = f"language_variety={REGRESSED}"


@dataclass(frozen=True, slots=True)
class SliceView:
    """Row of the demo's table: a published row with its true rate.

    Attributes:
        group_by: name of the group-by.
        row: row as the Snapshot publishes it.
        truth: realised TPR of the same window, from the generator; None where the Snapshot hides
            the slice, so that the demo reveals no small cell either.
    """

    group_by: str
    row: SliceRow
    truth: float | None

    @property
    def tpr(self) -> ShownRate | None:
        """Return the TPR as published; None if withheld."""
        return self.row.rates.get(Metric.TPR)

    @property
    def gap(self) -> ShownGap | None:
        """Return the TPR's gap to the reference; None for the reference and withheld rows."""
        return self.row.gaps.get(Metric.TPR)

    @property
    def state(self) -> State:
        """Return the published state of the TPR."""
        return self.row.states[Metric.TPR]

    @property
    def suspected(self) -> list[str]:
        """Return the sorted names of metrics that are suspected or in breach."""
        bad = (State.SUSPECTED, State.BREACH)
        return sorted(metric.value for metric, state in self.row.states.items() if state in bad)


def contract_window_table(snapshot: Snapshot) -> WindowTable | None:
    """Return the table of the contract's own window, which determines the states; else None."""
    (table,) = snapshot.contracts
    return next((window for window in table.windows if window.window == table.window), None)


def incidents_of(snapshot: Snapshot) -> tuple[ShownIncident, ...]:
    """Return the contract's unresolved incidents."""
    (table,) = snapshot.contracts
    return table.incidents


def slice_views(snapshot: Snapshot, truth: Truth) -> list[SliceView]:
    """Return the rows of the table in the contract's order; empty if no window is published."""
    window = contract_window_table(snapshot)
    if window is None:
        return []
    return [view for group in window.groups for view in _group_views(group, truth)]


def _group_views(group: GroupTable, truth: Truth) -> Iterator[SliceView]:
    """Yield each slice's published row with its true TPR over the labelled period."""
    for row in group.rows:
        true_rate = None
        if group.labelled is not None and row.rates:
            true_rate = truth.tpr(row.slice, group.labelled.start, group.labelled.end)
        yield SliceView(group.group_by, row, true_rate)


class Moment(NamedTuple):
    """Moment in the demo: seconds since its start, and simulated microseconds."""

    seconds: float
    simulated: int


@dataclass(slots=True)
class FirstShown:
    """Moments at which slices were first suspected and incidents first shown.

    Attributes:
        first: slices first suspected, in any metric.
        incidents: incidents first shown, by id.
    """

    first: dict[str, Moment] = field(default_factory=dict)
    incidents: dict[int, Moment] = field(default_factory=dict)

    def look(
        self, views: Sequence[SliceView], moment: Moment, incidents: Sequence[ShownIncident] = ()
    ) -> None:
        """Record ``moment`` for slices and incidents that are shown for the first time."""
        suspected = {view.row.slice: moment for view in views if view.suspected}
        # Replaced as wholes, for the threads that read.
        self.first = suspected | self.first
        self.incidents = {incident.id: moment for incident in incidents} | self.incidents

    @property
    def regressed(self) -> Moment | None:
        """Return when the truly regressed slice was first suspected; None before."""
        return self.first.get(REGRESSED_SLICE)

    @property
    def others(self) -> list[str]:
        """Return sorted slices that were suspected although nothing happened to them."""
        return sorted(self.first.keys() - {REGRESSED_SLICE})


@dataclass(frozen=True, slots=True)
class CommittedTotals:
    """Totals of ingest over all shards; both balances are 0 unless something is wrong.

    Attributes:
        messages: messages read.
        events: events decoded or refused.
        counted: decisions and labels that count.
        duplicates: events recognised as duplicates and dropped.
        waiting: labels whose decision has not arrived yet.
        unmatched: labels without a decision.
        stale: labels that a later one had overruled already.
        thinned: requests not kept at the grid's audit rate.
        dead_letters: by reason.
        message_balance: next offset - start - messages - gaps.
        event_balance: events that ended nowhere.
    """

    messages: int = 0
    events: int = 0
    counted: int = 0
    duplicates: int = 0
    waiting: int = 0
    unmatched: int = 0
    stale: int = 0
    thinned: int = 0
    dead_letters: dict[str, int] = field(default_factory=dict)
    message_balance: int = 0
    event_balance: int = 0

    @classmethod
    def from_statuses(cls, statuses: Sequence[ShardStatus]) -> CommittedTotals:
        """Return the totals over the statuses of all shards."""
        tallies = [status.tallies for status in statuses]
        dead_letters: Counter[str] = Counter()
        for tally in tallies:
            dead_letters.update(tally.dead_letters)
        return cls(
            **{name: sum(getattr(tally, name) for tally in tallies) for name in _SUMMED},
            unmatched=sum(sum(tally.unmatched.values()) for tally in tallies),
            dead_letters=dict(sorted(dead_letters.items())),
            message_balance=sum(status.offsets_balance for status in statuses),
            event_balance=sum(tally.balance for tally in tallies),
        )


_SUMMED = ("messages", "events", "counted", "duplicates", "waiting", "stale", "thinned")


@dataclass(frozen=True, slots=True)
class DemoView:
    """Content of the screen at one moment, made anew for each redraw.

    Attributes:
        seconds: seconds since the demo was started.
        simulated: simulated time, microseconds.
        speed: recent pace, in simulated seconds per second.
        regression_at: start of the regression, microseconds.
        snapshot: newest Snapshot; None at first.
        slices: lines of the table.
        watch: moments of first suspicion so far.
        consumed: committed totals.
        per_second: events consumed lately, per second.
        url: base address of the HTTP server.
    """

    seconds: float
    simulated: int
    speed: float
    regression_at: int
    snapshot: Snapshot | None
    slices: Sequence[SliceView]
    watch: FirstShown
    consumed: CommittedTotals
    per_second: float
    url: str

    @property
    def incidents(self) -> tuple[ShownIncident, ...]:
        """Return the unresolved incidents of the newest Snapshot."""
        return incidents_of(self.snapshot) if self.snapshot else ()

    @property
    def paged(self) -> Moment | None:
        """Return when the truly regressed slice's first incident was shown; None before."""
        first = self.watch.incidents
        paged_at = [
            first[incident.id] for incident in self.incidents if incident.slice == REGRESSED_SLICE
        ]
        return min(paged_at, default=None)


def document(view: DemoView, produced: Produced, seed: int) -> dict[str, Any]:
    """Return the ``--json`` document: published numbers with the generator's truth."""
    watch, paged = view.watch, view.paged
    regressed = watch.regressed
    return {
        "note": SYNTHETIC,
        "seed": seed,
        "seconds": round(view.seconds, 1),
        "one_simulated_day_seconds": round(DAY / SECOND / view.speed, 1),
        "simulated_time": iso_text(view.simulated),
        "regression": {
            "slice": REGRESSED_SLICE,
            "began": iso_text(view.regression_at),
            "suspected_at": None
            if watch.regressed is None
            else iso_text(watch.regressed.simulated),
            "paged_at": iso_text(paged.simulated) if paged else None,
        },
        "seconds_until_suspected": _seconds(regressed),
        "suspected": {text: _seconds(first) for text, first in sorted(watch.first.items())},
        "suspected_wrongly": watch.others,
        "seconds_until_paged": _seconds(paged),
        "incidents": [msgspec.to_builtins(incident) for incident in view.incidents],
        "window": _window_document(view),
        "slices": [_slice_document(slice_view) for slice_view in view.slices],
        "produced": asdict(produced),
        "consumed": asdict(view.consumed),
        # Both equations hold: each offset is a message or a gap, each event ended.
        "conserved": view.consumed.message_balance == 0 == view.consumed.event_balance,
        "complete": view.consumed.messages == produced.messages,
        "url": view.url,
    }


def _window_document(view: DemoView) -> dict[str, Any] | None:
    window = contract_window_table(view.snapshot) if view.snapshot else None
    if window is None or window.labelled is None:
        return None
    return {
        "name": window.window,
        "labelled_from": iso_text(window.labelled.start),
        "labelled_to": iso_text(window.labelled.end),
    }


def _slice_document(view: SliceView) -> dict[str, Any]:
    return {
        "group_by": view.group_by,
        "slice": view.row.slice,
        "truth_tpr": None if view.truth is None else round(view.truth, 4),
        "published": msgspec.to_builtins(view.row),
    }


def _seconds(moment: Moment | None) -> float | None:
    return None if moment is None else round(moment.seconds, 1)
