"""Rates and gaps with their intervals."""
