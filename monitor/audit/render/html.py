"""The report as one HTML file: no script, nothing from elsewhere, every text escaped."""

from __future__ import annotations

from functools import cache
from importlib import resources

import jinja2

from monitor.audit.render.document import document
from monitor.audit.report import AuditReport

_TEMPLATE = "report.html.j2"


def render(report: AuditReport) -> str:
    """The page."""
    return _template().render(report=document(report))


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
