"""A report as sections, in the order in which people should read them: decided here, once."""

from __future__ import annotations

from collections.abc import Callable

from monitor.core.publish.glossary import SYNTHETIC
from monitor.core.publish.words import NONE, moment_text
from monitor.core.time import DAY, to_datetime
from monitor.drawing.tables import Tone
from monitor.reports import background, changes, first_page, numbers
from monitor.reports.blocks import Document, Section
from monitor.reports.decision import decide
from monitor.reports.weekly_report import WeeklyReport

SECTIONS: tuple[tuple[str, Callable[[WeeklyReport], Section]], ...] = (
    ("In short", first_page.in_short),
    ("What was tested", first_page.what_was_tested),
    ("What failed", first_page.what_failed),
    ("What could not be measured, and why", first_page.what_is_not_known),
    ("What is needed for a decision", first_page.what_is_needed),
    ("Use cases, contracts and limits", background.use_cases),
    ("Attributes: definition and source", background.attributes),
    ("How labels were sampled", background.sampling),
    ("Rates by slice", numbers.rates),
    ("Gaps and ratios against the contract", numbers.gaps),
    ("Calibration", numbers.calibration),
    ("Change since last week", numbers.change),
    ("Changed since an earlier revision", changes.changed),
    ("Drift and advisory findings", background.findings),
    ("Incidents and pages", background.incidents),
    ("Excluded and lost data", background.lost),
    ("Known limitations", background.limitations),
    ("Privacy", background.privacy),
    ("Limits of the method", background.method),
    ("Decision", background.decision),
    ("Signatures", background.signatures),
)
"""Every section of a report: its title, and what makes it. None is ever left out: one without
numbers says why in a sentence."""

FIRST_PAGE = 5
"""The sections of the first page: the first of them."""


def document(report: WeeklyReport) -> Document:
    """All of a report."""
    decision = decide(report.release)
    return Document(
        title=f"Weekly fairness report {report.revision.week}",
        banner=SYNTHETIC if report.synthetic else "",
        word=decision.word,
        tone=Tone.GOOD if decision.approved else Tone.BAD,
        verdict=decision.sentence,
        facts=tuple(_facts(report)),
        sections=tuple((title, make(report)) for title, make in SECTIONS),
        footer=(
            "All times are UTC. Rates are in per cent, gaps in points: above 0 the slice is worse"
            " off.",
            f"Written by {report.facts.program} from revision {report.revision.number} of the"
            f" Release of {report.revision.week}.",
        ),
    )


def _facts(report: WeeklyReport) -> list[tuple[str, str]]:
    revision, release = report.revision, report.release
    first, last = to_datetime(release.start), to_datetime(release.end - DAY)
    newest = (
        "the newest" if revision.number == report.newest else f"revision {report.newest} is newer"
    )
    return [
        ("week", f"{revision.week} (UTC), Monday {first:%Y-%m-%d} to Sunday {last:%Y-%m-%d}"),
        ("revision", f"{revision.number} ({newest})"),
        ("made when decisions were complete up to", moment_text(revision.as_of)),
        ("SHA-256 of the Release", revision.digest),
        ("written by", report.facts.program),
        ("SHA-256 of the settings", report.facts.settings_digest or NONE),
    ]
