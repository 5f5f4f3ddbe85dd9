"""Archive of a report and everything needed to check it: equal inputs give equal bytes.

The archive stores files by name, uncompressed and with one date, since compressors differ from
machine to machine. ``release.json`` has the very bytes that are signed.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from monitor.core.publish.lines import hidden_rates
from monitor.core.publish.release import Release, Revision
from monitor.reports.as_json import SignatureLine, signature_lines
from monitor.reports.decision import decide
from monitor.reports.weekly_report import WeeklyReport, of_release

SUMS = "SHA256SUMS"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that an archive can have
_MODE = 0o644 << 16


@dataclass(frozen=True, slots=True)
class ReleasedRevision:
    """Stored revision of the week's Release, as the ledger lists it.

    Attributes:
        as_of: event time (microseconds) up to which decisions were complete when it was made.
        digest: SHA-256 of its bytes, in hexadecimal.
        decision: APPROVED, BLOCKED or UNDECIDED.
    """

    number: int
    as_of: int
    digest: str
    decision: str


@dataclass(frozen=True, slots=True)
class HiddenCells:
    """Number of all and of hidden cells in one contract's week, for the ledger.

    Attributes:
        contract: name of the contract.
        k: smallest number of decisions or labels that is shown.
        cells: number of slice rates that the Release lists.
        hidden: number of these rates that it hides.
    """

    contract: str
    k: int
    cells: int
    hidden: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Declaration that data are bad and left out, in force or lifted, for the ledger.

    Attributes:
        start: first instant of event time (microseconds).
        end: the first instant after it.
        version: text of the only versions concerned; None: all versions.
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
    """Ledger in a bundle: revisions, hidden cells and left-out data of the week.

    Attributes:
        week: ISO week, such as ``2026-W47``.
        revisions: all kept revisions, ascending.
        hidden: hidden cells per contract, in the reported revision.
        left_out: declarations that touch the week, in the order in which they were made.
    """

    week: str
    revisions: tuple[ReleasedRevision, ...]
    hidden: tuple[HiddenCells, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest in a bundle, the report's identity: equal manifests allow the same bytes again.

    Attributes:
        week: ISO week, such as ``2026-W47``.
        as_of: event time (microseconds) up to which decisions were complete.
        revision: number of the revision.
        program: name and version of the program.
        settings_digest: SHA-256 of the settings, in hexadecimal.
        digest: SHA-256 of the bytes of ``release.json``.
    """

    week: str
    as_of: int
    revision: int
    program: str
    settings_digest: str
    digest: str


@dataclass(frozen=True, slots=True)
class BundleSources:
    """Stored inputs of a bundle beside the report: revisions, contracts and left-out data.

    Attributes:
        revisions: revisions of the week, ascending.
        contracts: canonical JSON of every version of every contract, by name and version.
        left_out: declarations, in the order in which they were made.
    """

    revisions: tuple[Revision, ...]
    contracts: Mapping[tuple[str, str], str]
    left_out: tuple[LeftOut, ...]


def files(report: WeeklyReport, sources: BundleSources) -> dict[str, bytes]:
    """Return manifest, ledger, signatures, contracts and Release as JSON bytes by file name."""
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
    """Return a zip archive (bytes) with ``content`` and a file of checksums in ``folder``."""
    sums = "".join(f"{_digest(body)}  {name}\n" for name, body in sorted(content.items()))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as zip_file:
        for name, body in sorted({**content, SUMS: sums.encode()}.items()):
            zip_info = zipfile.ZipInfo(f"{folder}/{name}", _EPOCH)
            zip_info.external_attr, zip_info.create_system = _MODE, 3
            zip_file.writestr(zip_info, body)
    return out.getvalue()


def _ledger(report: WeeklyReport, sources: BundleSources) -> Ledger:
    """Return the ledger of a week: revisions, hidden cells and data left out."""
    release = report.release
    return Ledger(
        week=release.week,
        revisions=tuple(
            ReleasedRevision(
                revision.number, revision.as_of, revision.digest, decide(revision.release).word
            )
            for revision in sources.revisions
        ),
        hidden=tuple(_hidden(release)),
        left_out=tuple(
            declaration
            for declaration in sources.left_out
            if declaration.start < release.end and declaration.end > release.start
        ),
    )


def _hidden(release: Release) -> Iterator[HiddenCells]:
    """Yield how many cells of each contract are hidden, and of how many."""
    for contract, window in of_release(release):
        yield HiddenCells(contract.contract, contract.k, *hidden_rates(contract, window))


def _contracts(records: Mapping[tuple[str, str], str]) -> list[dict[str, Any]]:
    return [
        {"name": name, "version": version, "record": json.loads(record)}
        for (name, version), record in sorted(records.items())
    ]


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic")) + b"\n"


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
