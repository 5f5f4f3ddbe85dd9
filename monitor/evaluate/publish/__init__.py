"""The Snapshot is put together from rates, findings, diagnosis and incidents."""

__all__ = ["label_faults", "published_findings", "publisher", "request_faults", "weeks"]
