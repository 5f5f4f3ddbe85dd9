"""Demo: a synthetic router and reviewers on an embedded broker."""

__all__ = ["demo_run", "table", "view"]
