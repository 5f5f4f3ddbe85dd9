"""A report with everything that is needed to check it, in one archive: equal inputs, equal bytes.

Files are stored in the order of their names, uncompressed and of one date, since what compresses
differs from machine to machine. ``release.json`` has the very bytes that are signed.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from monitor.core.contract import State
from monitor.core.publish.lines import places, total_place
from monitor.core.publish.release import Release, Revision
from monitor.reports.as_json import SignatureLine, signature_lines
from monitor.reports.decision import decide
from monitor.reports.weekly_report import WeeklyReport, of_release

SUMS = "SHA256SUMS"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that an archive can have
_MODE = 0o644 << 16


@dataclass(frozen=True, slots=True)
class ReleasedRevision:
    """One kept revision of the week.

    Attributes:
        number: of the revision.
        as_of: event time (microseconds) up to which decisions were complete when it was made.
        digest: SHA-256 of its bytes, in hexadecimal.
        decision: APPROVED or BLOCKED.
    """

    number: int
    as_of: int
    digest: str
    decision: str


@dataclass(frozen=True, slots=True)
class HiddenCells:
    """Cells of a contract's week, and those of them that are hidden.

    Attributes:
        contract: name.
        k: smallest number of decisions or labels that is shown.
        cells: rates of slices that the Release lists.
        hidden: those of them that it hides.
    """

    contract: str
    k: int
    cells: int
    hidden: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Data that somebody declared bad, or had declared bad.

    Attributes:
        start: first instant of event time (microseconds).
        end: the first instant after it.
        version: of which versions alone, as their text; None: of all.
        reason: why.
        owner: who answers for it.
        excluded_at: wall clock (microseconds).
        lifted_at: wall clock; None while it is in force.
    """

    start: int
    end: int
    version: str | None
    reason: str
    owner: str
    excluded_at: int
    lifted_at: int | None


@dataclass(frozen=True, slots=True)
class Ledger:
    """Account of what was published of the week, and what was hidden or left out.

    Attributes:
        week: as in ``2026-W47``.
        revisions: all that are kept, ascending.
        hidden: of each contract, in the revision that is reported.
        left_out: declarations that touch the week, by when they were made.
    """

    week: str
    revisions: tuple[ReleasedRevision, ...]
    hidden: tuple[HiddenCells, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Identity of a report: who has the same four values can write the same bytes.

    Attributes:
        week: as in ``2026-W47``.
        as_of: event time (microseconds) up to which decisions were complete.
        revision: number of the revision.
        program: name and version of the program.
        settings_digest: SHA-256 of the settings, in hexadecimal.
        digest: SHA-256 of the Release: that of ``release.json``.
    """

    week: str
    as_of: int
    revision: int
    program: str
    settings_digest: str
    digest: str


@dataclass(frozen=True, slots=True)
class BundleSources:
    """Content of a bundle beside the report.

    Attributes:
        revisions: of the week, ascending.
        contracts: canonical JSON of every version of every contract, by name and version.
        left_out: declarations, by when they were made.
    """

    revisions: tuple[Revision, ...]
    contracts: Mapping[tuple[str, str], str]
    left_out: tuple[LeftOut, ...]


def files(report: WeeklyReport, sources: BundleSources) -> dict[str, bytes]:
    """The files of a bundle, but for the report in its formats, by their names."""
    revision = report.revision
    manifest = Manifest(
        week=revision.week,
        as_of=revision.as_of,
        revision=revision.number,
        program=report.facts.program,
        settings_digest=report.facts.settings_digest,
        digest=revision.digest,
    )
    signed: tuple[SignatureLine, ...] = signature_lines(report.signatures, revision.digest)
    return {
        "manifest.json": _json(manifest),
        "ledger.json": _json(_ledger(report, sources)),
        "signatures.json": _json(signed),
        "contracts.json": _json(_contracts(sources.contracts)),
        "release.json": revision.body,
    }


def archive(folder: str, content: Mapping[str, bytes]) -> bytes:
    """A zip file with a folder of these files and their checksums."""
    sums = "".join(f"{_digest(body)}  {name}\n" for name, body in sorted(content.items()))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as made:
        for name, body in sorted({**content, SUMS: sums.encode()}.items()):
            one = zipfile.ZipInfo(f"{folder}/{name}", _EPOCH)
            one.external_attr, one.create_system = _MODE, 3
            made.writestr(one, body)
    return out.getvalue()


def _ledger(report: WeeklyReport, sources: BundleSources) -> Ledger:
    release = report.release
    return Ledger(
        week=release.week,
        revisions=tuple(
            ReleasedRevision(one.number, one.as_of, one.digest, decide(one.release).word)
            for one in sources.revisions
        ),
        hidden=tuple(_hidden(release)),
        left_out=tuple(
            one for one in sources.left_out if one.start < release.end and one.end > release.start
        ),
    )


def _hidden(release: Release) -> list[HiddenCells]:
    found = []
    for contract, window in of_release(release):
        rows = [total_place(contract, window).row, *(p.row for p in places(contract, window))]
        states = [state for row in rows for state in row.states.values()]
        hidden = sum(state is State.SUPPRESSED for state in states)
        found.append(HiddenCells(contract.contract, contract.k, len(states), hidden))
    return found


def _contracts(records: Mapping[tuple[str, str], str]) -> list[dict[str, Any]]:
    return [
        {"name": name, "version": version, "record": json.loads(record)}
        for (name, version), record in sorted(records.items())
    ]


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic")) + b"\n"


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
