"""Planners: from the published numbers of a week to plans, what-ifs, tipping points.

Each planner is a pure function from a report to rows. It knows the Release and facts of the
settings, so nothing that it says could not be computed by a reader. Sections show its rows, and
the JSON file has all of them.
"""

__all__ = [
    "change", "criteria", "detectable", "gap_history", "label_budget", "multiplicity",
    "published_rates", "representation", "scorecard", "standardised", "threshold_what_if",
    "tipping_point",
]  # fmt: skip
