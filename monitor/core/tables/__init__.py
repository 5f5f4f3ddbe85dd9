"""Published tables: calendar spans, what a row and a table may show, and what is computed from it.

A table covers one span, is made once when the span has closed, and never changes. All that a reader
ever sees is computed from such tables alone, so there is nothing to subtract.
"""

__all__ = [
    "bands", "closed_span", "completeness", "counted", "design_effect", "layout", "rates", "reader",
    "row_counts", "settings", "spans", "windows",
]  # fmt: skip
