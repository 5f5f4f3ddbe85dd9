"""Matched pairs and probe decisions: which flip, and at which stage of the router."""

__all__ = ["flips", "probe_decisions", "rounds"]
