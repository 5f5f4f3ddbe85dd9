"""Ingest of events: types, codecs, record sources, and the loop of a worker."""

__all__ = [
    "asyncapi", "codec", "coder", "collaborators", "dead_letters", "dedupe", "event_time",
    "event_words", "events", "field_values", "ingest", "mapping", "probe_signing", "producing",
    "receiving", "shard", "sources", "tolerance", "unknown_fields", "wire",
]  # fmt: skip
