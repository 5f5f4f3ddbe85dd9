"""What pages and reports are drawn with: SVG, charts, tables, their style, CSV."""
