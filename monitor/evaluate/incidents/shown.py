"""Shown incidents: everything of a slice that is shown, and nothing of a slice that is not.

An incident itself waits for no table: it is reported with the cohort that crosses. Its
slice and its numbers are those of the page of that moment, or withheld.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypedDict

from monitor.core.contract import COMPLEMENT, Contract, Metric
from monitor.core.publish.annotations import Annotation, Behind, severity_of
from monitor.core.publish.incidents import Incident, Stand, Standing
from monitor.core.publish.sides import gap_of
from monitor.core.publish.snapshot import (
    WITHHELD,
    ComponentChange,
    ContractTable,
    GroupTable,
    PublishedValue,
    ShownGap,
    ShownIncident,
    ShownLimit,
    ShownRate,
    ShownStage,
    SliceRow,
    WindowTable,
)
from monitor.core.rates.gap_words import worse_off
from monitor.core.time import DAY
from monitor.detection.label_power import arms_of
from monitor.detection.pages.recovery import days_to_resolve
from monitor.detection.pages.streams import Stream, StreamKind

_STAGE_OF = {Metric.TPR: Metric.TPR}  # of the others that of selection, which all go through


class _Versions(TypedDict, total=False):
    """Fields of a shown incident about its versions."""

    versions_changed_at: int
    versions_changed: tuple[ComponentChange, ...]


@dataclass(frozen=True, slots=True)
class IncidentView:
    """An incident, with what is known of it apart from the pages.

    Attributes:
        incident: as it is kept.
        how: its standing.
        streams: that crossed, or are on the weekly list.
    """

    incident: Incident
    how: Standing
    streams: Sequence[Stream]

    @property
    def kind(self) -> StreamKind:
        """A gap (a ratio is one of two sides too), unless nothing but a level is broken."""
        return StreamKind.GAP if any(one.compares for one in self.streams) else StreamKind.LEVEL

    @property
    def deciding(self) -> Stream | None:
        """The stream of its kind that crossed first, of the slice itself if one did."""
        where, compares = (self.incident.group_by, self.incident.slice), self.kind is StreamKind.GAP
        crossed = [stream for stream in self.streams if stream.compares is compares]
        own = [stream for stream in crossed if (stream.group_by, stream.slice) == where]
        return next(iter((*own, *crossed)), None)

    @property
    def slices(self) -> Collection[tuple[str, str]]:
        """Group-by and slice of all slices, and named references, that are worse off."""
        worse = {(one.group_by, one.worse_off) for one in self.streams}
        return {(group_by, text) for group_by, text in worse if text != COMPLEMENT}


@dataclass(frozen=True, slots=True)
class TableContext:
    """Context of a contract's pages, apart from the numbers.

    Attributes:
        contract: limits.
        sampling: how labels were sampled, in words.
        now: event time that decisions are complete to (microseconds).
        frontier: event time that labels are mature to; None before the first.
        changed_at: when other versions last began to answer a slice (group-by, slice).
        named: whether a published table shows the row of a slice, whatever the window shows now.
    """

    contract: Contract
    sampling: str
    now: int
    frontier: int | None
    changed_at: Callable[[str, str], int | None]
    named: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _IncidentContext:
    """A row of the pages: of a group-by, or the total."""

    table: GroupTable | WindowTable
    group_by: str
    row: SliceRow
    at: int

    @classmethod
    def all_of(cls, window: WindowTable) -> Iterator[Self]:
        """Every row of a window."""
        yield cls(window, "", window.total, 0)
        for group in window.groups:
            for at, row in enumerate(group.rows):
                yield cls(group, group.group_by, row, at)


@dataclass(frozen=True, slots=True)
class ShownIncidents:
    """Shows the incidents of one contract.

    Attributes:
        table: of the contract, as published.
        beside: its context.
    """

    table: ContractTable
    beside: TableContext
    _places: dict[tuple[str, str], _IncidentContext] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for window in self.table.windows:
            if window.window == self.table.window:
                for place in _IncidentContext.all_of(window):
                    self._places[place.group_by, place.row.slice] = place

    def shown(self, known: Iterable[IncidentView]) -> tuple[ShownIncident, ...]:
        """The open incidents as they may be shown, by id."""
        ordered = sorted(known, key=lambda one: one.incident.id)
        return tuple(self._shown(one) for one in ordered)

    def value(self, known: IncidentView) -> PublishedValue | None:
        """Published value of an incident's slice now; None where that is withheld."""
        place = self._place(known.incident)
        if place is None:
            return None
        row, metric = place.row, known.incident.metric
        shown: ShownGap | ShownRate | None
        shown = _gap(place, metric) if known.kind is StreamKind.GAP else row.rates.get(metric)
        period = place.table.labelled if metric.labelled else place.table.decisions
        if shown is None or period is None:
            return None
        return PublishedValue(shown.value, shown.lower, shown.upper, period.end)

    def _shown(self, known: IncidentView) -> ShownIncident:
        incident, how = known.incident, known.how
        told = ShownIncident(
            incident.id,
            incident.kind,
            severity_of(incident.kind, self.beside.contract.role(incident.metric)),
            incident.metric,
            incident.opened_at,
            group_by="",
            slice=WITHHELD,
            acknowledged=how.state is Stand.ACKNOWLEDGED,
            accepted_until=how.until if how.state is Stand.ACCEPTED else None,
            settings_changed_at=incident.settings_changed_at,
            sampling=self.beside.sampling,
            snapshot=incident.snapshot or 0,
        )
        place = self._place(incident)
        if place is None:
            return told
        return replace(
            told,
            group_by=place.group_by,
            slice=place.row.slice,
            share=incident.share,
            inherited=self._inherited(known),
            first=incident.first,
            latest=self.value(known),
            stage=_stage(place.row, incident.metric),
            **self._versions(place, incident),
            resolvable_at=self._resolvable_at(known, place),
            behind=_behind(known, _gap(place, incident.metric)),
            limit=_limit(known),
        )

    def _versions(self, place: _IncidentContext, incident: Incident) -> _Versions:
        """What is told of the versions that changed before it.

        A row tells of the last change only: where that is a later one, or is not published yet,
        nothing is told, not even that none changed.
        """
        row, at = place.row, incident.versions_changed_at
        if at is None:
            return {}
        noted = [one for one in row.noted if one.annotation is Annotation.VERSION_CHANGE]
        if not noted or self.beside.changed_at(place.group_by, row.slice) != at:
            return {}
        return {
            "versions_changed_at": noted[0].latest,
            "versions_changed": row.versions_changed,
        }

    def _place(self, incident: Incident) -> _IncidentContext | None:
        """The row of the incident's slice, where that may be named."""
        if incident.group_by is None or incident.slice is None:
            return None
        return self._named_place((incident.group_by, incident.slice))

    def _named_place(self, where: tuple[str, str]) -> _IncidentContext | None:
        return self._places.get(where) if self.beside.named(where[1]) else None

    def _inherited(self, known: IncidentView) -> tuple[str, ...]:
        cause = (known.incident.group_by, known.incident.slice)
        others = (where for where in known.slices if where != cause)
        return tuple(sorted(where[1] for where in others if self._named_place(where)))

    def _resolvable_at(self, known: IncidentView, place: _IncidentContext) -> int | None:
        """In whole days: the repair, as many days of labels as are needed, and their delay."""
        group = place.table
        metric, contract = known.incident.metric, self.beside.contract
        frontier = self.beside.frontier
        limit = contract.limits_of(place.group_by, place.row.slice).max_gap(metric)
        if (
            known.kind is not StreamKind.GAP
            or not metric.labelled
            or metric is Metric.PRECISION  # its shown support is only what is proven
            or limit is None
            or frontier is None
        ):
            return None
        if not isinstance(group, GroupTable):
            return None
        reference = next(g.reference for g in contract.group_bys if g.name == group.group_by)
        arms = arms_of(metric, group, reference)
        days = days_to_resolve(arms, limit, contract.limits.min_support(metric))[place.at]
        if days is None:
            return None
        done = self.beside.now + days * DAY + max(self.beside.now - frontier, 0)
        return -(-done // DAY) * DAY


def _gap(place: _IncidentContext, metric: Metric) -> ShownGap | None:
    if isinstance(place.table, GroupTable):
        return gap_of(place.table, place.row, metric)
    return place.row.gaps.get(metric)


def _limit(known: IncidentView) -> ShownLimit | None:
    """Return the limit that its first crossing broke, whichever slice declares it."""
    stream = known.deciding
    return None if stream is None else ShownLimit(stream.limit_kind, float(stream.limit))


def _behind(known: IncidentView, gap: ShownGap | None) -> Behind | None:
    """Return the side that is worse off, by the slice's own crossings, and else by its gap."""
    if known.kind is StreamKind.LEVEL:
        return Behind.LEVEL
    group_by, name = known.incident.group_by, known.incident.slice
    crossed = {
        Behind.SLICE if stream.worse_off == name else Behind.REFERENCE
        for stream in known.streams
        if stream.compares
        and stream.group_by == group_by
        and name in (stream.slice, stream.reference)
    }
    if len(crossed) == 1:
        return crossed.pop()
    side = worse_off(Behind.SLICE, Behind.REFERENCE, gap.value if gap else None)
    return Behind(side) if side else None


def _stage(row: SliceRow, metric: Metric) -> ShownStage | None:
    """Stage of the metric itself, or of selection, which every decision goes through.

    None of a precision: who is served does not say where replies that are not ready pass.
    """
    if metric is Metric.PRECISION:
        return None
    return row.stages.get(_STAGE_OF.get(metric, Metric.SELECTION))
