"""An AuditReport as a document (`document.py`), as JSON and as JUnit XML."""

__all__ = ["as_json", "card_document", "document", "junit"]
