"""Sequential tests of contracts: the only evidence that may wake somebody."""

__all__ = [
    "budget", "cluster_share", "cohort", "declared", "evidence_history", "mixture",
    "page_tests", "projection", "recovery", "streams", "watched", "weekly_evidence",
]  # fmt: skip
