"""Shown incidents: their slice and numbers where a published table shows them, else withheld.

An incident waits for no table: it is reported with the cohort that crosses. Its slice and numbers
are those of the newest published table, or withheld.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypedDict

from monitor.core.contract import COMPLEMENT, Contract
from monitor.core.counts.cells import parse_atom
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Annotation, Behind
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
from monitor.detection.pages.streams import Stream, StreamKind, pages, severity_of

_STAGE_OF = {Metric.TPR: Metric.TPR}
# Other metrics but PRECISION show the stage of selection, which every decision passes.


class _Versions(TypedDict, total=False):
    """Keyword arguments of ShownIncident about a change of versions."""

    versions_changed_at: int
    versions_changed: tuple[ComponentChange, ...]


@dataclass(frozen=True, slots=True)
class IncidentView:
    """Incident with its standing and streams, as the builder of shown incidents needs it.

    Attributes:
        incident: the incident.
        standing: its standing now.
        streams: streams that crossed, or are on the weekly list.
        contract: says which limits page.
    """

    incident: Incident
    standing: Standing
    streams: Sequence[Stream]
    contract: Contract

    @property
    def leading(self) -> Sequence[Stream]:
        """Return the streams whose limits page, if any: they tell what woke somebody."""
        return [stream for stream in self.streams if pages(stream, self.contract)] or self.streams

    @property
    def kind(self) -> StreamKind:
        """Return GAP when any leading stream compares slices (by gap or ratio), else LEVEL."""
        return (
            StreamKind.GAP if any(stream.compares for stream in self.leading) else StreamKind.LEVEL
        )

    @property
    def deciding(self) -> Stream | None:
        """Return the first leading stream of the incident's kind, if possible of its slice."""
        slice_key = (self.incident.group_by, self.incident.slice)
        compares = self.kind is StreamKind.GAP
        crossed = [stream for stream in self.leading if stream.compares is compares]
        own_streams = [stream for stream in crossed if (stream.group_by, stream.slice) == slice_key]
        return next(iter((*own_streams, *crossed)), None)

    @property
    def slices(self) -> Collection[tuple[str, str]]:
        """Return (group-by, slice) of every slice or named reference that is worse off."""
        slices = {(stream.group_by, stream.worse_off) for stream in self.streams}
        return {(group_by, text) for group_by, text in slices if text != COMPLEMENT}


@dataclass(frozen=True, slots=True)
class TableContext:
    """Inputs of shown incidents that the published table lacks: limits, sampling, times.

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
class _PublishedRow:
    """Published row of a slice or of the total, with its table, group-by and position."""

    table: GroupTable | WindowTable
    group_by: str
    row: SliceRow
    position: int

    @classmethod
    def rows_of(cls, window: WindowTable) -> Iterator[Self]:
        """Yield the total and every slice of a window as published rows."""
        yield cls(window, "", window.total, 0)
        for group in window.groups:
            for position, row in enumerate(group.rows):
                yield cls(group, group.group_by, row, position)


@dataclass(frozen=True, slots=True)
class ShownIncidents:
    """Builder of one contract's shown incidents, by what the published table shows.

    Attributes:
        table: the contract as published.
        context: inputs that the table does not hold.
    """

    table: ContractTable
    context: TableContext
    _rows: dict[tuple[str, str], _PublishedRow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for window in self.table.windows:
            if window.window == self.table.window:
                for published in _PublishedRow.rows_of(window):
                    self._rows[published.group_by, published.row.slice] = published

    def shown(self, views: Iterable[IncidentView]) -> tuple[ShownIncident, ...]:
        """Return the incidents of views as they may be shown, sorted by id."""
        ordered = sorted(views, key=lambda view: view.incident.id)
        return tuple(self._shown(view) for view in ordered)

    def value(self, view: IncidentView) -> PublishedValue | None:
        """Return the published value of an incident's slice now; None where it is withheld."""
        published = self._row_of(view.incident)
        if published is None:
            return None
        row, metric = published.row, view.incident.metric
        estimate: ShownGap | ShownRate | None
        estimate = _gap(published, metric) if view.kind is StreamKind.GAP else row.rates.get(metric)
        period = published.table.labelled if metric.labelled else published.table.decisions
        if estimate is None or period is None:
            return None
        return PublishedValue(estimate.value, estimate.lower, estimate.upper, period.end)

    def _shown(self, view: IncidentView) -> ShownIncident:
        """Return an incident as its table may show it; withheld unless a row of it is published."""
        view = self._by_named_slice(view)
        incident, standing = view.incident, view.standing
        withheld = ShownIncident(
            incident.id,
            incident.kind,
            severity_of(incident.kind, view.streams, view.contract),
            incident.metric,
            incident.opened_at,
            group_by="",
            slice=WITHHELD,
            acknowledged=standing.state is Stand.ACKNOWLEDGED,
            accepted_until=standing.until if standing.state is Stand.ACCEPTED else None,
            settings_changed_at=incident.settings_changed_at,
            sampling=self.context.sampling,
            snapshot=incident.snapshot or 0,
        )
        published = self._row_of(incident)
        if published is None:
            return withheld
        return replace(
            withheld,
            group_by=published.group_by,
            slice=published.row.slice,
            share=incident.share,
            inherited=self._inherited(view),
            further=self._further(incident),
            first=incident.first,
            latest=self.value(view),
            began=None if incident.began is None else incident.began - incident.began % DAY,
            stage=_stage(published.row, incident.metric),
            **self._versions(published, incident),
            resolvable_at=self._resolvable_at(view, published),
            behind=_behind(view, _gap(published, incident.metric)),
            limit=_limit(view),
        )

    def _by_named_slice(self, view: IncidentView) -> IncidentView:
        """Return the view under the first of its slices that may be named, if that is another."""
        incident = view.incident
        named = [text for text in incident.slices if self._named_row(_place(text))]
        if not named or named[0] == incident.slice:
            return view
        hidden = tuple(text for text in incident.slices if text != named[0])
        of_main = {"share": None, "first": None, "began": None, "versions_changed_at": None}
        shown = replace(incident, slice=named[0], group_by=_place(named[0])[0], further=hidden)
        return replace(view, incident=replace(shown, **of_main))  # type: ignore[arg-type]

    def _further(self, incident: Incident) -> tuple[str, ...]:
        """Return the further slices of an incident; ``withheld`` stands for hidden ones."""
        hidden = {text for text in incident.further if not self._named_row(_place(text))}
        return (*sorted({*incident.further} - hidden), *([WITHHELD] if hidden else []))

    def _versions(self, published: _PublishedRow, incident: Incident) -> _Versions:
        """Return the fields about an incident's change of versions; empty if none is shown.

        A row shows its last change only. If that came later than the incident's, or is not
        published yet, no field is set: an empty one would say that no version changed.
        """
        row, changed_at = published.row, incident.versions_changed_at
        if changed_at is None:
            return {}
        changes = [note for note in row.noted if note.annotation is Annotation.VERSION_CHANGE]
        if not changes or self.context.changed_at(published.group_by, row.slice) != changed_at:
            return {}
        return {"versions_changed_at": changes[0].latest, "versions_changed": row.versions_changed}

    def _row_of(self, incident: Incident) -> _PublishedRow | None:
        """Return the published row of the incident's slice; None if it may not be named."""
        if incident.group_by is None or incident.slice is None:
            return None
        return self._named_row((incident.group_by, incident.slice))

    def _named_row(self, slice_key: tuple[str, str]) -> _PublishedRow | None:
        return self._rows.get(slice_key) if self.context.named(slice_key[1]) else None

    def _inherited(self, view: IncidentView) -> tuple[str, ...]:
        explained = {_place(text) for text in view.incident.slices}
        inherited = (slice_key for slice_key in view.slices if slice_key not in explained)
        return tuple(sorted(slice_key[1] for slice_key in inherited if self._named_row(slice_key)))

    def _resolvable_at(self, view: IncidentView, published: _PublishedRow) -> int | None:
        """Estimate the first day (microseconds) on which an incident can resolve, or None."""
        group = published.table
        metric, contract = view.incident.metric, self.context.contract
        frontier = self.context.frontier
        limit = contract.limits_of(published.group_by, published.row.slice).max_gap(metric)
        if (
            view.kind is not StreamKind.GAP
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
        days = days_to_resolve(arms, limit, contract.limits.min_support(metric))[published.position]
        if days is None:
            return None
        resolved_at = self.context.now + days * DAY + max(self.context.now - frontier, 0)
        return -(-resolved_at // DAY) * DAY


def _place(text: str) -> tuple[str, str]:
    """Return (group-by, slice) of a slice."""
    return "+".join(parse_atom(text)), text


def _gap(published: _PublishedRow, metric: Metric) -> ShownGap | None:
    if isinstance(published.table, GroupTable):
        return gap_of(published.table, published.row, metric)
    return published.row.gaps.get(metric)


def _limit(view: IncidentView) -> ShownLimit | None:
    """Return the kind and value of the limit that the deciding stream broke, or None."""
    stream = view.deciding
    return None if stream is None else ShownLimit(stream.limit_kind, float(stream.limit))


def _behind(view: IncidentView, gap: ShownGap | None) -> Behind | None:
    """Return the side that is worse off, by the slice's own crossings, else its gap; or None."""
    if view.kind is StreamKind.LEVEL:
        return Behind.LEVEL
    group_by, name = view.incident.group_by, view.incident.slice
    crossed = {
        Behind.SLICE if stream.worse_off == name else Behind.REFERENCE
        for stream in view.streams
        if stream.compares
        and stream.group_by == group_by
        and name in (stream.slice, stream.reference)
    }
    if len(crossed) == 1:
        return crossed.pop()
    side = worse_off(Behind.SLICE, Behind.REFERENCE, gap.value if gap else None)
    return Behind(side) if side else None


def _stage(row: SliceRow, metric: Metric) -> ShownStage | None:
    """Return the diverging stage that a row shows: TPR's own, else selection's; precision has none.

    Who is served does not say where unready replies pass.
    """
    if metric is Metric.PRECISION:
        return None
    return row.stages.get(_STAGE_OF.get(metric, Metric.SELECTION))
