"""Planners: from the published numbers of a week to plans, what-ifs, tipping points.

Each planner is a pure function from a report to rows. It knows only the Release and the settings,
so a reader could compute the same rows. Sections show the rows; the JSON file has all of them.
"""

__all__ = [
    "criteria", "detectable", "label_budget", "published_rates", "representation",
    "standardised", "threshold_what_if", "tipping_point", "trends",
]  # fmt: skip
