"""Integer counts by cell: what a cell is, how decisions are coded into it, how cells are summed."""

__all__ = [
    "audit_grid", "cells", "clusters", "coding", "completeness", "labels", "rollup", "strata",
]  # fmt: skip
