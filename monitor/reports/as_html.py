"""The report as one HTML file: no script, nothing from elsewhere, every text escaped."""

from __future__ import annotations

from functools import cache
from importlib import resources

import jinja2
from markupsafe import Markup

from monitor import drawing
from monitor.reports.document import FIRST_PAGE, document
from monitor.reports.weekly_report import WeeklyReport

_TEMPLATE = "report.html.j2"


def render(report: WeeklyReport) -> str:
    """The page."""
    style = (resources.files(drawing) / "style.css").read_text(encoding="utf-8")
    ours = Markup(style)  # noqa: S704 - our own file
    return _template().render(report=document(report), style=ours, first_page=FIRST_PAGE)


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    text = (resources.files(__package__) / _TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(text)
