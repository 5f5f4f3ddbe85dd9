"""The Snapshot is put together from rates, findings, diagnosis and incidents."""

__all__ = [
    "label_faults", "losses", "published_calendar", "published_findings", "publisher",
    "request_faults", "version_changes", "weeks",
]  # fmt: skip
