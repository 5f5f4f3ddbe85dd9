"""Cohorts of labelled decisions go through detection, in order and once."""
