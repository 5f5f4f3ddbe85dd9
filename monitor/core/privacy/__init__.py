"""Protection of small groups: bands, pooling, support guards, dominance, order of families."""
