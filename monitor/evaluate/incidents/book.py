"""Incidents between cycles: to which cause a crossing belongs, and which incidents are over.

A crossing joins the incident that has its cause, and else opens one; it stays where it was put.
The slice that is named may be refined, once a day, while an incident is open. An incident ends
with its last crossing, or when people close it: then its crossings end too, and evidence that has
begun anew since then may open another one.

A cause is that of the cohorts until the crossing, however many more are consumed with it: so
incidents are the same after a restart, and however fast one catches up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Self

from monitor.core.contract import Metric
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.incidents import Incident, Standing, standing
from monitor.core.time import DAY
from monitor.detection.diagnosis.explain import BreachCause
from monitor.detection.pages.streams import Stream
from monitor.store.evaluator.stored_detection import Crossing
from monitor.store.evaluator.stored_incidents import Acts, IncidentChange, StoredIncidents

log = logging.getLogger("slicewatch.evaluate")

JUST_BEFORE = 2 * DAY
"""Versions and settings that changed so shortly before a crossing are reported with it."""

Explain = Callable[[Collection[Stream], int, int], Sequence[BreachCause]]
"""The causes of crossings of one contract and metric, the first of which was at some time, by the
cohorts that end until another (microseconds)."""


@dataclass(frozen=True, slots=True)
class IncidentStep:
    """Outcome of one step of the detectors.

    Attributes:
        opened: crossings that were opened in it, in their order.
        resolved: when crossings ended, by id; before the first cohort.
        listed: the weekly list, before the first cohort; None where no week has ended.
        repaired: keys of streams whose breach was resolved in the week of that list.
        begin: start of the first cohort (microseconds).
        new_day: a UTC day of cohorts had ended then.
        labels: of metrics that rest on labels, or of those that do not; None: of all.
    """

    opened: Sequence[Crossing]
    resolved: Mapping[int, int]
    listed: tuple[Stream, ...] | None
    repaired: Collection[str]
    begin: int
    new_day: bool
    labels: bool | None = None

    def concerns(self, metric: Metric) -> bool:
        """Return True when the cohorts of this step are the metric's."""
        return self.labels is None or metric.labelled is self.labels


@dataclass(frozen=True, slots=True)
class RowExtras:
    """Context of a crossing: causes, changes of versions and settings, and the time.

    Attributes:
        explain: finds causes.
        versions_changed_at: when other versions began to answer a slice (contract, group-by,
            slice); None if never.
        settings_changed_at: when settings changed, in any order.
        now: wall clock.
    """

    explain: Explain
    versions_changed_at: Callable[[str, str, str], int | None]
    settings_changed_at: Sequence[int]
    now: int


@dataclass(slots=True)
class IncidentBook:
    """The open incidents; always equal to what the store holds.

    Attributes:
        standing: by id.
        next_id: of the next one.
        acts: what people said of them.
        crossings: all unresolved ones, by id.
    """

    standing: dict[int, Incident] = field(default_factory=dict)
    next_id: int = 1
    acts: Acts = field(default_factory=dict)
    crossings: dict[int, Crossing] = field(default_factory=dict)

    @classmethod
    def load(cls, stored: StoredIncidents, acts: Acts, crossings: Iterable[Crossing]) -> Self:
        """As it was committed last."""
        by_id = {one.id: one for one in stored.standing}
        known = {one.id: one for one in crossings}
        return cls(by_id, stored.next_id, acts, known)

    def set_acts(self, acts: Acts) -> None:
        """Take note of what people say."""
        self.acts = acts

    def how(self, incident: Incident, now: int) -> Standing:
        """Standing of an incident at a wall clock."""
        return standing(incident, self.acts.get(incident.id, ()), now)

    def streams(self, incident: Incident) -> list[Stream]:
        """Streams of its unresolved crossings, or of a ticket's list."""
        keys = [self.crossings[x].stream for x in incident.crossings if x in self.crossings]
        return [Stream.parse(key) for key in (*keys, *incident.streams) if key]

    def close(self, until: Callable[[Metric], int], now: int) -> tuple[IncidentChange, set[int]]:
        """End the incidents that people have closed.

        Args:
            until: end of the newest cohort of a metric: they are resolved then, in event time.
            now: wall clock.

        Returns:
            What changes, and the crossings that end with them.
        """
        ended = [one for one in self.standing.values() if self.how(one, now).over]
        gone = {number for one in ended for number in one.crossings if number in self.crossings}
        for number in gone:
            del self.crossings[number]
        return IncidentChange(changed=[self.end(one, until(one.metric)) for one in ended]), gone

    def follow(self, step: IncidentStep, around: RowExtras) -> IncidentChange:
        """Let incidents open, grow, be refined and end as the detectors say."""
        draft = _Draft(self, step, around)
        draft.end()
        if step.new_day:
            draft.refine()
            draft.learn_versions()
        if step.listed is not None:
            draft.ticket(step.listed)
        orphans = self._orphans(step)
        for at, crossed in groupby((*orphans, *step.opened), lambda one: one.crossed_at):
            draft.open(at, list(crossed))
        draft.leave_to_pages()
        self.next_id += len(draft.opened)
        return IncidentChange(
            opened=list(draft.opened.values()),
            changed=[draft.changed[number] for number in sorted(draft.changed)],
        )

    def put(self, incident: Incident) -> None:
        """Keep an incident as it is now."""
        self.standing[incident.id] = incident

    def _orphans(self, step: IncidentStep) -> list[Crossing]:
        """Unresolved crossings without an incident: those from before there were any incidents."""
        known = {number for one in self.standing.values() for number in one.crossings}
        others = (one for one in self.crossings.values() if one.id not in known)
        orphans = (one for one in others if step.concerns(Stream.parse(one.stream).metric))
        return sorted(orphans, key=lambda one: one.crossed_at)

    def end(self, incident: Incident, at: int) -> Incident:
        """Resolve an incident; returns it as it is then."""
        del self.standing[incident.id]
        return replace(incident, resolved_at=max(at, incident.opened_at))


@dataclass(slots=True)
class _Draft:
    """Changes that one step makes."""

    book: IncidentBook
    step: IncidentStep
    around: RowExtras
    opened: dict[int, Incident] = field(default_factory=dict)
    changed: dict[int, Incident] = field(default_factory=dict)

    def end(self) -> None:
        """End the incidents whose last crossing is resolved."""
        for number in self.step.resolved:
            self.book.crossings.pop(number, None)
        for one in self._of(IncidentKind.BREACH):
            if not any(number in self.book.crossings for number in one.crossings):
                at = max((self.step.resolved.get(x, 0) for x in one.crossings), default=0)
                self._end(one, at or self.step.begin)

    def open(self, at: int, crossed: Sequence[Crossing]) -> None:
        """Give the crossings of one cohort to the incidents of their causes, or to new ones."""
        self.book.crossings |= {one.id: one for one in crossed}
        new = {one.stream: one.id for one in crossed}
        for contract, metric in sorted(_where(crossed)):
            for cause in self._causes(contract, metric, at):
                ids = [new[stream.key] for stream in cause.streams if stream.key in new]
                if not ids:
                    continue
                known = self._known(contract, metric, cause)
                if known is None:
                    self._open(IncidentKind.BREACH, cause, at, crossings=tuple(sorted(ids)))
                else:
                    self._change(replace(known, crossings=tuple(sorted({*known.crossings, *ids}))))

    def refine(self) -> None:
        """Name the slices of incidents by what is known by now."""
        here = [one for one in self._of(IncidentKind.BREACH) if self.step.concerns(one.metric)]
        pages = {(one.contract, one.metric) for one in here}
        for contract, metric in sorted(pages):
            for cause in self._causes(contract, metric, self.step.begin):
                known = self._known(contract, metric, cause)
                if known is not None:
                    self._rename(known, cause)

    def learn_versions(self) -> None:
        """Note changes of versions that were not known yet: they are found in labelled cohorts."""
        for one in self._of(IncidentKind.BREACH):
            if one.versions_changed_at is None and one.group_by is not None and one.slice:
                found = self._versions(one.contract, one.group_by, one.slice, one.opened_at)
                self._change(replace(one, versions_changed_at=found))

    def _versions(self, contract: str, group_by: str, text: str, at: int) -> int | None:
        return _near([self.around.versions_changed_at(contract, group_by, text)], at)

    def ticket(self, listed: Collection[Stream]) -> None:
        """Open tickets for what is on the weekly list without a page; end those that are off it."""
        begin, paged = self.step.begin, {one.stream for one in self.book.crossings.values()}
        told = paged | set(self.step.repaired)
        open_ = [stream for stream in listed if stream.key not in told]
        for ticket in self._of(IncidentKind.LISTED):
            self._keep(ticket, {one.key for one in open_} & set(ticket.streams), begin)
        known = {key for one in self._of(IncidentKind.LISTED) for key in one.streams}
        fresh = [stream for stream in open_ if stream.key not in known]
        for contract, metric in sorted({(one.contract, one.metric) for one in fresh}):
            here = [one for one in fresh if (one.contract, one.metric) == (contract, metric)]
            for cause in self.around.explain(here, begin, begin):
                if not self._told(contract, metric, cause):
                    keys = tuple(sorted(one.key for one in cause.streams))
                    self._open(IncidentKind.LISTED, cause, begin, streams=keys)

    def leave_to_pages(self) -> None:
        """Take off tickets what pages tell: streams that crossed, or all of a slice they name.

        Last in a step: a page may name the slice of a ticket as it opens, or when it is renamed.
        """
        crossed_at = {one.stream: one.crossed_at for one in self.book.crossings.values()}
        for ticket in self._of(IncidentKind.LISTED):
            page = self._named(IncidentKind.BREACH, ticket.contract, ticket.metric, ticket)
            streams = set() if page else set(ticket.streams) - crossed_at.keys()
            times = [crossed_at[key] for key in ticket.streams if key in crossed_at]
            times += [page.opened_at] if page else []
            self._keep(ticket, streams, max([self.step.begin, *times]))

    def _causes(self, contract: str, metric: Metric, until: int) -> Sequence[BreachCause]:
        known = [(one, Stream.parse(one.stream)) for one in self.book.crossings.values()]
        here = [(one, s) for one, s in known if (s.contract, s.metric) == (contract, metric)]
        if not here:
            return ()
        first = min(one.crossed_at for one, _ in here)
        return self.around.explain([stream for _, stream in here], first, until)

    def _known(self, contract: str, metric: Metric, cause: BreachCause) -> Incident | None:
        """The oldest incident of a cause: it names its slice, or has most of its crossings."""
        keys = {stream.key for stream in cause.streams}
        best: tuple[tuple[bool, int, int], Incident] | None = None
        for one in self._of(IncidentKind.BREACH):
            if (one.contract, one.metric) != (contract, metric):
                continue
            stand = [self.book.crossings[x] for x in one.crossings if x in self.book.crossings]
            shared = sum(crossing.stream in keys for crossing in stand)
            named = (one.group_by, one.slice) == (cause.group_by, cause.slice)
            rank = (named, shared, -one.id)
            if (named or shared) and (best is None or rank > best[0]):
                best = rank, one
        return None if best is None else best[1]

    def _told(self, contract: str, metric: Metric, cause: BreachCause) -> bool:
        """Return True when a page has the cause, or a ticket, or when it was repaired this week.

        A ticket takes the streams that are new to it. Streams of several slices may tell of one
        harm, each seen from its own side.
        """
        if self._named(IncidentKind.BREACH, contract, metric, cause) is not None:
            return True
        ticket = self._named(IncidentKind.LISTED, contract, metric, cause)
        if ticket is not None:
            streams = {*ticket.streams, *(stream.key for stream in cause.streams)}
            self._keep(ticket, streams, self.step.begin)
            return True
        repaired = [Stream.parse(key) for key in self.step.repaired if key]
        place = (contract, metric, cause.group_by, cause.slice)
        return place in [(s.contract, s.metric, s.group_by, s.worse_off) for s in repaired]

    def _named(
        self, kind: IncidentKind, contract: str, metric: Metric, place: BreachCause | Incident
    ) -> Incident | None:
        """The oldest incident of a kind that names the slice of a cause, or of an incident.

        None where the name was removed.
        """
        wanted = (contract, metric, place.group_by, place.slice)
        found = (
            incident
            for incident in self._of(kind)
            if incident.slice is not None
            and (incident.contract, incident.metric, incident.group_by, incident.slice) == wanted
        )
        return next(found, None)

    def _open(
        self,
        kind: IncidentKind,
        cause: BreachCause,
        at: int,
        crossings: tuple[int, ...] = (),
        streams: tuple[str, ...] = (),
    ) -> None:
        stream = cause.streams[0]
        number = self.book.next_id + len(self.opened)
        one = Incident(
            id=number,
            kind=kind,
            contract=stream.contract,
            metric=stream.metric,
            opened_at=at,
            opened_wall=self.around.now,
            group_by=cause.group_by,
            slice=cause.slice,
            share=cause.share,
            versions_changed_at=self._versions(stream.contract, cause.group_by, cause.slice, at),
            settings_changed_at=_near(self.around.settings_changed_at, at),
            crossings=crossings,
            streams=streams,
        )
        self.opened[number] = one
        self.book.put(one)

    def _rename(self, known: Incident, cause: BreachCause) -> None:
        named = (known.group_by, known.slice) == (cause.group_by, cause.slice)
        first = known.first if named else None  # of another slice
        place = {"group_by": cause.group_by, "slice": cause.slice, "share": cause.share}
        self._change(replace(known, **place, first=first))  # type: ignore[arg-type]

    def _change(self, incident: Incident) -> None:
        if incident == self.book.standing[incident.id]:
            return
        self.book.put(incident)
        self._note(incident)

    def _keep(self, ticket: Incident, streams: Collection[str], at: int) -> None:
        """Let a ticket be of these streams alone; without any it ends."""
        if streams:
            self._change(replace(ticket, streams=tuple(sorted(streams))))
        else:
            self._end(ticket, at)

    def _end(self, incident: Incident, at: int) -> None:
        self._note(self.book.end(incident, at))

    def _note(self, incident: Incident) -> None:
        if incident.id in self.opened:
            self.opened[incident.id] = incident
        else:
            self.changed[incident.id] = incident

    def _of(self, kind: IncidentKind) -> list[Incident]:
        return [one for one in self.book.standing.values() if one.kind is kind]


def log_incidents(change: IncidentChange) -> None:
    """Log what has been committed: without slices and numbers."""
    for one in change.opened:
        log.warning("an incident is open", extra={"incident": one.id, "kind": one.kind.value})
    for one in change.changed:
        if one.resolved_at is not None:
            log.warning("an incident is over", extra={"incident": one.id, "kind": one.kind.value})


def _where(opened: Iterable[Crossing]) -> set[tuple[str, Metric]]:
    streams = [Stream.parse(one.stream) for one in opened]
    return {(one.contract, one.metric) for one in streams}


def _near(changes: Iterable[int | None], crossed_at: int) -> int | None:
    """The last change that was shortly before; None without."""
    known = (at for at in changes if at is not None)
    near = (at for at in known if crossed_at - JUST_BEFORE <= at <= crossed_at)
    return max(near, default=None)
