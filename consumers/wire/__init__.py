"""Messages in the wire format of a schema registry: Avro as its writer's schema has it.

A message is a byte of zero, the number of its schema (four bytes, the highest first), and what the
schema's writer wrote. A message that begins otherwise is JSON: events that slicewatch writes to the
same topic are.
"""

from consumers.wire.messages import AvroMessages
from consumers.wire.registry import RegistryAccess, SchemaRegistry
from consumers.wire.schema_gate import SchemaGate
from consumers.wire.schemas import WriterSchemas

__all__ = ["AvroMessages", "RegistryAccess", "SchemaGate", "SchemaRegistry", "WriterSchemas"]
