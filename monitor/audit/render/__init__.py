"""Renderers for people and pipelines: each module renders an AuditReport in one format."""

__all__ = ["as_json", "card_document", "html", "junit", "markdown", "terminal", "words"]
