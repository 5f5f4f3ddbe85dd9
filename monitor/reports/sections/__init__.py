"""Sections of the report that show planners' rows, or say why there are none."""

__all__ = ["context", "label_plans", "labels_and_changes", "pictures", "thresholds", "tipping"]
