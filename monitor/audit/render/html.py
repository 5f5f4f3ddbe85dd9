"""Report as one HTML file: no script, no outside resource, every text escaped."""

from __future__ import annotations

from monitor.audit.audit_report import AuditReport
from monitor.audit.render.document import document
from monitor.audit.render.layout import AuditDocument
from monitor.drawing.templates import document_template

_TEMPLATE = "report.html.j2"


def render(report: AuditReport) -> str:
    """Render the page of an audit."""
    return page(document(report))


def page(contents: AuditDocument) -> str:
    """Render the page of a document."""
    return document_template(str(__package__), _TEMPLATE).render(report=contents)
