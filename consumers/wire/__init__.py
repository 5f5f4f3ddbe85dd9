"""Messages in the wire format of a schema registry: Avro, read by its writer's schema.

A message is a byte of zero, the number of its schema (four bytes, the highest first), and Avro.
Messages that begin otherwise are JSON, such as events that slicewatch writes to the same topic.
"""

from consumers.wire.messages import AvroMessages
from consumers.wire.registry import RegistryAccess, SchemaRegistry
from consumers.wire.schema_gate import SchemaGate
from consumers.wire.schemas import WriterSchemas

__all__ = ["AvroMessages", "RegistryAccess", "SchemaGate", "SchemaRegistry", "WriterSchemas"]
