"""The weekly reports by path: their list, and each revision as page, JSON and CSV."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from monitor.core.publish.release import Revision, StoredWeek
from monitor.core.time import IsoWeek, to_datetime
from monitor.drawing.csv_text import written
from monitor.reports import ReportFacts, WeeklyReport, as_html, as_json
from monitor.reports.as_json import signature_lines
from monitor.reports.decision import WeekDecision, decide
from monitor.reports.weekly_report import TABLES
from monitor.web.contents import ReportLine, ReportList
from monitor.web.links import NothingThereError, ReportView
from monitor.web.published import Published

MAX_REPORTS = 60
"""Weeks in the list: a little over a year, for which revisions are kept by default."""

_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_COLUMNS = ("week", "revision", "as_of", "decision", "verdict", "digest", "signatures")


class ReportViews:
    """Lists and renders weekly reports; any thread may use it."""

    def __init__(self, published: Published, facts: ReportFacts) -> None:
        """Nothing is read yet.

        Args:
            published: what there is to show.
            facts: of the settings.
        """
        self._published = published
        self._facts = facts
        self._decided: dict[tuple[str, int, int], _Decided] = {}

    def list(self) -> ReportList:
        """The newest weeks that have a Release."""
        found = self._published.weeks(MAX_REPORTS + 1)
        lines = tuple(self._line(one) for one in found[:MAX_REPORTS])
        return ReportList(tuple(one for one in lines if one), len(found) > MAX_REPORTS)

    def page(self, request: Request) -> str:
        """A report, with links that lead to the pages beside it."""
        return as_html.render(self._report(request), home="")

    def document(self, request: Request) -> Response:
        """A report as the command writes it, byte for byte."""
        return Response(as_json.render(self._report(request)), media_type="application/json")

    def table(self, request: Request) -> tuple[str, str]:
        """Name and text of one of the CSV files."""
        # pandas takes half a second: whoever reads no such file does not wait for it.
        from monitor.reports import as_csv  # noqa: PLC0415

        report = self._report(request)
        name = _view(request).table or TABLES[0]
        return f"{report.revision.week}-{name}", as_csv.render(report.release)[name]

    def _report(self, request: Request) -> WeeklyReport:
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

    def _line(self, week: StoredWeek) -> ReportLine | None:
        """A line of the list; None where retention has deleted the week meanwhile."""
        key = week.week, week.newest, week.size
        known = self._decided.get(key)
        if known is None:
            stored = self._published.revision(IsoWeek.named(week.week), week.newest)
            if stored is None:
                return None
            known = self._decided[key] = _Decided.from_revision(stored)
        return ReportLine(
            week=week.week,
            revision=week.newest,
            revisions=week.revisions,
            as_of=to_datetime(known.as_of),
            decision=known.decision.word,
            verdict=known.decision.sentence,
            digest=known.digest,
            signatures=signature_lines(week.signatures, known.digest),
        )


@dataclass(frozen=True, slots=True)
class _Decided:
    """Line about a revision: kept, since its tables are large."""

    as_of: int
    digest: str
    decision: WeekDecision

    @classmethod
    def from_revision(cls, revision: Revision) -> _Decided:
        return cls(revision.as_of, revision.digest, decide(revision.release))


def policy(page: str) -> str:
    """Content that a browser may load for a report: its own style, and nothing else."""
    styles = " ".join(f"'sha256-{_hashed(one)}'" for one in _STYLE.findall(page))
    return f"default-src 'none'; style-src {styles}; base-uri 'none'; frame-ancestors 'none'"


def _hashed(style: str) -> str:
    return base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


def as_csv_file(page: ReportList) -> str:
    """The list, a week a row."""
    return written(_COLUMNS, (_row(one) for one in page.reports))


def _row(one: ReportLine) -> list[object]:
    signed = "; ".join(each.signature.by for each in one.signatures if each.of_this_revision)
    return [one.week, one.revision, one.as_of, one.decision, one.verdict, one.digest, signed]


def _view(request: Request) -> ReportView:
    return ReportView.parse(dict(request.query_params), TABLES)
