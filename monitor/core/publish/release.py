"""The Release: what is published of one closed ISO week, for reports and the people who sign them.

Beside the Snapshot it is the only value that may leave the service. Its numbers are computed from
the published tables of the week, as the Snapshot's are from those of its spans.

States are by the bounds of the week alone; what the sequential tests found is among the incidents,
as the Snapshots showed them. An absent number is withheld, as in a Snapshot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from monitor.core.contract import Metric
from monitor.core.publish.annotations import Annotation, IncidentKind, Outcome, Severity
from monitor.core.publish.incident_reports import IncidentReport
from monitor.core.publish.incidents import Stand
from monitor.core.publish.snapshot import (
    ContractTable,
    Snapshot,
    WindowTable,
    periods,
    tables_of,
)
from monitor.core.time import WEEK, IsoWeek, to_micros

AFTER_HORIZON = 2 * WEEK
"""How long after the horizon of its labels a week is looked at: from then on its Release stays."""


@dataclass(frozen=True, slots=True)
class ReleasedIncident:
    """An incident that was open in the week, as the Snapshots showed it.

    Attributes:
        id: of the incident.
        kind: a breach, or on the weekly list.
        severity: page or ticket; None where no Snapshot shows it.
        contract: name.
        metric: of its streams.
        group_by: of the slice; empty where that is withheld.
        slice: the smallest that explains it; ``withheld`` where the guards hide it.
        since: event time (microseconds) of the end of the cohort that first crossed.
        state: open, acknowledged, accepted, closed or resolved.
        outcome: of what people accepted or closed; None else.
        resolved_at: event time (microseconds); None while it is not resolved.
    """

    id: int
    kind: IncidentKind
    severity: Severity | None
    contract: str
    metric: Metric
    group_by: str
    slice: str
    since: int
    state: Stand
    outcome: Outcome | None
    resolved_at: int | None


@dataclass(frozen=True, slots=True)
class ReleasedFinding:
    """An advisory finding of the week, as a Snapshot showed it: it never pages.

    Attributes:
        contract: name.
        group_by: of the slice.
        slice: slice text.
        annotation: what was found.
        metric: of which rate; None where it is of none.
        latest: the end of the day that first showed the last of them (microseconds).
    """

    contract: str
    group_by: str
    slice: str
    annotation: Annotation
    metric: Metric | None
    latest: int


@dataclass(frozen=True, slots=True)
class Release:
    """Everything that is published of one ISO week.

    Attributes:
        week: as in ``2026-W47``.
        start: its first instant (microseconds).
        end: the first instant after it.
        contracts: one table each, whose only window is named like the week.
        incidents: open in the week, by id.
        findings: advisory ones that last came in the week, sorted.
    """

    week: str
    start: int
    end: int
    contracts: tuple[ContractTable, ...]
    incidents: tuple[ReleasedIncident, ...] = ()
    findings: tuple[ReleasedFinding, ...] = ()

    @property
    def data_lost(self) -> bool:
        """True when events of it were lost before they could be read, or may have been."""
        return any(window.data_lost for table in self.contracts for window in table.windows)

    @property
    def excluded(self) -> bool:
        """True when any of its tables is left out."""
        return any(window.excluded for table in self.contracts for window in table.windows)


@dataclass(frozen=True, slots=True)
class Revision:
    """A Release as it is stored: a later one of a week takes the place of an earlier one.

    Attributes:
        week: as in ``2026-W47``.
        number: 1 for the first Release of the week; gap-free.
        as_of: event time (microseconds) up to which decisions were complete when it was made.
        body: the encoded Release.
    """

    week: str
    number: int
    as_of: int
    body: bytes

    @property
    def release(self) -> Release:
        """The Release."""
        return decode(self.body)

    @property
    def digest(self) -> str:
        """SHA-256 of its bytes, in hexadecimal: what a signature is bound to."""
        return hashlib.sha256(self.body).hexdigest()


@dataclass(frozen=True, slots=True)
class Signature:
    """What a person signed.

    Attributes:
        week: as in ``2026-W47``.
        number: among the signatures of the week, from 1.
        revision: number of the revision that was signed.
        digest: SHA-256 of its bytes, in hexadecimal.
        at: wall clock (microseconds).
        by: who.
        note: why; may be empty.
    """

    week: str
    number: int
    revision: int
    digest: str
    at: int
    by: str
    note: str


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A revision with everything that is stored for its report.

    Attributes:
        revision: the one that is reported.
        newest: number of the newest revision of the week.
        before: newest revision of the week before; None where none is stored.
        signatures: of the week, in their order; of whichever revision.
        earlier: the revision that changes are told against; None where there is no earlier one.
        history: newest revisions of the weeks before, a year of them at most, the oldest first.
    """

    revision: Revision
    newest: int
    before: Revision | None
    signatures: tuple[Signature, ...] = ()
    earlier: Revision | None = None
    history: tuple[Revision, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredWeek:
    """A week that has a Release, without its tables.

    Attributes:
        week: as in ``2026-W47``.
        revisions: numbers of those that are kept, ascending.
        size: bytes of the newest one: with its number they tell whether it was rewritten.
        signatures: of the week, in their order; of whichever revision.
    """

    week: str
    revisions: tuple[int, ...]
    size: int
    signatures: tuple[Signature, ...] = ()

    @property
    def newest(self) -> int:
        """Number of the newest revision."""
        return self.revisions[-1]


def encode(release: Release) -> bytes:
    """Canonical JSON: equal Releases have equal bytes."""
    return msgspec.json.encode(release, order="deterministic")


def decode(data: bytes) -> Release:
    """The Release that :func:`encode` wrote."""
    return msgspec.json.decode(data, type=Release)


def decode_slices(data: bytes, slices: Collection[str]) -> Release:
    """The Release without rows of other slices: much sooner, where it has very many."""
    tokens = [b'"slice":' + msgspec.json.encode(text) for text in slices]
    parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    contracts = _parts(parts["contracts"])
    for contract in contracts:
        windows = _parts(contract["windows"])
        for window in windows:
            groups = _parts(window["groups"])
            for group in groups:
                rows = msgspec.json.decode(group["rows"], type=list[msgspec.Raw])
                wanted = [row for row in rows if any(token in bytes(row) for token in tokens)]
                group["rows"] = _raw(wanted)
            window["groups"] = _raw(groups)
        contract["windows"] = _raw(windows)
    return decode(msgspec.json.encode(parts | {"contracts": _raw(contracts)}))


def _parts(data: msgspec.Raw) -> list[dict[str, msgspec.Raw]]:
    return msgspec.json.decode(data, type=list[dict[str, msgspec.Raw]])


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def released_incidents(
    week: IsoWeek, reports: Iterable[IncidentReport]
) -> tuple[ReleasedIncident, ...]:
    """Those that were open in a week; of each, what a Snapshot showed."""
    found = [_incident(one) for one in reports]
    return tuple(one for one in sorted(found, key=lambda one: one.id) if _open_in(week, one))


def _open_in(week: IsoWeek, one: ReleasedIncident) -> bool:
    return one.since < week.end and (one.resolved_at is None or one.resolved_at > week.start)


def _incident(one: IncidentReport) -> ReleasedIncident:
    return ReleasedIncident(
        id=one.id,
        kind=one.kind,
        severity=one.severity,
        contract=one.contract,
        metric=one.metric,
        group_by=one.group_by,
        slice=one.slice,
        since=to_micros(one.since),
        state=one.state,
        outcome=one.outcome,
        resolved_at=None if one.resolved_at is None else to_micros(one.resolved_at),
    )


def released_findings(
    week: IsoWeek, snapshot: Snapshot, before: Iterable[ReleasedFinding]
) -> tuple[ReleasedFinding, ...]:
    """Advisory findings of a week: those that a Snapshot shows, and those known of it before.

    A Snapshot tells of the last of each kind only: when it comes again in a later week, what is
    known of this one stays.
    """
    now = (one for one in _noted(snapshot) if week.start < one.latest <= week.end)
    known = {_key(one): one for one in before}
    known |= {_key(one): one for one in now}
    return tuple(known[key] for key in sorted(known))


def _noted(snapshot: Snapshot) -> Iterator[ReleasedFinding]:
    for table in snapshot.contracts:
        for group in (group for window in table.windows for group in window.groups):
            for row in group.rows:
                for one in row.noted:
                    yield ReleasedFinding(
                        table.contract,
                        group.group_by,
                        row.slice,
                        one.annotation,
                        one.metric,
                        one.latest,
                    )


def _key(one: ReleasedFinding) -> tuple[str, str, str, str, str]:
    return one.contract, one.group_by, one.slice, one.annotation.value, one.metric or ""


def kept_tables(before: Release | None, made: Iterable[ContractTable]) -> tuple[ContractTable, ...]:
    """The tables of a Release: those made now, or those that the revision before has.

    A week is judged by the contract versions of its first revision. A table stays as it was where
    its contract is no more or has another version now, and where its tables are not kept any
    more: a revision is never made of what is left of a week.
    """
    now = list(made)
    if before is None:
        return tuple(now)
    same = {(table.contract, table.version): table for table in now}
    return tuple(_newer(was, same.get((was.contract, was.version))) for was in before.contracts)


def _newer(was: ContractTable, now: ContractTable | None) -> ContractTable:
    return was if now is None or _has_lost(was, now) else now


def _has_lost(was: ContractTable, now: ContractTable) -> bool:
    """Return True when a table began earlier before, though nothing of it is left out now."""
    earlier, later = (dict(_starts(table)) for table in (was, now))
    return any(key not in later or later[key] > at for key, at in earlier.items())


def _starts(table: ContractTable) -> Iterator[tuple[tuple[str, str], int]]:
    """Starts of the periods; those of which tables are left out do not count."""
    for window in table.windows:
        for part in tables_of(window):
            name = "" if isinstance(part, WindowTable) else part.group_by
            spans = (("decisions", part.decisions), ("labelled", part.labelled))
            for kind, period in spans:
                if period is not None and not period.excluded:
                    yield (name, kind), period.start


def has_decisions(tables: Iterable[ContractTable]) -> bool:
    """Return True when anything at all was released."""
    return any(periods(window) for table in tables for window in table.windows)
