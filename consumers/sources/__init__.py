"""Record sources: files, Kafka clients and a broker in memory, all behind one port."""

__all__ = [
    "file_source", "kafka_admin", "kafka_preflight", "kafka_source", "kafka_writer",
    "librdkafka_source",
]  # fmt: skip
