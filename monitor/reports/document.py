"""A report as sections in reading order; this module alone decides the order."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from monitor.core.publish.glossary import SYNTHETIC
from monitor.core.publish.words import NONE
from monitor.core.time import in_zone
from monitor.drawing.tables import Tone
from monitor.reports import background, changes, first_page, numbers
from monitor.reports.decision import decide
from monitor.reports.layout import Document, Section, cut
from monitor.reports.planned import KeptReport
from monitor.reports.sections import (
    context,
    label_plans,
    labels_and_changes,
    pictures,
    thresholds,
    tipping,
)
from monitor.reports.weekly_report import WeeklyReport

SECTIONS: tuple[tuple[str, Callable[[WeeklyReport], Section]], ...] = (
    ("In short", first_page.in_short),
    ("What was tested", first_page.what_was_tested),
    ("What failed", first_page.what_failed),
    ("What could not be measured, and why", first_page.what_is_not_known),
    ("What is needed for a decision", first_page.what_is_needed),
    ("Scorecard", context.scorecard),
    ("Use cases, contracts and limits", background.use_cases),
    ("Attributes: definition and source", background.attributes),
    ("How labels were sampled", background.sampling),
    ("Rates by slice", numbers.rates),
    ("Gaps and ratios against the contract", numbers.gaps),
    ("Gaps over time", pictures.over_time),
    ("Intersections", pictures.intersections),
    ("How many comparisons hold together", context.multiplicity),
    ("Gaps among alike requests", context.standardised),
    ("Tipping points: how wrong labels may be", tipping.tipping_points),
    ("Criteria that cannot hold together", context.criteria),
    ("Calibration", numbers.calibration),
    ("Blocked requests", context.blocked),
    ("Representation", context.representation),
    ("Change since last week", labels_and_changes.change),
    ("Changed since an earlier revision", changes.changed),
    ("Change since the frozen reference", labels_and_changes.reference),
    ("By version", labels_and_changes.by_version),
    ("Changes of contracts and thresholds", labels_and_changes.changes),
    ("Labels: coverage, delay, disagreement", labels_and_changes.labels),
    ("Blind random subsample", labels_and_changes.blind_subsample),
    ("What this week could find", label_plans.detectable_gaps),
    ("Label budget of next week", label_plans.budget),
    ("Threshold what-if", thresholds.what_if),
    ("Distinct thresholds", labels_and_changes.thresholds_used),
    ("Drift and advisory findings", background.findings),
    ("Incidents and pages", background.incidents),
    ("Flips of matched probes", labels_and_changes.probe_flips),
    ("Excluded and lost data", background.lost),
    ("Known limitations", background.limitations),
    ("Privacy", background.privacy),
    ("Who has read it", labels_and_changes.access),
    ("Limits of the method", background.method),
    ("Decision", background.decision),
    ("Signatures", background.signatures),
)
"""Every section of a report: its title, and the function that makes it. A report has all of them: a
section without numbers says why in a sentence."""

_ALL = "the JSON and CSV files"
FIRST_PAGE = 5
"""Number of sections on the first page."""


def document(report: WeeklyReport) -> Document:
    """Return the Document of a report for all formats; the last one is cached."""
    key = (
        *(report.revision, report.newest, report.before, report.facts, report.signatures),
        *(report.earlier, report.history),
    )
    return _document(KeptReport(key, report))


@lru_cache(maxsize=1)
def _document(kept: KeptReport) -> Document:
    report = kept.report
    decision = decide(report.release, report.zone)
    return Document(
        title=f"Weekly fairness report {report.revision.week}",
        banner=SYNTHETIC if report.synthetic else "",
        word=decision.word,
        tone=Tone.GOOD if decision.approved else Tone.BAD,
        verdict=decision.sentence,
        facts=tuple(_facts(report)),
        sections=tuple((title, cut(make(report), _ALL)) for title, make in SECTIONS),
        footer=(
            f"All times are {report.zone}. Rates are in per cent, gaps in points: above 0 the slice"
            " is worse off.",
            f"Written by {report.facts.program} from revision {report.revision.number} of the"
            f" Release of {report.revision.week}.",
        ),
    )


def _facts(report: WeeklyReport) -> list[tuple[str, str]]:
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
        ("revision", f"{revision.number} ({newest})"),
        ("made when decisions were complete up to", report.moment(revision.as_of)),
        ("SHA-256 of the Release", revision.digest),
        ("written by", report.facts.program),
        ("SHA-256 of the settings", report.facts.settings_digest or NONE),
    ]
