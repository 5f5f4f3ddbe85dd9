"""Bias evaluations as a scorecard: independent dimensions, each with its own set, limit and owner.

There is no total. A dimension that passes says nothing about another one.
"""

__all__ = ["card", "card_file", "files", "measures", "scoring"]
