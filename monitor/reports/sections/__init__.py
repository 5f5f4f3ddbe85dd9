"""Sections of the report that are made of the planners' rows, or that say why there are none."""
