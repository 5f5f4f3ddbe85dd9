"""Blocks of counts: when they may be published, what is held back, what came late."""

__all__ = [
    "closing", "family_state", "late_counts", "losses", "merge_maps", "published_blocks",
    "release_blocks", "units", "week_rests", "windows",
]  # fmt: skip
