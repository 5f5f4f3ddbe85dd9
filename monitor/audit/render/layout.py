"""Building blocks of a rendered audit: sections with notes and a table."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from monitor.drawing.tables import Table, Tone


class Brief(enum.Enum):
    """Extent to which a short report includes a section."""

    NOTHING = enum.auto()
    FAILING = enum.auto()  # rows with something bad in them
    ALL = enum.auto()


@dataclass(frozen=True, slots=True)
class AuditSection:
    """One heading of a report.

    Attributes:
        title: heading.
        notes: sentences above the table.
        table: None where there is nothing to list; a note then says so.
        brief: what a short report has of it.
    """

    title: str
    notes: tuple[str, ...] = ()
    table: Table | None = None
    brief: Brief = Brief.NOTHING


@dataclass(frozen=True, slots=True)
class AuditDocument:
    """All of a report.

    Attributes:
        title: of the report.
        word: APPROVED, BLOCKED or COULD NOT EVALUATE.
        tone: of the word.
        verdict: the decision in a sentence.
        counts: flips and pairs in a sentence.
        banner: what is said before anything else of an invented set; empty for reviewed data.
        facts: what was audited: name and value.
        sections: in order.
        decision: who has said what; the last section of a report that is read to its end.
        folded: what a short report folds away.
    """

    title: str
    word: str
    tone: Tone
    verdict: str
    counts: str
    banner: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[AuditSection, ...]
    decision: AuditSection
    folded: str = "Versions, rates, support, calibration, what to try"
