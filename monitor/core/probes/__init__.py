"""Matched pairs and probe decisions: which flip, and at which stage of the router."""
