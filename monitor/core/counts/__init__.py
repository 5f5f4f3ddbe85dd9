"""Integer counts by cell: cells, the coding of decisions into cells, and sums of cells."""

__all__ = [
    "cells", "clusters", "coding", "completeness", "labels", "rollup", "strata",
]  # fmt: skip
