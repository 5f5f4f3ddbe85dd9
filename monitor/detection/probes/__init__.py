"""The sequential test of flips between the variants of matched pairs."""
