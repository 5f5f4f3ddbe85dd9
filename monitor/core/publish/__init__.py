"""Publishable values: the Snapshot, its rows and tables, and their words."""

__all__ = [
    "act_input", "agreement", "annotations", "backtests", "calendar_contract", "calendar_rates",
    "conclusion", "conditions", "decidable", "each_row", "encoding", "glossary",
    "headlines", "history", "incident_reports", "incidents", "limit_words", "limitations",
    "lines", "missing_labels", "needed_support", "pipeline", "reasons", "recurrence", "release",
    "side_by_side", "sides", "snapshot", "states", "window_notes", "window_says",
    "words",
]  # fmt: skip
