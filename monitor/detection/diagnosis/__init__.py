"""Diagnosis of a breach: the stage of the router and the smallest slice that explain it."""

__all__ = ["explain", "stages"]
