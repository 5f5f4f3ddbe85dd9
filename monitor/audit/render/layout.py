"""Building blocks of a rendered audit: sections with notes and a table."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from monitor.drawing.tables import Table, Tone


class Brief(enum.Enum):
    """Extent to which a short report includes a section: not, failing rows, or all."""

    NOTHING = enum.auto()
    FAILING = enum.auto()  # rows with something bad in them
    ALL = enum.auto()


@dataclass(frozen=True, slots=True)
class AuditSection:
    """Section of a laid-out report: a heading, notes and a table.

    Attributes:
        title: heading.
        notes: sentences above the table.
        table: None if there is nothing to list; a note then says so.
        brief: extent in a short report.
    """

    title: str
    notes: tuple[str, ...] = ()
    table: Table | None = None
    brief: Brief = Brief.NOTHING


@dataclass(frozen=True, slots=True)
class AuditDocument:
    """Report or scorecard laid out as sections for any renderer; it has a short form too.

    Attributes:
        title: title.
        word: APPROVED, BLOCKED or COULD NOT EVALUATE.
        tone: tone of the word.
        verdict: the decision in a sentence.
        counts: flips and pairs in a sentence.
        banner: first sentence about an invented set; empty for reviewed data.
        facts: name and value of what was audited.
        sections: in order.
        decision: requirements with their signatures; the last section.
        folded: title of the details that a short report folds.
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
