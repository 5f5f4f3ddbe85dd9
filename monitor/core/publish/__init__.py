"""Publishable values: the Snapshot, its rows and tables, and what is suppressed in them."""
