"""Drawing of pages and reports: SVG, charts, tables, their style, CSV."""

__all__ = ["charts", "csv_text", "markdown", "plots", "tables", "templates"]
