"""The weekly report as HTML, Markdown, PDF and CSV; as JSON, see `as_json.py`."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

from monitor.core.publish.release import Release
from monitor.core.time import SECOND
from monitor.present import html, markdown, pdf
from monitor.present.csv_text import written
from monitor.reports.document import document
from monitor.reports.frames import COLUMNS, weekly_rows
from monitor.reports.weekly_report import TABLES, WeeklyReport


def as_html(report: WeeklyReport, home: str | None = None) -> str:
    """Return the report as an HTML page; ``home`` is the site of its links (default: settings).

    Args:
        report: the report to render.
        home: URL of the status page, without a slash at its end; empty if the same server serves
            both. By default the URL of the settings.
    """
    site = report.facts.status_url or None if home is None else home
    return html.page(document(report), site, tuple(_links(report, site or "")))


def as_markdown(report: WeeklyReport) -> str:
    """Return the report as Markdown text, for a merge request or a wiki."""
    return markdown.whole(document(report))


def as_csv(release: Release) -> dict[str, str]:
    """Return CSV text by table (rates, gaps, calibration); withheld numbers are empty."""
    return {name: written(COLUMNS[name], rows) for name, rows in weekly_rows(release).items()}


def as_pdf(report: WeeklyReport) -> bytes:
    """Return the report as PDF bytes.

    Raises:
        SlicewatchError: WeasyPrint or a library that it needs is not installed.
    """
    revision = report.revision
    footer = f"slicewatch: week {revision.week}, revision {revision.number}"
    seconds = revision.as_of // SECOND
    return pdf.sheets(as_html(report), footer, synthetic=report.synthetic, seconds=seconds)


def _links(report: WeeklyReport, home: str) -> Iterator[tuple[str, str]]:
    """Yield (name, URL) of the status page's pages and files that belong to the report."""
    revision_query = {"week": report.revision.week, "revision": report.revision.number}
    yield "Status page", f"{home}/"
    yield "All weekly reports", f"{home}/reports"
    yield "JSON", f"{home}/api/v1/report?{urlencode(revision_query)}"
    for table in TABLES:
        table_query = urlencode({**revision_query, "table": table})
        yield f"CSV: {table}", f"{home}/report.csv?{table_query}"
    if report.facts.dashboard_url:
        yield "Dashboards", report.facts.dashboard_url
