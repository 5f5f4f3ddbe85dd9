"""The report as one HTML file: no script, nothing from elsewhere, every text escaped."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from urllib.parse import urlencode

from markupsafe import Markup

from monitor import drawing
from monitor.drawing.templates import document_template
from monitor.reports.document import FIRST_PAGE, document
from monitor.reports.weekly_report import TABLES, WeeklyReport

_TEMPLATE = "report.html.j2"


def render(report: WeeklyReport, home: str | None = None) -> str:
    """The page.

    Args:
        report: what it says.
        home: where the status page is, without a slash at its end; empty where the page is served
            beside it. By default as the settings say.
    """
    style = (resources.files(drawing) / "style.css").read_text(encoding="utf-8")
    ours = Markup(style)  # noqa: S704 - our own file
    template = document_template(str(__package__), _TEMPLATE)
    return template.render(
        report=document(report),
        style=ours,
        first_page=FIRST_PAGE,
        home=report.facts.status_url or None if home is None else home,
        links=tuple(_links(report)),
        dashboard_url=report.facts.dashboard_url,
    )


def _links(report: WeeklyReport) -> Iterator[tuple[str, str]]:
    """Pages and files of the status page that belong to the report: name and path."""
    of = {"week": report.revision.week, "revision": report.revision.number}
    yield "Status page", "/"
    yield "All weekly reports", "/reports"
    yield "JSON", f"/api/v1/report?{urlencode(of)}"
    for table in TABLES:
        yield f"CSV: {table}", f"/report.csv?{urlencode({**of, 'table': table})}"
