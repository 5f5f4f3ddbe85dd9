"""Record sources: files, Kafka clients and a broker in memory, all behind one port."""

__all__ = [
    "event_log", "file_source", "inbox", "kafka_admin", "kafka_preflight", "kafka_source",
    "kafka_writer", "librdkafka_source", "log_source",
]  # fmt: skip
