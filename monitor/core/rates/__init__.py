"""Rates and gaps with their intervals."""

__all__ = ["effective", "estimates", "gap_words", "gaps", "tolerance"]
