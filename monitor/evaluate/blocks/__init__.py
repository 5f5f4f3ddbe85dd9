"""Blocks of counts: when they may be published, what is held back, what came late."""
