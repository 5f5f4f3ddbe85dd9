"""Drawing of pages and reports: SVG, charts, tables, their style, CSV."""
