"""Canonical JSON form of the report: the whole Release, the settings' facts and the decision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from monitor.core.publish.release import OpenIncidents, Release, Signature
from monitor.reports.changes import Changes, changes
from monitor.reports.decision import Requirement, decide
from monitor.reports.facts import ReportFacts
from monitor.reports.planned import Planned, planned
from monitor.reports.weekly_report import WeeklyReport


@dataclass(frozen=True, slots=True)
class SignatureLine:
    """Signature of a report, and whether it is of the bytes of this revision."""

    signature: Signature
    of_this_revision: bool


@dataclass(frozen=True, slots=True)
class ReportDocument:
    """Weekly report as its JSON file has it: decision, facts, plans, changes and Release.

    Attributes:
        week: as in ``2026-W47``.
        revision: number of the revision.
        newest_revision: number of the newest one.
        as_of: event time (microseconds) up to which decisions were complete when it was made.
        digest: SHA-256 of the bytes of the Release, in hexadecimal.
        compared_with: the week before and its revision; None where none is stored.
        last_signed: week and number of the last signed earlier revision; None where none is.
        open_now: incidents of the newest Snapshot; None before the first.
        decision: APPROVED, BLOCKED or UNDECIDED.
        requirements: of an approval.
        signatures: of the week.
        facts: of the settings.
        planned: what follows from the Release.
        changes: since an earlier revision; None where there is none.
        release: the Release; the digest is of its very bytes in the file.
    """

    week: str
    revision: int
    newest_revision: int
    as_of: int
    digest: str
    compared_with: tuple[str, int] | None
    last_signed: tuple[str, int] | None
    open_now: OpenIncidents | None
    decision: str
    requirements: tuple[Requirement, ...]
    signatures: tuple[SignatureLine, ...]
    facts: ReportFacts
    planned: Planned
    changes: Changes | None
    release: Release


def render(report: WeeklyReport) -> bytes:
    """Return the report as JSON bytes; equal reports have equal bytes."""
    return msgspec.json.encode(report_document(report), order="deterministic") + b"\n"


def report_document(report: WeeklyReport) -> ReportDocument:
    """Return the ReportDocument of a report, the content of its JSON file."""
    revision, before, signed = report.revision, report.before, report.last_signed
    decision = decide(report.release, report.zone)
    return ReportDocument(
        week=revision.week,
        revision=revision.number,
        newest_revision=report.newest,
        as_of=revision.as_of,
        digest=revision.digest,
        compared_with=(before.week, before.number) if before else None,
        last_signed=(signed.week, signed.number) if signed else None,
        open_now=report.open_now,
        decision=decision.word,
        requirements=decision.requirements,
        signatures=signature_lines(report.signatures, revision.digest),
        facts=report.facts,
        planned=planned(report),
        changes=changes(report),
        release=report.release,
    )


def signature_lines(signatures: Iterable[Signature], digest: str) -> tuple[SignatureLine, ...]:
    """Return a SignatureLine per signature, which tells if it is of the revision ``digest``."""
    return tuple(SignatureLine(signature, signature.digest == digest) for signature in signatures)
