"""Weekly reports by path: their list, and each revision as page, JSON and CSV."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from monitor.core.publish.release import Revision, StoredWeek
from monitor.core.time import IsoWeek, to_datetime
from monitor.present.csv_text import written
from monitor.reports import ReportFacts, WeeklyReport, as_json
from monitor.reports.as_json import signature_lines
from monitor.reports.decision import WeekDecision, decide
from monitor.reports.formats import as_csv, as_html
from monitor.reports.weekly_report import TABLES
from monitor.web.contents import ReportLine, ReportList
from monitor.web.links import NothingThereError, ReportView
from monitor.web.published import Published

MAX_REPORTS = 60
"""Number of weeks in the list: a little over a year, as long as revisions are kept by default."""

_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_COLUMNS = ("week", "revision", "as_of", "decision", "verdict", "digest", "signatures")


class ReportViews:
    """Views of weekly reports (list, HTML, JSON, CSV) for the site; any thread may use them."""

    def __init__(self, published: Published, facts: ReportFacts) -> None:
        """Keep the reader and the facts; the cache of revisions is empty.

        Args:
            published: reader of Releases.
            facts: facts from the settings.
        """
        self._published = published
        self._facts = facts
        self._decided: dict[tuple[str, int, int], _RevisionSummary] = {}

    def list(self) -> ReportList:
        """Return a ReportList of the newest weeks with a Release, at most MAX_REPORTS."""
        weeks = self._published.weeks(MAX_REPORTS + 1)
        lines = tuple(self._report_line(week) for week in weeks[:MAX_REPORTS])
        return ReportList(tuple(line for line in lines if line), len(weeks) > MAX_REPORTS)

    def page(self, request: Request) -> str:
        """Return the report that a request names, as HTML with links to pages of this site."""
        return as_html(self._report(request), home="")

    def document(self, request: Request) -> Response:
        """Return the report that a request names as a JSON response, as the command writes it."""
        return Response(as_json.render(self._report(request)), media_type="application/json")

    def table(self, request: Request) -> tuple[str, str]:
        """Return (name, CSV text) of the table that a request names."""
        report = self._report(request)
        name = _view(request).table or TABLES[0]
        return f"{report.revision.week}-{name}", as_csv(report.release)[name]

    def _report(self, request: Request) -> WeeklyReport:
        """Return the report that a link names, by default the newest; an error without one."""
        view = _view(request)
        newest = self._published.weeks(1)
        week = view.week or (IsoWeek.named(newest[0].week) if newest else None)
        stored = None if week is None else self._published.report(week, view.revision)
        if stored is None:
            if not newest:
                raise NothingThereError(
                    "no week has been released yet: none that was counted ended"
                )
            raise NothingThereError(
                "there is no Release of that week and revision any more, or yet"
            )
        return WeeklyReport.from_stored(stored, self._facts)

    def _report_line(self, week: StoredWeek) -> ReportLine | None:
        """Return the list's line on a week, from a cache; None if retention deleted the week."""
        key = week.week, week.newest, week.size
        decided = self._decided.get(key)
        if decided is None:
            stored = self._published.revision(IsoWeek.named(week.week), week.newest)
            if stored is None:
                return None
            decided = self._decided[key] = _RevisionSummary.from_revision(stored)
        return ReportLine(
            week=week.week,
            revision=week.newest,
            revisions=week.revisions,
            as_of=to_datetime(decided.as_of),
            decision=decided.decision.word,
            verdict=decided.decision.sentence,
            digest=decided.digest,
            signatures=signature_lines(week.signatures, decided.digest),
        )


@dataclass(frozen=True, slots=True)
class _RevisionSummary:
    """Time, digest and decision of a revision in the list of reports; cached, slow to decode."""

    as_of: int
    digest: str
    decision: WeekDecision

    @classmethod
    def from_revision(cls, revision: Revision) -> _RevisionSummary:
        return cls(revision.as_of, revision.digest, decide(revision.release))


def policy(page: str) -> str:
    """Return the content policy of a report page: it admits the page's own styles alone."""
    styles = " ".join(f"'sha256-{_hashed(style)}'" for style in _STYLE.findall(page))
    return f"default-src 'none'; style-src {styles}; base-uri 'none'; frame-ancestors 'none'"


def _hashed(style: str) -> str:
    return base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


def as_csv_file(page: ReportList) -> str:
    """Return CSV text of the list of reports, one row per week."""
    return written(_COLUMNS, (_row(line) for line in page.reports))


def _row(line: ReportLine) -> list[object]:
    signers = "; ".join(
        signature_line.signature.by
        for signature_line in line.signatures
        if signature_line.of_this_revision
    )
    return [line.week, line.revision, line.as_of, line.decision, line.verdict, line.digest, signers]


def _view(request: Request) -> ReportView:
    return ReportView.parse(dict(request.query_params), TABLES)
