"""The Release: published value of one closed ISO week, for reports and the people who sign them.

Besides the Snapshot it is the only value that may leave the service. Its numbers are computed from
the published tables of the week.

States follow from the bounds of the week only. Findings of the sequential tests are among the
incidents, as the Snapshots showed them. An absent number is withheld, as in a Snapshot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from monitor.core.contract import Severity
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Annotation, IncidentKind, Outcome
from monitor.core.publish.incident_reports import IncidentReport
from monitor.core.publish.incidents import Stand
from monitor.core.publish.snapshot import (
    ContractTable,
    ShownIncident,
    Snapshot,
    WindowTable,
    periods,
    tables_of,
)
from monitor.core.time import DAY, WEEK, IsoWeek, to_micros

AFTER_HORIZON = 2 * WEEK
"""Time after the horizon of its labels during which the Release of a week may still change."""


@dataclass(frozen=True, slots=True)
class ReleasedIncident:
    """Incident that was open in the week of a Release, as the Snapshots showed it.

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
        further: the other slices of the same fault; ``withheld`` stands for hidden ones.
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
    further: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReleasedFinding:
    """Advisory finding in the week of a Release, as a Snapshot showed it; it never pages.

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
        """True when events of the week were lost before they were read, or may have been."""
        return any(window.data_lost for table in self.contracts for window in table.windows)

    @property
    def excluded(self) -> bool:
        """True when any table of the week is left out because its data are bad."""
        return any(window.excluded for table in self.contracts for window in table.windows)


@dataclass(frozen=True, slots=True)
class Revision:
    """Stored Release; a later revision of a week replaces an earlier one.

    Attributes:
        week: name such as ``2026-W47``.
        number: 1 for the first Release of the week; gap-free.
        as_of: event time (microseconds) up to which decisions were complete at its creation.
        body: the encoded Release.
    """

    week: str
    number: int
    as_of: int
    body: bytes

    @property
    def release(self) -> Release:
        """Release decoded from the body."""
        return decode(self.body)

    @property
    def digest(self) -> str:
        """SHA-256 of the body in hexadecimal, to which a signature is bound."""
        return hashlib.sha256(self.body).hexdigest()


@dataclass(frozen=True, slots=True)
class Signature:
    """Signature of a person under a revision.

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
class OpenIncidents:
    """Incidents that are not over in the newest Snapshot, which may be younger than a Release.

    Attributes:
        day: start (microseconds) of the day to which that Snapshot goes.
        incidents: by id.
    """

    day: int
    incidents: tuple[ReleasedIncident, ...]


@dataclass(frozen=True, slots=True)
class StoredReport:
    """Revision with everything that is stored for its report.

    Attributes:
        revision: the reported revision.
        newest: number of the newest revision of the week.
        before: newest revision of the week before; None if none is stored.
        signatures: signatures on any revision of the week, in their order.
        earlier: the revision to compare with; None without an earlier one.
        history: newest revisions of the three weeks before, the oldest first.
        last_signed: the newest earlier revision, of any week, that somebody signed; None without.
        open_now: incidents of the newest Snapshot; None before the first Snapshot.
    """

    revision: Revision
    newest: int
    before: Revision | None
    signatures: tuple[Signature, ...] = ()
    earlier: Revision | None = None
    history: tuple[Revision, ...] = ()
    last_signed: Revision | None = None
    open_now: OpenIncidents | None = None


@dataclass(frozen=True, slots=True)
class StoredWeek:
    """Stored week with a Release: numbers of its revisions and signatures, without its tables.

    Attributes:
        week: name such as ``2026-W47``.
        revisions: ascending numbers of the kept revisions.
        size: bytes of the newest revision; with its number they tell whether it was rewritten.
        signatures: signatures on any revision of the week, in their order.
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
    """Return the canonical JSON of a Release; equal Releases have equal bytes."""
    return msgspec.json.encode(release, order="deterministic")


def decode(data: bytes) -> Release:
    """Return the Release of the JSON that :func:`encode` returned."""
    return msgspec.json.decode(data, type=Release)


def decode_slices(data: bytes, slices: Collection[str]) -> Release:
    """Decode a Release with only the rows of these slices, which is faster if it has many rows."""
    tokens = [b'"slice":' + msgspec.json.encode(text) for text in slices]
    parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    contracts = _parts(parts["contracts"])
    for contract in contracts:
        windows = _parts(contract["windows"])
        for window in windows:
            groups = _parts(window["groups"])
            for group in groups:
                rows = msgspec.json.decode(group["rows"], type=list[msgspec.Raw])
                kept_rows = [row for row in rows if any(token in bytes(row) for token in tokens)]
                group["rows"] = _raw(kept_rows)
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
    """Return the reported incidents that were open in a week in their published form, by id."""
    incidents = [_incident(report) for report in reports]
    return tuple(
        incident
        for incident in sorted(incidents, key=lambda incident: incident.id)
        if _open_in(week, incident)
    )


def _open_in(week: IsoWeek, incident: ReleasedIncident) -> bool:
    return incident.since < week.end and (
        incident.resolved_at is None or incident.resolved_at > week.start
    )


def _incident(report: IncidentReport) -> ReleasedIncident:
    return ReleasedIncident(
        id=report.id,
        kind=report.kind,
        severity=report.severity,
        contract=report.contract,
        metric=report.metric,
        group_by=report.group_by,
        slice=report.slice,
        since=to_micros(report.since),
        state=report.state,
        outcome=report.outcome,
        resolved_at=None if report.resolved_at is None else to_micros(report.resolved_at),
        further=report.further,
    )


def open_incidents(snapshot: Snapshot) -> OpenIncidents:
    """Return the incidents of a Snapshot, none of which is over, and the day to which it goes."""
    incidents = [
        ReleasedIncident(
            id=incident.id,
            kind=incident.kind,
            severity=incident.severity,
            contract=table.contract,
            metric=incident.metric,
            group_by=incident.group_by,
            slice=incident.slice,
            since=incident.since,
            state=_stand(incident),
            outcome=Outcome.ACCEPTED if incident.accepted_until else None,
            resolved_at=None,
            further=incident.further,
        )
        for table in snapshot.contracts
        for incident in table.incidents
    ]
    by_id = tuple(sorted(incidents, key=lambda incident: incident.id))
    return OpenIncidents((snapshot.watermark or 0) // DAY * DAY, by_id)


def _stand(incident: ShownIncident) -> Stand:
    if incident.accepted_until is not None:
        return Stand.ACCEPTED
    return Stand.ACKNOWLEDGED if incident.acknowledged else Stand.OPEN


def released_findings(
    week: IsoWeek, snapshot: Snapshot, before: Iterable[ReleasedFinding]
) -> tuple[ReleasedFinding, ...]:
    """Return a week's advisory findings, sorted: those of a Snapshot, and those known before.

    A Snapshot has only the last finding of each kind. When it comes again in a later week, the
    known finding of this week stays.
    """
    newest = (
        finding for finding in _findings_noted(snapshot) if week.start < finding.latest <= week.end
    )
    findings = {_key(finding): finding for finding in before}
    findings |= {_key(finding): finding for finding in newest}
    return tuple(findings[key] for key in sorted(findings))


def _findings_noted(snapshot: Snapshot) -> Iterator[ReleasedFinding]:
    """Yield the findings in a Snapshot's rows."""
    for table in snapshot.contracts:
        for group in (group for window in table.windows for group in window.groups):
            for row in group.rows:
                for noted in row.noted:
                    yield ReleasedFinding(
                        table.contract,
                        group.group_by,
                        row.slice,
                        noted.annotation,
                        noted.metric,
                        noted.latest,
                    )


def _key(finding: ReleasedFinding) -> tuple[str, str, str, str, str]:
    """Return what a finding is about; two with the same key are one."""
    return (
        finding.contract,
        finding.group_by,
        finding.slice,
        finding.annotation.value,
        finding.metric or "",
    )


def kept_tables(
    before: Release | None, tables: Iterable[ContractTable]
) -> tuple[ContractTable, ...]:
    """Return the tables of the next revision: ``tables``, or those of ``before`` if these are gone.

    A week is judged by the contract versions of its first revision. A table stays unchanged if its
    contract is gone or has another version, or if its calendar tables are no longer kept: a
    revision is never computed from the remains of a week.
    """
    present = list(tables)
    if before is None:
        return tuple(present)
    by_version = {(table.contract, table.version): table for table in present}
    return tuple(
        _table_to_keep(last, by_version.get((last.contract, last.version)))
        for last in before.contracts
    )


def _table_to_keep(last: ContractTable, present: ContractTable | None) -> ContractTable:
    return last if present is None or _has_lost(last, present) else present


def _has_lost(last: ContractTable, present: ContractTable) -> bool:
    """Return True when a period of ``last`` begins later in ``present``, or is absent there."""
    earlier, later = (dict(_period_starts(table)) for table in (last, present))
    return any(key not in later or later[key] > at for key, at in earlier.items())


def _period_starts(table: ContractTable) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield ((group-by, kind), start) of each period of a table that has no excluded data."""
    for window in table.windows:
        for part in tables_of(window):
            name = "" if isinstance(part, WindowTable) else part.group_by
            spans = (("decisions", part.decisions), ("labelled", part.labelled))
            for kind, period in spans:
                if period is not None and not period.excluded:
                    yield (name, kind), period.start


def has_decisions(tables: Iterable[ContractTable]) -> bool:
    """Return True when any window of these tables covers any event time."""
    return any(periods(window) for table in tables for window in table.windows)
