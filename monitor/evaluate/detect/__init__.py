"""Cohorts of labelled decisions go through detection, in order and once."""

__all__ = ["cohorts_in_order", "detection_inputs"]
