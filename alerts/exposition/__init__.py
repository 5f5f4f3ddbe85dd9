"""Metrics: the catalogue, what fills it from a Snapshot and the process, and their exposition."""
