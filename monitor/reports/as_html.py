"""HTML form of the report: one file, without scripts or outside files, every text escaped."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from urllib.parse import urlencode

from markupsafe import Markup

from monitor import drawing
from monitor.drawing.templates import document_template
from monitor.reports.document import document
from monitor.reports.weekly_report import TABLES, WeeklyReport

_TEMPLATE = "report.html.j2"


def render(report: WeeklyReport, home: str | None = None) -> str:
    """Return the report as an HTML page; ``home`` is the site of its links (default: settings).

    Args:
        report: the report to render.
        home: URL of the status page, without a slash at its end; empty if the same server serves
            both. By default the URL of the settings.
    """
    style = (resources.files(drawing) / "style.css").read_text(encoding="utf-8")
    safe_style = Markup(style)  # noqa: S704 - our own file
    template = document_template(str(__package__), _TEMPLATE)
    return template.render(
        report=document(report),
        style=safe_style,
        home=report.facts.status_url or None if home is None else home,
        links=tuple(_links(report)),
        dashboard_url=report.facts.dashboard_url,
    )


def _links(report: WeeklyReport) -> Iterator[tuple[str, str]]:
    """Yield (name, path) of the status page's pages and files that belong to the report."""
    revision_query = {"week": report.revision.week, "revision": report.revision.number}
    yield "Status page", "/"
    yield "All weekly reports", "/reports"
    yield "JSON", f"/api/v1/report?{urlencode(revision_query)}"
    for table in TABLES:
        yield f"CSV: {table}", f"/report.csv?{urlencode({**revision_query, 'table': table})}"
