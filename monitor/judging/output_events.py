"""Model outputs and their judgements on the wire.

null and absent mean the same. Undeclared fields are dropped unread.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from consumers.event_words import reason_and_field
from consumers.events import AttributeValue, Identifier, Moment, VersionName
from monitor.judging.findings import Finding

Status = Literal["judged", "failed", "unreadable"]


class OutputHead(Struct, kw_only=True, frozen=True):
    """Fields that say whose output it is: enough to count it where it cannot be judged."""

    output_id: Identifier
    produced_at: Moment
    attributes: dict[str, AttributeValue] = {}
    model: VersionName | None = None


class ModelOutput(OutputHead, kw_only=True, frozen=True):
    """Text that a model wrote, sampled for review and sent to the judge.

    Attributes:
        output_id: unique; key its Kafka message by it.
        produced_at: when the model wrote it.
        output: the text.
        input: what the model was asked.
        context: what it was given to answer from.
        attributes: of the request, as in decisions.
        model: version of the model.
    """

    output: Annotated[str, Meta(min_length=1)]
    input: str | None = None
    context: str | None = None


class _OutputName(Struct, frozen=True):
    output_id: Identifier


class Judgement(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Result of judging one output, as an event; it never quotes the text of the output.

    Attributes:
        output_id: of the output; None where it could not be read.
        status: judged, failed (the judge gave no usable answer), or unreadable.
        why: what failed, or could not be read.
        judged_at: when.
        score: from 0 to 100 (nothing was flagged); only where every piece was judged.
        flagged: whether there is any finding.
        findings: passages, in the order of the text.
        chunks: pieces that the text was judged in.
        judge: model that judged.
        prompt_version: of the template.
        prompt_sha256: of the instructions.
    """

    output_id: Identifier | None = None
    status: Status
    why: str | None = None
    judged_at: str
    score: int | None = None
    flagged: bool | None = None
    findings: tuple[Finding, ...] = ()
    chunks: int = 0
    judge: str
    prompt_version: str
    prompt_sha256: str


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schemas of outputs and judgements, by file name for deploy/schemas."""
    return {
        name: {"$schema": "https://json-schema.org/draft/2020-12/schema"}
        | msgspec.json.schema(type_)
        for name, type_ in (("model_output", ModelOutput), ("judgement", Judgement))
    }


class UnreadableOutputError(ValueError):
    """Error for a message that is no model output; the text names the field.

    Attributes:
        output_id: id of the output; None where that cannot be read either.
        head: whose output it is; None where that cannot be read.
    """

    def __init__(self, why: str, value: bytes = b"") -> None:
        super().__init__(why)
        self.output_id: str | int | None = None
        self.head: OutputHead | None = None
        with suppress(ValueError, RecursionError):
            self.output_id = _decode_name(value).output_id
            self.head = _decode_head(value)


_decode = msgspec.json.Decoder(ModelOutput).decode
_decode_head = msgspec.json.Decoder(OutputHead).decode
_decode_name = msgspec.json.Decoder(_OutputName).decode
encode = msgspec.json.Encoder().encode


def read_output(value: bytes) -> ModelOutput:
    """Decode the JSON bytes of a message into a ModelOutput.

    Raises:
        UnreadableOutputError: it is no output; the error never quotes it.
    """
    if not value:
        raise UnreadableOutputError("an empty message")
    try:
        output = _decode(value)
    except msgspec.ValidationError as error:
        raise UnreadableOutputError(_field_problem(error), value) from None
    except (ValueError, RecursionError):
        raise UnreadableOutputError("not JSON") from None
    if not output.output.strip():
        raise UnreadableOutputError("field output is blank", value)
    return output


def _field_problem(error: msgspec.ValidationError) -> str:
    """Explain a validation error by its top-level field, without any content of the message."""
    _, field = reason_and_field(error)
    if not field:
        return "not an object of the schema"
    problem = "missing" if "missing required" in str(error) else "not as in the schema"
    return f"field {field.partition('.')[0]} is {problem}"
