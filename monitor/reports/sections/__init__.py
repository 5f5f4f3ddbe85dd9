"""Sections of the report that are made of the planners' rows, or that say why there are none."""

__all__ = ["context", "label_plans", "labels_and_changes", "pictures", "thresholds", "tipping"]
