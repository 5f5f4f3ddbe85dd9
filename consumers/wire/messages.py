"""Conversion of a batch's Avro messages to JSON, for everything that reads events."""

from __future__ import annotations

from dataclasses import replace

from consumers.dead_letters import DeadLetterBuffer
from consumers.wire.schemas import WriterSchemas, schema_number
from consumers.wire.writer_schema import UnreadableError
from monitor.records import RecordBatch

_HEADER = 5
_JSON_STARTS = (b"{", b"[", b" ", b"\t", b"\r", b"\n")


class AvroMessages:
    """Converter of Avro messages to JSON by their writers' schemas.

    Args:
        schemas: schemas of the registry.
    """

    def __init__(self, schemas: WriterSchemas) -> None:
        self.schemas = schemas

    def as_json(self, records: RecordBatch, dead_letters: DeadLetterBuffer) -> RecordBatch:
        """Return the batch with Avro as JSON; unreadable messages go to ``dead_letters`` instead.

        Raises:
            SourceError: as for :meth:`WriterSchemas.get`.
        """
        rows: list[int] = []
        values: list[bytes | None] = []
        for row, value in enumerate(records.values):
            try:
                values.append(self._json(value))
                rows.append(row)
            except UnreadableError as error:
                dead_letters.refuse(records.offsets[row], 0, str(error), "")
        if len(rows) == len(records.values):
            return replace(records, values=values)
        offsets = [records.offsets[row] for row in rows]
        stamps = [records.timestamps[row] for row in rows]
        return replace(records, offsets=offsets, values=values, timestamps=stamps)

    def _json(self, value: bytes | None) -> bytes | None:
        """Return an Avro message as JSON, and JSON as it is; refuse an unknown schema."""
        number = schema_number(value)
        if value is None or number is None:
            if value and not value.startswith(_JSON_STARTS):
                raise UnreadableError("malformed_avro")
            return value
        schema = self.schemas.get(number)
        if schema is None or schema.unusable:
            raise UnreadableError("unknown_schema")
        return schema.to_json(value[_HEADER:])
