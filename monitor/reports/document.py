"""A report as sections in reading order; this module alone decides the order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from monitor.core.publish.glossary import SYNTHETIC
from monitor.core.publish.words import NONE
from monitor.core.time import in_zone
from monitor.present.document import Document, Section
from monitor.reports import background, changes, first_page, numbers, since
from monitor.reports.decision import decide
from monitor.reports.planned import KeptReport
from monitor.reports.sections import context, label_plans, thresholds
from monitor.reports.weekly_report import WeeklyReport

_Sections = tuple[tuple[str, Callable[[WeeklyReport], Section]], ...]
CANNOT_SAY = "What this report cannot say"
PAGE_ONE: _Sections = (
    ("Slices against their limits", first_page.slices),
    ("Not measured, and why", first_page.not_measured),
    ("Incidents open now", first_page.open_now),
    ("Changes", since.change),
    ("Signatures", first_page.signatures),
)
ANNEX: _Sections = (
    ("Rates", numbers.rates),
    ("Other limits", numbers.gaps),
    ("Incidents of the week", background.incidents),
    ("Advisory findings", background.findings),
    ("Lost and left-out data", background.lost),
    ("Changed since an earlier revision", changes.changed),
    ("Labels", label_plans.labels),
    ("Calibration", numbers.calibration),
    ("Other thresholds", thresholds.what_if),
    ("Gaps among alike requests", context.standardised),
    ("Criteria that cannot hold together", context.criteria),
    ("Representation", context.representation),
    ("Contracts", background.use_cases),
    ("Attributes", background.attributes),
)
"""Sections of page one and of the annex: titles, and the functions that make them. Page one has
all of its sections; an empty section of the annex is left out and named on page two."""

_ALL = "the JSON and CSV files"


def document(report: WeeklyReport) -> Document:
    """Return the Document of a report for all formats; the last one is cached."""
    key = (
        *(report.revision, report.newest, report.before, report.facts, report.signatures),
        *(report.earlier, report.history, report.last_signed, report.open_now),
    )
    return _document(KeptReport(key, report))


@lru_cache(maxsize=1)
def _document(kept: KeptReport) -> Document:
    """Return the report of a week as a document, for all formats."""
    report = kept.report
    decision = decide(report.release, report.zone)
    return Document(
        title=f"Weekly fairness report {report.revision.week}",
        banner=SYNTHETIC if report.synthetic else "",
        word=decision.word,
        tone=decision.word.tone,
        verdict=decision.sentence,
        facts=tuple(_facts(report)),
        sections=tuple(_sections(report)),
        footer=(
            f"All times are {report.zone}. Written by {report.facts.program}; SHA-256 of the"
            f" settings: {report.facts.settings_digest or NONE}.",
        ),
    )


def _sections(report: WeeklyReport) -> Iterator[Section]:
    """Yield the sections of page one, page two, and the annex without its empty sections."""
    annex = [replace(make(report).cut(_ALL), title=title) for title, make in ANNEX]
    for number, (title, make) in enumerate(PAGE_ONE):
        yield replace(make(report), title=title, style="" if number else "page-one")
    empty = ", ".join(section.title.lower() for section in annex if not section.tables)
    page_two = background.cannot_say(report)
    left_out = (f"Left out, since there is nothing to list: {empty}.",) if empty else ()
    notes = (*page_two.notes, *left_out)
    yield replace(page_two, title=CANNOT_SAY, notes=notes, style="new-sheet")
    for number, section in enumerate(section for section in annex if section.tables):
        style = "" if number else "new-sheet"
        yield replace(section, title=f"Annex: {section.title}", style=style)


def _facts(report: WeeklyReport) -> list[tuple[str, str]]:
    """Return name and text of what a report is: its week and its revision."""
    revision, release = report.revision, report.release
    first, last = (in_zone(at, report.zone) for at in (release.start, release.end - 1))
    newest = (
        "the newest" if revision.number == report.newest else f"revision {report.newest} is newer"
    )
    return [
        (
            "week",
            f"{revision.week} ({report.zone}), Monday {first:%Y-%m-%d} to Sunday {last:%Y-%m-%d}",
        ),
        (
            "revision",
            f"{revision.number} ({newest}), of decisions up to {report.moment(revision.as_of)}",
        ),
    ]
