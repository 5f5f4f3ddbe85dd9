"""What hides the few: bands, pooling, support guards, dominance, the order of slice families."""
