"""Changes of verdicts against last week's report and against the last signed one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.publish.conclusion import LimitCheck, checks
from monitor.core.publish.release import Release, Revision
from monitor.core.publish.words import some_text
from monitor.present.document import Section
from monitor.reports.decision import decide
from monitor.reports.judged import UNDECIDED
from monitor.reports.weekly_report import WeeklyReport, of_release

_MOST_NAMED = 6
_Checks = Mapping[tuple[str, Metric, str], LimitCheck]


def change(report: WeeklyReport) -> Section:
    """Return a section on verdicts that differ from last week's and the last signed report's."""
    last_week = report.before
    sentences = [_against(report, "Last week's report", last_week)]
    if report.last_signed != last_week or last_week is None:
        sentences.append(_against(report, "Last signed report", report.last_signed))
    else:
        sentences.append("Last week's report is the last signed one.")
    return Section(notes=(" ".join(sentences),))


def _against(report: WeeklyReport, title: str, revision: Revision | None) -> str:
    if revision is None:
        return f"{title}: none."
    before = revision.release
    differences = " ".join(_differences(before, report.release)) or "No verdict has changed."
    name = f"{title} ({revision.week}, revision {revision.number})"
    return f"{name}: {decide(before).word}. {differences}"


def _differences(before: Release, now: Release) -> Iterator[str]:
    """Yield a sentence for each kind of change between two weeks."""
    versions = {table.contract: table.version for table in before.contracts}
    for table in now.contracts:
        version = versions.get(table.contract, table.version)
        if version != table.version:
            yield f"Contract {table.contract}: version {table.version}, was {version}."
    old, new = _checks(before), _checks(now)
    broken, was_broken = _with(new, Verdict.FAIL), _with(old, Verdict.FAIL)
    yield from _named("Newly over the limit", new, broken - was_broken)
    yield from _named("No longer over the limit", old, was_broken - broken)
    open_, was_open = _with(new, *UNDECIDED), _with(old, *UNDECIDED)
    yield from _named("No longer decided", new, open_ - was_open)
    yield from _named("Decided now", new, (was_open - open_) & new.keys())


def _checks(release: Release) -> _Checks:
    return {
        (table.contract, check.metric, check.name): check
        for table, window in of_release(release)
        for check in checks(table, window)
    }


def _with(judged: _Checks, *verdicts: Verdict) -> set[tuple[str, Metric, str]]:
    return {key for key, check in judged.items() if check.verdict in verdicts}


def _named(title: str, judged: _Checks, keys: set[tuple[str, Metric, str]]) -> Iterator[str]:
    """Yield one sentence that names the checks of ``keys``; none if there are none."""
    names = [f"{key[1].value} of {key[2]}" for key in judged if key in keys]
    if names:
        yield f"{title}: {some_text(names, _MOST_NAMED)}."
