"""Publishable values: the Snapshot, its rows and tables, and what is suppressed in them."""

__all__ = [
    "act_input", "annotations", "backtests", "conclusion", "contract_tables", "decidable",
    "deciding_limit", "each_row", "encoding", "glossary", "headlines", "history",
    "incident_reports", "incidents", "limit_words", "limitations", "lines", "missing_labels",
    "needed_support", "pipeline", "reasons", "release", "rows", "side_by_side", "snapshot",
    "states", "suppression", "waiting", "waiting_words", "words",
]  # fmt: skip
