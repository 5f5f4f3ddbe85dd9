"""Report as one HTML file: no script, no outside resource, every text escaped."""

from __future__ import annotations

from monitor.audit.audit_report import AuditReport
from monitor.audit.render.document import document
from monitor.audit.render.layout import AuditDocument
from monitor.drawing.templates import document_template

_TEMPLATE = "report.html.j2"


def render(report: AuditReport) -> str:
    """Render the report of an audit as one HTML page."""
    return page(document(report))


def page(contents: AuditDocument) -> str:
    """Render a laid-out document as one HTML page."""
    return document_template(str(__package__), _TEMPLATE).render(report=contents)
