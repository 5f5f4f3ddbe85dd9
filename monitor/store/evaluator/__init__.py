"""Tables that the evaluator alone writes, behind its lease."""

__all__ = [
    "calendar_tables", "cells", "cluster_days", "lease", "pane_sums", "probe_sets",
    "published_tables", "published_values", "records", "span_sums", "store",
    "stored_detection", "stored_incidents", "weekly_releases",
]  # fmt: skip
