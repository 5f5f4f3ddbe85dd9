"""View of the demo: the newest Snapshot with the true rates that the generator knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import msgspec

from monitor.core.contract import Metric, State
from monitor.core.publish.snapshot import (
    GroupTable,
    ShownGap,
    ShownIncident,
    ShownRate,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.time import DAY, SECOND, to_datetime
from monitor.demo.traffic import Produced
from monitor.demo.world import REGRESSED, Truth
from monitor.ports import ShardStatus, Tallies

SYNTHETIC = "synthetic test conditions, not a finding about people"
REGRESSED_SLICE = f"language_variety={REGRESSED}"


@dataclass(frozen=True, slots=True)
class SliceView:
    """One line of the table.

    Attributes:
        group_by: name of the group-by.
        row: as the Snapshot publishes it.
        truth: realised TPR of the same window, known to the generator alone; None where the
            Snapshot hides the slice, so that the demo gives away no small cell either.
    """

    group_by: str
    row: SliceRow
    truth: float | None

    @property
    def tpr(self) -> ShownRate | None:
        """The estimate, as published."""
        return self.row.rates.get(Metric.TPR)

    @property
    def gap(self) -> ShownGap | None:
        """Against the reference; None for the reference itself."""
        return self.row.gaps.get(Metric.TPR)

    @property
    def state(self) -> State:
        """State of the TPR."""
        return self.row.states[Metric.TPR]

    @property
    def suspected(self) -> list[str]:
        """The metrics that are suspected, or in breach."""
        bad = (State.SUSPECTED, State.BREACH)
        return sorted(m.value for m, state in self.row.states.items() if state in bad)


def contract_window(snapshot: Snapshot) -> WindowTable | None:
    """The window that states are decided on."""
    (table,) = snapshot.contracts
    return next((w for w in table.windows if w.window == table.window), None)


def incidents_of(snapshot: Snapshot) -> tuple[ShownIncident, ...]:
    """The unresolved incidents."""
    (table,) = snapshot.contracts
    return table.incidents


def slice_views(snapshot: Snapshot, truth: Truth) -> list[SliceView]:
    """The lines of the table, in the order of the contract."""
    window = contract_window(snapshot)
    if window is None:
        return []
    return [view for group in window.groups for view in _group(group, truth)]


def _group(group: GroupTable, truth: Truth) -> Iterator[SliceView]:
    for row in group.rows:
        known = None
        if group.labelled is not None and row.rates:
            known = truth.tpr(row.slice, group.labelled.start, group.labelled.end)
        yield SliceView(group.group_by, row, known)


class Moment(NamedTuple):
    """A moment of the demo: seconds since its start, and simulated microseconds."""

    seconds: float
    simulated: int


@dataclass(slots=True)
class FirstShown:
    """Moments of first sight, of slices and incidents. One thread looks, others may read.

    Attributes:
        first: slices as suspected, in any metric.
        incidents: incidents as shown, by id.
    """

    first: dict[str, Moment] = field(default_factory=dict)
    incidents: dict[int, Moment] = field(default_factory=dict)

    def look(
        self, views: Sequence[SliceView], moment: Moment, incidents: Sequence[ShownIncident] = ()
    ) -> None:
        """Take note of what is shown now."""
        suspected = {view.row.slice: moment for view in views if view.suspected}
        # Replaced as wholes, for the threads that read.
        self.first = suspected | self.first
        self.incidents = {incident.id: moment for incident in incidents} | self.incidents

    @property
    def regressed(self) -> Moment | None:
        """When the slice that really regressed was first suspected; None before."""
        return self.first.get(REGRESSED_SLICE)

    @property
    def others(self) -> list[str]:
        """Slices that were suspected and should not have been."""
        return sorted(self.first.keys() - {REGRESSED_SLICE})


@dataclass(frozen=True, slots=True)
class CommittedTotals:
    """Committed totals over all shards; both balances are 0, or something is wrong.

    Attributes:
        messages: read.
        events: decoded or refused.
        counted: decisions and labels that count.
        duplicates: recognised and dropped.
        waiting: labels whose decision is not there yet.
        unmatched: labels for nothing.
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
        """Add up what the store knows."""
        tallies = [status.tallies for status in statuses]
        return cls(
            messages=sum(t.messages for t in tallies),
            events=sum(t.events for t in tallies),
            counted=sum(t.counted for t in tallies),
            duplicates=sum(t.duplicates for t in tallies),
            waiting=sum(t.waiting for t in tallies),
            unmatched=sum(sum(t.unmatched.values()) for t in tallies),
            stale=sum(t.stale for t in tallies),
            thinned=sum(t.thinned for t in tallies),
            dead_letters=_by_reason(tallies),
            message_balance=sum(status.offsets_balance for status in statuses),
            event_balance=sum(t.balance for t in tallies),
        )


def _by_reason(tallies: Sequence[Tallies]) -> dict[str, int]:
    reasons = sorted({reason for one in tallies for reason in one.dead_letters})
    return {reason: sum(t.dead_letters.get(reason, 0) for t in tallies) for reason in reasons}


@dataclass(frozen=True, slots=True)
class DemoView:
    """Everything on the screen at one moment.

    Attributes:
        seconds: since the demo was started.
        simulated: now, microseconds.
        speed: simulated seconds a second, of late.
        regression_at: when the regression begins, microseconds.
        snapshot: the newest; None at first.
        slices: its lines.
        watch: what was suspected so far.
        consumed: committed totals.
        per_second: events consumed lately.
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
        """The unresolved incidents."""
        return incidents_of(self.snapshot) if self.snapshot else ()

    @property
    def paged(self) -> Moment | None:
        """When the slice that really regressed was first paged; None before."""
        first = self.watch.incidents
        mine = [first[one.id] for one in self.incidents if one.slice == REGRESSED_SLICE]
        return min(mine, default=None)


def document(view: DemoView, produced: Produced, seed: int) -> dict[str, Any]:
    """The document; numbers of slices are those of the Snapshot, with the generator's truth."""
    watch = view.watch
    return {
        "note": SYNTHETIC,
        "seed": seed,
        "seconds": round(view.seconds, 1),
        "one_simulated_day_seconds": round(DAY / SECOND / view.speed, 1),
        "simulated_time": _moment(view.simulated),
        "regression": {
            "slice": REGRESSED_SLICE,
            "began": _moment(view.regression_at),
            "suspected_at": None if watch.regressed is None else _moment(watch.regressed.simulated),
            "paged_at": None if view.paged is None else _moment(view.paged.simulated),
        },
        "seconds_until_suspected": _seconds(watch.regressed),
        "suspected": {text: _seconds(first) for text, first in sorted(watch.first.items())},
        "suspected_wrongly": watch.others,
        "seconds_until_paged": _seconds(view.paged),
        "incidents": [msgspec.to_builtins(one) for one in view.incidents],
        "window": _window_document(view),
        "slices": [_slice_document(one) for one in view.slices],
        "produced": asdict(produced),
        "consumed": asdict(view.consumed),
        # Both equations hold: each offset is a message or a gap, each event ended.
        "conserved": view.consumed.message_balance == 0 == view.consumed.event_balance,
        "complete": view.consumed.messages == produced.messages,
        "url": view.url,
    }


def _window_document(view: DemoView) -> dict[str, Any] | None:
    window = contract_window(view.snapshot) if view.snapshot else None
    if window is None or window.labelled is None:
        return None
    return {
        "name": window.window,
        "labelled_from": _moment(window.labelled.start),
        "labelled_to": _moment(window.labelled.end),
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


def _moment(micros: int) -> str:
    return to_datetime(micros).isoformat()
