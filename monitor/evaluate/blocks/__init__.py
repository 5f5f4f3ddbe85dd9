"""Blocks of counts: when they may be published, what is held back, what came late."""

__all__ = [
    "closing", "family_state", "late_counts", "losses", "published_blocks",
    "release_blocks", "units", "week_rests", "windows",
]  # fmt: skip
