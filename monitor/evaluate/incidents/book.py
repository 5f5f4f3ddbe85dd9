"""Incidents between cycles: which crossings belong to which cause, and which incidents are over.

A crossing joins the incident of its cause, or opens one; it never moves to another. It also joins
an incident whose slice shares a value with its cause, if both became worse at the same time: one
fault in several slices is one incident, which names all of them. The slices that an incident names
may be refined once a day while it is open. An incident ends with its last crossing, or when people
close it. Closing ends its crossings too; new evidence may open another.

A cause is found in the cohorts up to the crossing, however many more are consumed in the same
step. So incidents do not depend on restarts, nor on how fast the evaluator catches up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import Self

from monitor.core.metric import Metric
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.incidents import Incident, Stand, Standing, standing
from monitor.core.time import DAY, HOUR
from monitor.detection.diagnosis.explain import BreachCause, share_value
from monitor.detection.pages.streams import Stream
from monitor.store.evaluator.stored_detection import Crossing
from monitor.store.evaluator.stored_incidents import Acts, IncidentChange, StoredIncidents

log = logging.getLogger("slicewatch.evaluate")

JUST_BEFORE = 2 * DAY
"""Changes of versions and settings this long before a breach began are reported with it."""

Explain = Callable[[Collection[Stream], int, int], Sequence[BreachCause]]
"""Finds the causes of crossings of one contract and metric. Its arguments: the streams that
crossed, the time of the first crossing, and the end of the newest cohort (microseconds)."""

Together = Callable[[tuple[str, str], Stream, int], bool]
"""Returns True if two slices became worse at one time. Its arguments: the slices, a stream of their
contract and metric, and the end of the newest cohort (microseconds)."""


_Subject = tuple[str, Metric]


@dataclass(frozen=True, slots=True)
class IncidentStep:
    """Outcome of one detection step, from which the book opens, changes and ends incidents.

    Attributes:
        opened: new crossings, in their order.
        resolved: time when each resolved crossing ended, by id.
        listed: the weekly list before the first cohort; None unless a week has ended.
        repaired: keys of streams whose breach was resolved in the week of that list.
        begin: start of the first cohort (microseconds).
        new_day: whether a UTC day of cohorts ended before the first cohort.
        labels: True for metrics that need labels, False for the others, None for all.
    """

    opened: Sequence[Crossing]
    resolved: Mapping[int, int]
    listed: tuple[Stream, ...] | None
    repaired: Collection[str]
    begin: int
    new_day: bool
    labels: bool | None = None

    def concerns(self, metric: Metric) -> bool:
        """Return True when the cohorts of this step can move the metric."""
        return self.labels is None or metric.labelled is self.labels


@dataclass(frozen=True, slots=True)
class RowExtras:
    """Context for new incidents: finder of causes, changes of versions and settings, time.

    Attributes:
        explain: finds causes.
        together: compares when two slices became worse.
        versions_changed_at: when other versions began to answer a slice (contract, group-by,
            slice); None if never.
        settings_changed_at: when settings changed, unordered.
        now: wall clock.
    """

    explain: Explain
    together: Together
    versions_changed_at: Callable[[str, str, str], int | None]
    settings_changed_at: Sequence[int]
    now: int


@dataclass(slots=True)
class IncidentBook:
    """Open incidents, their crossings and acts of people; equal to the stored state.

    Attributes:
        standing: open incidents by id.
        next_id: id of the next incident.
        acts: decisions of people on incidents.
        crossings: unresolved crossings by id.
    """

    standing: dict[int, Incident] = field(default_factory=dict)
    next_id: int = 1
    acts: Acts = field(default_factory=dict)
    crossings: dict[int, Crossing] = field(default_factory=dict)

    @classmethod
    def load(cls, stored: StoredIncidents, acts: Acts, crossings: Iterable[Crossing]) -> Self:
        """Return the book of stored open incidents, acts and unresolved crossings."""
        by_id = {incident.id: incident for incident in stored.standing}
        by_number = {crossing.id: crossing for crossing in crossings}
        return cls(by_id, stored.next_id, acts, by_number)

    def set_acts(self, acts: Acts) -> None:
        """Replace the acts of people on incidents."""
        self.acts = acts

    def standing_of(self, incident: Incident, now: int) -> Standing:
        """Return the Standing of an incident, given the acts on it, at a wall clock."""
        return standing(incident, self.acts.get(incident.id, ()), now)

    def streams(self, incident: Incident) -> list[Stream]:
        """Return the streams of an incident's unresolved crossings; of a ticket, all its streams.

        The weekly list adds no stream to a page here: a list never pages.
        """
        crossed = [
            self.crossings[number].stream
            for number in incident.crossings
            if number in self.crossings
        ]
        keys = incident.streams if incident.kind is IncidentKind.LISTED else crossed
        return [Stream.parse(key) for key in keys if key]

    def close(self, until: Callable[[Metric], int], now: int) -> tuple[IncidentChange, set[int]]:
        """End the incidents that people closed; return the changes and ids of crossings.

        Args:
            until: returns the end of a metric's newest cohort: its incidents are resolved then.
            now: wall clock.

        Returns:
            The changed incidents, and the ids of the crossings that end with them.
        """
        ended = [
            incident for incident in self.standing.values() if self.standing_of(incident, now).over
        ]
        crossing_ids = {number for incident in ended for number in incident.crossings}
        crossing_ids &= self.crossings.keys()
        for number in crossing_ids:
            del self.crossings[number]
        return IncidentChange(
            changed=[self.end(incident, until(incident.metric)) for incident in ended]
        ), crossing_ids

    def follow(self, step: IncidentStep, extras: RowExtras) -> IncidentChange:
        """Open, extend, rename and end incidents after a detection step; return the changes."""
        draft = _Draft(self, step, extras)
        draft.end()
        if step.new_day:
            draft.refine()
            draft.learn_versions()
        crossed = [*self._orphans(step), *step.opened]
        first_hour = [crossing for crossing in crossed if crossing.crossed_at <= step.begin + HOUR]
        draft.open(first_hour)  # before the list, which would open tickets for one hour
        if step.listed is not None:
            draft.ticket(step.listed)
        draft.open(crossed[len(first_hour) :])
        draft.leave_to_pages()
        self.next_id += len(draft.opened)
        return IncidentChange(
            opened=list(draft.opened.values()),
            changed=[draft.changed[number] for number in sorted(draft.changed)],
        )

    def put(self, incident: Incident) -> None:
        """Keep an open incident in memory in place of its former version."""
        self.standing[incident.id] = incident

    def _orphans(self, step: IncidentStep) -> list[Crossing]:
        """Return unresolved crossings of the step's metrics without an incident, oldest first."""
        assigned = {number for incident in self.standing.values() for number in incident.crossings}
        orphans = (
            crossing
            for number, crossing in self.crossings.items()
            if number not in assigned and step.concerns(Stream.parse(crossing.stream).metric)
        )
        return sorted(orphans, key=lambda crossing: crossing.crossed_at)

    def end(self, incident: Incident, at: int) -> Incident:
        """Remove an open incident; return it as resolved at an instant, not before it opened."""
        del self.standing[incident.id]
        return replace(incident, resolved_at=max(at, incident.opened_at))


@dataclass(slots=True)
class _Draft:
    """Changes that one step makes to the book: opened and changed incidents by id."""

    book: IncidentBook
    step: IncidentStep
    extras: RowExtras
    opened: dict[int, Incident] = field(default_factory=dict)
    changed: dict[int, Incident] = field(default_factory=dict)

    def end(self) -> None:
        """End the pages whose last crossing is resolved; their listed streams become tickets."""
        for number in self.step.resolved:
            self.book.crossings.pop(number, None)
        left: list[str] = []
        for incident in self._open_incidents(IncidentKind.BREACH):
            if not any(number in self.book.crossings for number in incident.crossings):
                at = max(
                    (self.step.resolved.get(number, 0) for number in incident.crossings), default=0
                )
                self._end(incident, at or self.step.begin)
                left += incident.streams
        self._open_tickets([Stream.parse(key) for key in left])

    def open(self, crossed: Iterable[Crossing]) -> None:
        """Assign crossings to the open incidents of their causes, or to new ones, in order."""
        for at, at_once in groupby(crossed, lambda crossing: crossing.crossed_at):
            self._open_at(at, list(at_once))

    def _open_at(self, at: int, crossed: Sequence[Crossing]) -> None:
        self.book.crossings |= {crossing.id: crossing for crossing in crossed}
        ids_by_stream = {crossing.stream: crossing.id for crossing in crossed}
        for subject in sorted({_subject(Stream.parse(crossing.stream)) for crossing in crossed}):
            for cause in self._causes(subject, at):
                keys = [stream.key for stream in cause.streams]
                ids = [ids_by_stream[key] for key in keys if key in ids_by_stream]
                if not ids:
                    continue
                incident = self._incident_of(cause) or self._of_one_fault(
                    IncidentKind.BREACH, cause, at
                )
                if incident is None:
                    begun = (self.book.crossings[number].began for number in ids)
                    self._open_incident(
                        IncidentKind.BREACH,
                        cause,
                        at,
                        began=min((began for began in begun if began is not None), default=None),
                        crossings=tuple(sorted(ids)),
                    )
                else:
                    crossings = tuple(sorted({*incident.crossings, *ids}))
                    self._change(replace(incident, crossings=crossings))

    def refine(self) -> None:
        """Rename open incidents to the slices that their causes point to now.

        Several causes of one incident are all named.
        """
        open_incidents = self._open_incidents(IncidentKind.BREACH)
        subjects = {_subject(page) for page in open_incidents if self.step.concerns(page.metric)}
        causes: dict[int, list[BreachCause]] = {}
        for subject in sorted(subjects):
            for cause in self._causes(subject, self.step.begin):
                if (incident := self._incident_of(cause)) is not None:
                    causes.setdefault(incident.id, []).append(cause)
        for number, own_causes in causes.items():
            self._rename(self.book.standing[number], own_causes)

    def learn_versions(self) -> None:
        """Set the time of the last version change on open incidents that lack one."""
        for incident in self._open_incidents(IncidentKind.BREACH):
            if (
                incident.versions_changed_at is None
                and incident.group_by is not None
                and incident.slice
            ):
                changed_at = self._versions(
                    *(incident.contract, incident.group_by, incident.slice),
                    *(incident.began, incident.opened_at),
                )
                self._change(replace(incident, versions_changed_at=changed_at))

    def _versions(
        self, contract: str, group_by: str, text: str, began: int | None, at: int
    ) -> int | None:
        changed_at = self.extras.versions_changed_at(contract, group_by, text)
        return _last_change_before([changed_at], began, at)

    def ticket(self, listed: Collection[Stream]) -> None:
        """Open tickets for listed streams that nothing reports; drop the streams off the list."""
        reported = {crossing.stream for crossing in self.book.crossings.values()}
        reported |= set(self.step.repaired)
        unreported = {stream.key: stream for stream in listed if stream.key not in reported}
        taken: set[str] = set()
        for incident in [*self.book.standing.values()]:
            kept = unreported.keys() & set(incident.streams)
            taken |= kept
            if incident.streams:
                self._set_streams(incident, kept, self.step.begin)
        self._open_tickets([stream for key, stream in unreported.items() if key not in taken])

    def _open_tickets(self, streams: Collection[Stream]) -> None:
        """Open a ticket for each cause of listed streams, unless something reports it."""
        begin = self.step.begin
        for subject in sorted(set(map(_subject, streams))):
            own_streams = [stream for stream in streams if _subject(stream) == subject]
            for cause in self.extras.explain(own_streams, begin, begin):
                if not self._is_reported(cause):
                    keys = tuple(sorted(stream.key for stream in cause.streams))
                    self._open_incident(IncidentKind.LISTED, cause, begin, streams=keys)

    def leave_to_pages(self) -> None:
        """Remove streams that pages report from tickets; end tickets that become empty.

        This is the last step, because a page may name the slice of a ticket when it is opened or
        renamed. A page that takes the place of a ticket names all its slices.
        """
        crossed_at = {
            crossing.stream: crossing.crossed_at for crossing in self.book.crossings.values()
        }
        for incident in self._open_incidents(IncidentKind.BREACH):
            self._set_streams(incident, set(incident.streams) - crossed_at.keys(), self.step.begin)
        for ticket in self._open_incidents(IncidentKind.LISTED):
            page = self._page_of(ticket)
            left = set(ticket.streams) - crossed_at.keys()
            if page is not None and not {*ticket.slices} <= {*page.slices}:
                streams = tuple(sorted({*page.streams, *left}))
                self._change(replace(_with_slices(page, ticket.slices), streams=streams))
            times = [crossed_at[key] for key in ticket.streams if key in crossed_at]
            times += [page.opened_at] if page else []
            self._set_streams(ticket, set() if page else left, max([self.step.begin, *times]))

    def _page_of(self, ticket: Incident) -> Incident | None:
        """Return the page that names a slice of a ticket, or a new page of its fault, or None."""
        pages = self._open_incidents(IncidentKind.BREACH, _subject(ticket))
        stream = Stream.parse(ticket.streams[0])
        for page in pages:
            is_new = page.id in self.opened
            if not {*page.slices}.isdisjoint(ticket.slices) or (
                is_new and self._are_of_one_fault(page, ticket.slices[:1], stream, page.opened_at)
            ):
                return page
        return None

    def _causes(self, subject: _Subject, until: int) -> Sequence[BreachCause]:
        """Return the causes of what pages report of one metric; none without crossings."""
        times = {
            Stream.parse(crossing.stream): crossing.crossed_at
            for crossing in self.book.crossings.values()
        }
        crossed = {stream: at for stream, at in times.items() if _subject(stream) == subject}
        if not crossed:
            return ()
        pages = self._open_incidents(IncidentKind.BREACH, subject)
        listed = [Stream.parse(key) for page in pages for key in page.streams]
        return self.extras.explain([*crossed, *listed], min(crossed.values()), until)

    def _incident_of(self, cause: BreachCause) -> Incident | None:
        """Return the page that names the cause's slice or shares most of its crossings, or None."""
        keys = {stream.key for stream in cause.streams}
        pages: dict[tuple[bool, int, int], Incident] = {}
        for page in self._open_incidents(IncidentKind.BREACH, _subject(cause.streams[0])):
            own_keys = {*page.streams, *(stream.key for stream in self.book.streams(page))}
            named, shared = cause.slice in page.slices, len(keys & own_keys)
            if named or shared:
                pages[named, shared, -page.id] = page
        return pages[max(pages)] if pages else None

    def _of_one_fault(self, kind: IncidentKind, cause: BreachCause, until: int) -> Incident | None:
        """Return an open incident of a cause's fault, naming its slice as well, or None."""
        stream, slices = cause.streams[0], (cause.slice,)
        for incident in self._open_incidents(kind, _subject(stream)):
            if self._are_of_one_fault(incident, slices, stream, until):
                return _with_slices(incident, slices)
        return None

    def _are_of_one_fault(
        self, incident: Incident, slices: Iterable[str], stream: Stream, until: int
    ) -> bool:
        """Return True if a slice shares a value with one of an incident, and began with it.

        People accepted an incident as it was: nothing joins it.
        """
        accepted = self.book.standing_of(incident, self.extras.now).state is Stand.ACCEPTED
        return not accepted and any(
            share_value(*pair) and self.extras.together(pair, stream, until)
            for pair in product(incident.slices, slices)
        )

    def _is_reported(self, cause: BreachCause) -> bool:
        """Return True if an incident or repair covers a cause; add its streams to the incident.

        A ticket takes the streams that are new to it. Streams of several slices may report one
        harm, each from its own side. A page takes those of another slice that its fault lies in.
        """
        begin, subject = self.step.begin, _subject(cause.streams[0])
        page, ticket = (
            self._open_incident_of_slice(kind, subject, cause.slice)
            for kind in (IncidentKind.BREACH, IncidentKind.LISTED)
        )
        if page is not None or (ticket is None and self._is_repaired(cause)):
            return True
        for kind in (IncidentKind.BREACH, IncidentKind.LISTED):
            ticket = ticket or self._of_one_fault(kind, cause, begin)
        if ticket is not None:
            streams = {*ticket.streams, *(stream.key for stream in cause.streams)}
            self._set_streams(ticket, streams, begin)
        return ticket is not None

    def _is_repaired(self, cause: BreachCause) -> bool:
        repaired = [Stream.parse(key) for key in self.step.repaired if key]
        return (_subject(cause.streams[0]), cause.group_by, cause.slice) in [
            (_subject(stream), stream.group_by, stream.worse_off) for stream in repaired
        ]

    def _open_incident(
        self,
        kind: IncidentKind,
        cause: BreachCause,
        at: int,
        *,
        began: int | None = None,
        crossings: tuple[int, ...] = (),
        streams: tuple[str, ...] = (),
    ) -> None:
        stream = cause.streams[0]
        number = self.book.next_id + len(self.opened)
        incident = Incident(
            id=number,
            kind=kind,
            contract=stream.contract,
            metric=stream.metric,
            opened_at=at,
            opened_wall=self.extras.now,
            group_by=cause.group_by,
            slice=cause.slice,
            share=cause.share,
            began=began,
            versions_changed_at=self._versions(
                *(stream.contract, cause.group_by, cause.slice, began, at)
            ),
            settings_changed_at=_last_change_before(self.extras.settings_changed_at, began, at),
            crossings=crossings,
            streams=streams,
        )
        self.opened[number] = incident
        self.book.put(incident)

    def _rename(self, incident: Incident, causes: Sequence[BreachCause]) -> None:
        """Name the slices of an incident's causes; the main one stays while it is among them."""
        main = max(causes, key=lambda cause: (cause.slice == incident.slice, len(cause.streams)))
        renamed = replace(incident, group_by=main.group_by, slice=main.slice, share=main.share)
        if main.slice != incident.slice:
            renamed = replace(renamed, first=None)  # the value was that of another slice
        self._change(_with_slices(replace(renamed, further=()), [cause.slice for cause in causes]))

    def _change(self, incident: Incident) -> None:
        if incident == self.book.standing[incident.id]:
            return
        self.book.put(incident)
        self._record(incident)

    def _set_streams(self, ticket: Incident, streams: Collection[str], at: int) -> None:
        """Set the listed streams of an incident; end a ticket without any at an instant."""
        if streams or ticket.kind is IncidentKind.BREACH:
            self._change(replace(ticket, streams=tuple(sorted(streams))))
        else:
            self._end(ticket, at)

    def _end(self, incident: Incident, at: int) -> None:
        self._record(self.book.end(incident, at))

    def _record(self, incident: Incident) -> None:
        if incident.id in self.opened:
            self.opened[incident.id] = incident
        else:
            self.changed[incident.id] = incident

    def _open_incident_of_slice(
        self, kind: IncidentKind, subject: _Subject, slice_: str
    ) -> Incident | None:
        open_incidents = self._open_incidents(kind, subject)
        return next((incident for incident in open_incidents if slice_ in incident.slices), None)

    def _open_incidents(
        self, kind: IncidentKind, subject: _Subject | None = None
    ) -> list[Incident]:
        return [
            incident
            for incident in self.book.standing.values()
            if incident.kind is kind and subject in (None, _subject(incident))
        ]


def log_incidents(change: IncidentChange) -> None:
    """Log opened and resolved incidents by id and kind, without slices and numbers."""
    for incident in change.opened:
        log.warning(
            "an incident is open", extra={"incident": incident.id, "kind": incident.kind.value}
        )
    for incident in change.changed:
        if incident.resolved_at is not None:
            log.warning(
                "an incident is over", extra={"incident": incident.id, "kind": incident.kind.value}
            )


def _with_slices(incident: Incident, slices: Iterable[str]) -> Incident:
    """Return the incident naming these slices too."""
    return replace(incident, further=tuple(sorted({*incident.further, *slices} - {incident.slice})))


def _subject(place: Stream | Incident) -> _Subject:
    """Return the contract and metric of a stream or incident."""
    return place.contract, place.metric


def _last_change_before(
    changes: Iterable[int | None], began: int | None, crossed_at: int
) -> int | None:
    """Return the last of these instants from JUST_BEFORE before a breach began to its crossing."""
    since = (crossed_at if began is None else began) - JUST_BEFORE
    near = (at for at in changes if at is not None and since <= at <= crossed_at)
    return max(near, default=None)
