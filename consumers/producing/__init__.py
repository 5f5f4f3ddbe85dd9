"""The producer's side: a router makes, samples and sends its decisions and labels with it.

It imports msgspec and the standard library only; a Kafka client is imported when it is used.
deploy/docs/producers.md begins with an example.
"""

from consumers.producing.avro import avro
from consumers.producing.making import EventError, Message, decision_message, label_message
from consumers.producing.producer import Drawn, Producer
from consumers.producing.sampling import AuditDraw, AuditSampler
from consumers.producing.transports import (
    Encode,
    Open,
    Topics,
    Transport,
    TransportError,
    confluent,
    http,
    kafka_python,
)

__all__ = [
    "AuditDraw", "AuditSampler", "Drawn", "Encode", "EventError", "Message", "Open", "Producer",
    "Topics", "Transport", "TransportError", "avro", "avro_schema", "confluent",
    "decision_message", "http", "kafka_python", "label_message", "transports",
]  # fmt: skip
