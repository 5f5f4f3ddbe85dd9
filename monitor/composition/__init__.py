"""Construction of all parts of the service from the settings.

This package alone builds them. Kafka clients and web server are imported where they are used: most
commands do not need them, and importing them is a third of the start.
"""

__all__ = ["brokers", "embedded", "evaluator", "ingest", "servers", "site", "store"]
