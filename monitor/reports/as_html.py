"""The report as one HTML file: no script, nothing from elsewhere, every text escaped."""

from __future__ import annotations

from importlib import resources

from markupsafe import Markup

from monitor import drawing
from monitor.drawing.templates import document_template
from monitor.reports.document import FIRST_PAGE, document
from monitor.reports.weekly_report import WeeklyReport

_TEMPLATE = "report.html.j2"


def render(report: WeeklyReport) -> str:
    """The page."""
    style = (resources.files(drawing) / "style.css").read_text(encoding="utf-8")
    ours = Markup(style)  # noqa: S704 - our own file
    template = document_template(str(__package__), _TEMPLATE)
    return template.render(report=document(report), style=ours, first_page=FIRST_PAGE)
