"""Events as Avro in the wire format of a schema registry.

This needs the package fastavro. While a registry is away events wait, as for a broker.
"""

from __future__ import annotations

import io
import json
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

import msgspec

from consumers.events import Decision, Label
from consumers.producing.avro_schema import SCHEMAS
from consumers.producing.making import Kind, Message
from consumers.producing.transports import Encode, Topics, TransportError

_TYPES: Mapping[Kind, type[msgspec.Struct]] = {"decision": Decision, "label": Label}
_IDS = ("decision_id", "label_id", "unit", "pair_id", "reviewer")
_TIMES = ("decided_at", "labelled_at")
_NOT_FOUND = 404
_LONGEST = 1 << 63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)


def avro(
    url: str,
    topics: Topics | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    ca_file: str | Path | None = None,
    register: bool = True,
    timeout: float = 10.0,
) -> Encode:
    """Return an encoder of events as Avro: ``kafka_python(servers, encode=avro(url))``.

    The schemas are those of deploy/schemas, under the subjects ``TOPIC-value``.

    Args:
        url: address of the registry, with the path of its Confluent interface where it has one.
        topics: topics of the transport; None for the default ones.
        headers: headers that the registry needs, such as ``Authorization``.
        ca_file: authority of the registry's certificate; None takes the system's.
        register: register a schema that the registry lacks; else events wait until somebody does.
        timeout: seconds for each answer.

    Raises:
        ValueError: the address is not valid.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("url must begin with http:// or https:// and name a host")
    context = ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None
    registry = _Registry(url.rstrip("/"), dict(headers or {}), context, timeout)
    return _Encoder(registry, topics or Topics(), register=register).encode


class _Registry:
    """Client of a schema registry that looks up or registers schemas."""

    def __init__(
        self, url: str, headers: dict[str, str], context: ssl.SSLContext | None, timeout: float
    ) -> None:
        self._url = url
        self._headers = {"Content-Type": "application/vnd.schemaregistry.v1+json", **headers}
        self._context = context
        self._timeout = timeout

    def number(self, subject: str, schema: Mapping[str, Any], *, register: bool) -> int:
        """Return the registry's number for a subject's schema; register it if allowed."""
        path, body = (
            f"/subjects/{quote(subject, safe='')}",
            json.dumps({"schema": json.dumps(schema)}),
        )
        try:
            return self._post(path, body)
        except HTTPError as error:
            error.close()
            if error.code != _NOT_FOUND or not register:
                raise TransportError(f"schema registry: HTTP status {error.code}") from None
        try:
            return self._post(f"{path}/versions", body)
        except HTTPError as error:
            error.close()
            raise TransportError(f"schema registry: HTTP status {error.code}") from None

    def _post(self, path: str, body: str) -> int:
        """Register a schema, and return its id."""
        request = Request(self._url + path, body.encode(), self._headers)  # noqa: S310 - checked
        try:
            with urlopen(  # noqa: S310 - http or https, as checked
                request, timeout=self._timeout, context=self._context
            ) as answer:
                return int(json.loads(answer.read())["id"])
        except HTTPError:
            raise
        except (HTTPException, OSError, ValueError, KeyError, TypeError) as error:
            raise TransportError(f"schema registry: {type(error).__name__}") from error


class _Encoder:
    """Encoder of events as Avro, which asks the registry once for each kind of event."""

    def __init__(self, registry: _Registry, topics: Topics, *, register: bool) -> None:
        self._registry = registry
        self._topics = topics
        self._register = register
        self._ready: dict[Kind, tuple[bytes, Any]] = {}

    def encode(self, message: Message) -> bytes:
        from fastavro import schemaless_writer  # noqa: PLC0415 - only where it is used

        header, schema = self._ready.get(message.kind) or self._prepare(message)
        out = io.BytesIO(header)
        out.seek(len(header))
        schemaless_writer(out, schema, _avro_record(message))
        return out.getvalue()

    def _prepare(self, message: Message) -> tuple[bytes, Any]:
        """Return the header and parsed schema of a kind of event, and keep both."""
        from fastavro import parse_schema  # noqa: PLC0415 - only where it is used

        schema, subject = SCHEMAS[message.kind], f"{self._topics.of(message)}-value"
        number = self._registry.number(subject, schema, register=self._register)
        header_and_schema = b"\x00" + number.to_bytes(4, "big"), parse_schema(schema)
        self._ready[message.kind] = header_and_schema
        return header_and_schema


def _avro_record(message: Message) -> dict[str, Any]:
    """Return an event's fields as Avro needs them: ids as text, times in whole microseconds."""
    event = msgspec.structs.asdict(msgspec.json.decode(message.value, type=_TYPES[message.kind]))
    for name in _IDS:
        if event.get(name) is not None:
            event[name] = str(event[name])
    for name in _TIMES:
        if name in event:
            event[name] = _micros(event[name])
    if "attributes" in event:
        event["attributes"] = {name: _fit_long(part) for name, part in event["attributes"].items()}
    if event.get("versions") is not None:
        event["versions"] = msgspec.structs.asdict(event["versions"])
    return event


def _micros(moment: datetime | int) -> int:
    return moment * 1000 if isinstance(moment, int) else (moment - _EPOCH) // _MICRO


def _fit_long(value: Any) -> Any:
    """Return an integer too large for Avro as its digits, and any other value unchanged."""
    fits = not isinstance(value, int) or -_LONGEST <= value < _LONGEST
    return value if fits else str(value)
