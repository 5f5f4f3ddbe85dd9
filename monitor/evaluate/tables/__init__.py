"""Calendar tables are made here: which spans are due, and their tables."""

__all__ = ["calendar"]
