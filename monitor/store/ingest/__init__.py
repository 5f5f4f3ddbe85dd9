"""Tables that a flush of an ingest worker writes in one transaction: deltas, join, dead letters."""

__all__ = ["decision_arrivals", "ingest_store", "label_arrivals"]
