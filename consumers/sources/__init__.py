"""Record sources: where messages come from, all behind one port."""

__all__ = [
    "file_source", "kafka_admin", "kafka_preflight", "kafka_source", "kafka_writer",
    "librdkafka_source",
]  # fmt: skip
