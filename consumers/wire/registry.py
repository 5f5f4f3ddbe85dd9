"""Client of schema registries: the writer's schema by its number, with the schemas it refers to.

It needs only what the registries of Confluent, Karapace, Apicurio (under ``/apis/ccompat/v7``) and
Redpanda have in common. An answer that is not the registry's own, for example a proxy's, counts as
none, so that waiting messages are not lost.

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
"""Longest time for an answer: meanwhile nothing else is read."""
MOST_SECONDS = 6.0
"""Longest time for a schema with all that it refers to."""
LARGEST_ANSWER = 1 << 20
"""Most bytes of an answer; schemas of events have a few thousand."""
MAX_SCHEMAS = 32
"""Most schemas that a schema may refer to, directly or not."""
_OK, _NOT_FOUND = 200, 404
_REFUSED = (401, 403)
_NO_SUCH = range(40400, 40500)
"""Error codes of the registry: it has no such schema, subject or version."""


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
    """Address of a schema registry, and credentials to access it.

    Attributes:
        url: without a slash at its end.
        username: for basic authentication, with ``password``.
        password: the user's password.
        token: bearer token, in place of these.
        ca_file: authorities of its certificate; None takes the system's.
        cert_file: certificate of this client, with ``key_file``.
        key_file: key of the certificate.
    """

    url: str
    username: str | None = None
    password: str | None = None
    token: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers of every request, with the login."""
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
    """Schema as its writer registered it, with the texts of the schemas it refers to.

    Attributes:
        schema: text of the schema.
        kind: ``AVRO``, ``JSON``, ``PROTOBUF``.
        references: texts of all schemas that it refers to, in the order of definition.
    """

    schema: str
    kind: str
    references: tuple[str, ...] = ()


class SchemaRegistry:
    """Client of one schema registry, to be used by one thread.

    Args:
        access: address of the registry, and access to it.
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
            retries=False,  # and no redirect: the login is for this address only
            timeout=urllib3.Timeout(total=timeout),
            ssl_context=_context(access) if access.url.startswith("https:") else None,
        )

    def schema(self, number: int) -> Written | None:
        """Return the schema with this number; None if the registry has none.

        Raises:
            SourceError: the registry does not answer, or not as a registry does.
            AccessError: the registry refuses access.
        """
        self._ends = monotonic() + MOST_SECONDS
        answer = self._get(f"/schemas/ids/{number}")
        return None if answer is None else self._with_references(answer)

    def check(self) -> None:
        """Ask the registry any question; raise SourceError if it does not answer properly.

        Raises:
            SourceError: as for :meth:`schema`.
        """
        self._get("/schemas/ids/1")

    def newest(self, subject: str) -> Written | None:
        """Return the newest schema of a subject; None if the subject does not exist.

        Raises:
            SourceError: as for :meth:`schema`.
        """
        self._ends = monotonic() + MOST_SECONDS
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return None if answer is None else self._with_references(answer)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def _with_references(self, answer: _RegistryAnswer) -> Written | None:
        """Return the answer's schema with its references; None if the registry lacks any."""
        texts: dict[str, str] = {}
        if answer.schema is None or not self._collect(answer.references or [], texts):
            return None
        return Written(answer.schema, answer.schema_type or "AVRO", tuple(texts.values()))

    def _collect(self, references: list[_Reference], texts: dict[str, str], depth: int = 0) -> bool:
        """Add referenced schemas to ``texts``; return False if one is missing or too many."""
        for reference in references:
            key = f"{reference.subject}/{reference.version}"
            if key in texts:
                continue
            if monotonic() > self._ends:
                raise SourceError(f"the schema registry at {self.url} is slow")
            if len(texts) >= MAX_SCHEMAS or depth >= MAX_SCHEMAS:
                return False
            answer = self._get(
                f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
            )
            if answer is None or answer.schema is None:
                return False
            if not self._collect(answer.references or [], texts, depth + 1):
                return False
            texts[key] = answer.schema
        return True

    def _get(self, path: str) -> _RegistryAnswer | None:
        """Return the registry's answer, None if there is no such schema; else an error says why."""
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
        """Return status and body of one GET request."""
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
                f"the schema registry at {self.url} does not answer ({_cause_text(error)})"
            ) from None


def _answer(body: bytes) -> _RegistryAnswer | None:
    """Return the decoded body; None if it is too long or unreadable."""
    try:
        return _decode(body) if len(body) <= LARGEST_ANSWER else None
    except (ValueError, RecursionError):
        return None


def _cause_text(error: Exception) -> str:
    """Return the cause of a failed connection in words, without anything that was received."""
    if isinstance(error, urllib3.exceptions.SSLError):
        return f"its certificate is not trusted, or it speaks no TLS: check {KEY}.ca_file"
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return "no connection"
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "no answer in time"
    return type(error).__name__


def _context(access: RegistryAccess) -> ssl.SSLContext:
    """Return the TLS context for the registry; the error names an unusable file."""
    try:
        context = ssl.create_default_context(cafile=access.ca_file)
    except OSError as error:
        raise _unusable("ca_file", access.ca_file, error) from None
    if access.cert_file is not None:
        try:
            # Else OpenSSL would prompt for the password of an encrypted key.
            context.load_cert_chain(access.cert_file, access.key_file, password=lambda: "")
        except OSError as error:
            raise _unusable("cert_file and key_file", access.cert_file, error) from None
    return context


def _unusable(name: str, file: str | None, error: OSError) -> AccessError:
    tls = isinstance(error, ssl.SSLError)
    why = "PEM is needed, unencrypted, of one pair" if tls else f"{error.strerror}"
    return AccessError(f"{KEY}.{name} cannot be used: {file}: {why}")
