"""The demo: a synthetic router and reviewers on an embedded broker."""
