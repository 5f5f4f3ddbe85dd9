"""Incidents: how they begin, are acknowledged and end."""

__all__ = ["book", "incidents"]
