"""Protection of small groups: bands, pooling, support guards, dominance, order of families."""

__all__ = [
    "bands", "dominance", "exchange", "families", "guards", "linear_audit", "periods",
    "pooling", "release_blocks", "rules",
]  # fmt: skip
