"""Planners: from the published numbers of a week to plans, what-ifs, tipping points.

Each planner is a pure function from a report to rows. It knows only the Release and the settings,
so a reader could compute the same rows. Sections show the rows; the JSON file has all of them.
"""

__all__ = [
    "change", "criteria", "detectable", "gap_history", "label_budget", "multiplicity",
    "published_rates", "representation", "scorecard", "standardised", "threshold_what_if",
    "tipping_point",
]  # fmt: skip
