"""Sections of the report that show planners' rows; a section without rows is empty."""

__all__ = ["context", "label_plans", "thresholds"]
