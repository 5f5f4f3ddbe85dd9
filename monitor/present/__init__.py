"""Documents for people: their model (`document.py`), a writer for each format, and charts."""

__all__ = ["charts", "csv_text", "document", "html", "markdown", "pdf", "plots", "terminal"]
