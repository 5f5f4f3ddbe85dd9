"""A client of schema registries: the writer's schema by its number, with all that it refers to.

What Confluent's registry, Karapace, Apicurio (under ``/apis/ccompat/v7``) and Redpanda have in
common is enough. An answer that is not the registry's own, of a proxy say, counts as none: what
waits for it is not lost then.

Source: the REST interface of Confluent's Schema Registry, ``GET /schemas/ids/{id}``.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from time import monotonic
from urllib.parse import quote

import msgspec
import urllib3

from monitor.errors import AccessError, SourceError

KEY = "stream.schema_registry"
SECONDS = 3.0
"""Time that one answer may take: meanwhile nothing else is read."""
MOST_SECONDS = 6.0
"""Time for one schema with all that it refers to."""
LARGEST_ANSWER = 1 << 20
"""Bytes. Schemas of events have a few thousand."""
MAX_SCHEMAS = 32
"""Schemas that one may refer to, those included that these refer to."""
_OK, _NOT_FOUND = 200, 404
_REFUSED = (401, 403)
_NO_SUCH = range(40400, 40500)
"""Codes of the registry's own: it has no such schema, subject or version."""


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _RegistryAnswer(msgspec.Struct, rename="camel"):
    schema: str | None = None
    schema_type: str | None = None
    references: list[_Reference] | None = None
    error_code: int | None = msgspec.field(default=None, name="error_code")


_decode = msgspec.json.Decoder(_RegistryAnswer).decode


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """Address of a registry, and what it asks for.

    Attributes:
        url: without a slash at its end.
        username: for basic authentication, with
        password: its password.
        token: bearer token, in place of these.
        ca_file: authorities of its certificate; None takes the system's.
        cert_file: certificate of this client, with
        key_file: its key.
    """

    url: str
    username: str | None = None
    password: str | None = None
    token: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        accepted = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self.token is not None:
            return accepted | {"Authorization": f"Bearer {self.token}"}
        if self.username is None:
            return accepted
        login = f"{self.username}:{self.password or ''}"
        basic: dict[str, str] = urllib3.make_headers(basic_auth=login)
        return accepted | {"Authorization": basic["authorization"]}


@dataclass(frozen=True, slots=True)
class Written:
    """A schema as its writer registered it.

    Attributes:
        schema: its text.
        kind: ``AVRO``, ``JSON``, ``PROTOBUF``.
        references: texts of all schemas that it refers to, those first that others refer to.
    """

    schema: str
    kind: str
    references: tuple[str, ...] = ()


class SchemaRegistry:
    """Asks one registry. For one thread.

    Args:
        access: where it is.
        timeout: seconds for one answer.

    Raises:
        AccessError: a file of the settings cannot be used.
    """

    def __init__(self, access: RegistryAccess, timeout: float = SECONDS) -> None:
        self.url = access.url
        self._headers = access.headers()
        self._ends = 0.0
        self._pool = urllib3.PoolManager(
            maxsize=1,
            retries=False,  # and no redirect is followed: the login is for this address alone
            timeout=urllib3.Timeout(total=timeout),
            ssl_context=_context(access) if access.url.startswith("https:") else None,
        )

    def schema(self, number: int) -> Written | None:
        """The schema of this number; None when the registry says that it has none.

        Raises:
            SourceError: it does not answer, or not as a registry does.
            AccessError: it refuses access.
        """
        self._ends = monotonic() + MOST_SECONDS
        found = self._get(f"/schemas/ids/{number}")
        return None if found is None else self._with_references(found)

    def check(self) -> None:
        """Ask anything.

        Raises:
            SourceError: as of :meth:`schema`.
        """
        self._get("/schemas/ids/1")

    def newest(self, subject: str) -> Written | None:
        """The newest schema of a subject; None when there is no such subject.

        Raises:
            SourceError: as of :meth:`schema`.
        """
        self._ends = monotonic() + MOST_SECONDS
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return None if found is None else self._with_references(found)

    def close(self) -> None:
        """Close the connection."""
        self._pool.clear()

    def _with_references(self, answer: _RegistryAnswer) -> Written | None:
        """A reference that the registry does not have makes the schema one that nobody can use."""
        texts: dict[str, str] = {}
        if answer.schema is None or not self._collect(answer.references or [], texts):
            return None
        return Written(answer.schema, answer.schema_type or "AVRO", tuple(texts.values()))

    def _collect(self, references: list[_Reference], texts: dict[str, str], depth: int = 0) -> bool:
        for one in references:
            key = f"{one.subject}/{one.version}"
            if key in texts:
                continue
            if monotonic() > self._ends:
                raise SourceError(f"the schema registry at {self.url} is slow")
            if len(texts) >= MAX_SCHEMAS or depth >= MAX_SCHEMAS:
                return False
            found = self._get(f"/subjects/{quote(one.subject, safe='')}/versions/{one.version}")
            if found is None or found.schema is None:
                return False
            if not self._collect(found.references or [], texts, depth + 1):
                return False
            texts[key] = found.schema
        return True

    def _get(self, path: str) -> _RegistryAnswer | None:
        status, body = self._ask(path)
        if status in _REFUSED:
            raise AccessError(
                f"the schema registry at {self.url} refuses access (HTTP {status}): check"
                f" {KEY}.username and password, or token"
            )
        answer = _answer(body)
        if status == _OK and answer is not None and answer.schema is not None:
            return answer
        if status == _NOT_FOUND and answer is not None and answer.error_code in _NO_SUCH:
            return None
        if status in (_OK, _NOT_FOUND):
            raise SourceError(
                f"{self.url} does not answer like a schema registry (HTTP {status}): check"
                f" {KEY}.url, with the path that your registry may need"
            )
        raise SourceError(f"the schema registry at {self.url} fails (HTTP {status})")

    def _ask(self, path: str) -> tuple[int, bytes]:
        try:
            response = self._pool.request(
                "GET", self.url + path, headers=self._headers, preload_content=False
            )
            try:
                return response.status, response.read(LARGEST_ANSWER + 1, decode_content=True)
            finally:
                response.drain_conn() if response.status != _OK else response.release_conn()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise SourceError(
                f"the schema registry at {self.url} does not answer ({_reason(error)})"
            ) from None


def _answer(body: bytes) -> _RegistryAnswer | None:
    try:
        return _decode(body) if len(body) <= LARGEST_ANSWER else None
    except (ValueError, RecursionError):
        return None


def _reason(error: Exception) -> str:
    """Fault of a connection in words; never a word of what came over it."""
    if isinstance(error, urllib3.exceptions.SSLError):
        return f"its certificate is not trusted, or it speaks no TLS: check {KEY}.ca_file"
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return "no connection"
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "no answer in time"
    return type(error).__name__


def _context(access: RegistryAccess) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=access.ca_file)
    except OSError as error:
        raise _unusable("ca_file", access.ca_file, error) from None
    if access.cert_file is not None:
        try:
            # Without an answer OpenSSL would ask for the password of an encrypted key.
            context.load_cert_chain(access.cert_file, access.key_file, password=lambda: "")
        except OSError as error:
            raise _unusable("cert_file and key_file", access.cert_file, error) from None
    return context


def _unusable(name: str, file: str | None, error: OSError) -> AccessError:
    tls = isinstance(error, ssl.SSLError)
    why = "PEM is needed, unencrypted, of one pair" if tls else f"{error.strerror}"
    return AccessError(f"{KEY}.{name} cannot be used: {file}: {why}")
