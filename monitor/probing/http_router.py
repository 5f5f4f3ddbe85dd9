"""A router behind HTTP: its address, one kept connection, one attempt per call.

The time-out of a connection is for a whole answer, from its first line to its end. The client
library's time-out is for each piece that arrives: a router that sends its headers byte by byte, or
answers ``100 Continue`` again and again, would hold us as long as it likes.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import re
import socket
import ssl
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING

import urllib3
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, LocationParseError, SSLError
from urllib3.exceptions import TimeoutError as LateError
from urllib3.util import Timeout, Url, parse_url

from monitor.core.time import SECOND, to_micros
from monitor.errors import SlicewatchError
from monitor.ports import Clock
from monitor.probing.protocol import (
    Answer,
    Failure,
    FailureKind,
    Probe,
    body,
    read_answer,
    signed_headers,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LARGEST_ANSWER = 64 << 10
"""Bytes of an answer: most have a few hundred, and no router may fill our memory."""
OK, BUSY, REDIRECTS = 200, frozenset({429, 503}), range(300, 400)
# Without user:password@ and query, which hold secrets: command lines and logs show addresses.
_PLAIN = re.compile(r"https?://[A-Za-z0-9._~:/%\[\]+-]+\Z")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """Checked address of a router, without secrets.

    Attributes:
        url: address that probes are sent to; without secrets.
        host: the router's host, for people.
        tls: whether the connection is encrypted.
    """

    url: str
    host: str
    tls: bool


def target(url: str, *, insecure: bool = False) -> Target:
    """Check a router's address as typed by the user; return the Target, or raise SlicewatchError.

    Args:
        url: the address.
        insecure: plain HTTP to another machine is allowed.

    Raises:
        SlicewatchError: it is no address, holds a password or a query, or is plain HTTP to another
            machine. The address itself is not repeated.
    """
    if "@" in url:
        raise SlicewatchError(
            "--target holds a user name or a password; leave it out, and give a token by "
            "--token-file"
        )
    if not _PLAIN.match(url):
        raise SlicewatchError(
            '--target must be a web address without a query, such as "https://router.example/probe"'
        )
    try:
        parts = parse_url(url)
    except LocationParseError:
        parts = Url()
    if not parts.host:
        raise SlicewatchError("--target is not a web address; check host and port")
    host, tls = parts.host, parts.scheme == "https"
    if not tls and not insecure and not _is_loopback(host.strip("[]")):
        raise SlicewatchError(
            "--target is plain HTTP to another machine, where anybody on the way reads probes and "
            "answers; use https, or say --insecure-http"
        )
    return Target(url, f"{host}:{parts.port or _PORTS[str(parts.scheme)]}", tls)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _DeadlineReader(io.RawIOBase):
    """Reader of a socket up to a monotonic deadline; later reads raise TimeoutError."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        self._raw = raw
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        """Read what comes before the deadline; after it raise a TimeoutError."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    """HTTP response that must arrive completely within the socket's time-out."""

    def __init__(
        self,
        sock: socket.socket,
        debuglevel: int = 0,
        method: str | None = None,
        url: str | None = None,
    ) -> None:
        super().__init__(sock, debuglevel, method, url)
        timeout = sock.gettimeout()
        if timeout is not None:
            raw = self.fp.detach()
            self.fp = io.BufferedReader(_DeadlineReader(raw, sock, time.monotonic() + timeout))


class _PlainConnection(HTTPConnection):
    response_class = _TimedResponse


class _TlsConnection(HTTPSConnection):
    response_class = _TimedResponse


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


def _connection_pool(target: Target, trust: ssl.SSLContext | None) -> HTTPConnectionPool:
    """Return a pool that keeps one connection to the target; ``trust`` is needed for TLS only."""
    host, _, port = target.host.rpartition(":")
    if trust is None:
        return _PlainPool(host, int(port), maxsize=1)
    return _TlsPool(host, int(port), maxsize=1, ssl_context=trust)


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """Address, credentials and time-out with which an HttpRouter sends probes.

    Attributes:
        target: its address.
        key: key that signs requests.
        timeout: seconds for connecting, and for the whole answer.
        token: bearer token, if the router wants one.
        ca_file: certificate of the authority that signed the router's; None: the system's.
    """

    target: Target
    key: str
    timeout: float = 10.0
    token: str | None = None
    ca_file: Path | None = None


class HttpRouter:
    """Router behind HTTP: sends probes by POST, follows no redirects and uses no proxies."""

    def __init__(self, access: HttpAccess, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        fixed = {"Content-Type": "application/json", "User-Agent": "slicewatch-probe"}
        if access.token is not None:
            fixed["Authorization"] = f"Bearer {access.token}"
        self._fixed = fixed
        trust = _ssl_context(access.ca_file) if access.target.tls else None
        self._pool = _connection_pool(access.target, trust)
        self._path = parse_url(access.target.url).request_uri

    def ask(self, probe: Probe) -> Answer | Failure:
        """Send a signed probe once; return the router's Answer, or a Failure with its kind."""
        try:
            return self._ask(body(probe))
        except SSLError as error:
            return Failure(FailureKind.UNTRUSTED, f"is not trusted: {_tls_reason(error)}")
        except ConnectTimeoutError:
            return Failure(FailureKind.UNREACHABLE, "cannot be reached")
        except LateError:
            seconds = f"{self._access.timeout:g} s"
            return Failure(FailureKind.TIMEOUT, f"did not answer within {seconds}")
        except HTTPError:
            return Failure(FailureKind.UNREACHABLE, "broke the connection, or speaks no HTTP")

    def close(self) -> None:
        """Close the pooled connection."""
        self._pool.close()

    def _ask(self, content: bytes) -> Answer | Failure:
        """Send one signed request, without retries; return the answer or how it failed."""
        headers = signed_headers(content, self._clock.now() // SECOND, self._access.key)
        answer = self._pool.request(
            "POST",
            self._path,
            body=content,
            headers=self._fixed | headers,
            timeout=Timeout(total=self._access.timeout),
            retries=False,
            redirect=False,
            preload_content=False,
        )
        try:
            if answer.status != OK:
                return self._status_failure(answer)
            return _read_limited(answer)
        finally:
            answer.close()  # an answer read to its end has given its connection back already

    def _status_failure(self, answer: urllib3.BaseHTTPResponse) -> Failure:
        """Return the failure behind an HTTP status, with the wait that a busy router asks for."""
        status = answer.status
        if status in BUSY:
            wait = _retry_after_seconds(answer.headers.get("Retry-After"), self._clock.now())
            return Failure(FailureKind.BUSY, f"answered {status}", wait)
        if status in REDIRECTS:
            return Failure(
                FailureKind.REDIRECT, f"answered {status}: redirects are not followed, fix --target"
            )
        return Failure(FailureKind.STATUS, f"answered {status}")


def _read_limited(answer: urllib3.BaseHTTPResponse) -> Answer | Failure:
    """Return the answer, or a failure if it has more than LARGEST_ANSWER bytes."""
    content = b""
    while piece := answer.read1(LARGEST_ANSWER + 1, decode_content=False):
        content += piece
        if len(content) > LARGEST_ANSWER:
            return Failure(
                FailureKind.TOO_LARGE, f"sent more than {LARGEST_ANSWER:,} bytes of answer"
            )
    return read_answer(content)


def _ssl_context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except OSError as error:
        reason = "PEM is needed" if isinstance(error, ssl.SSLError) else error.strerror
        raise SlicewatchError(f"--ca-file cannot be used: {reason}") from None


def _tls_reason(error: SSLError) -> str:
    """Explain a TLS error in OpenSSL's own words, which quote nothing that was sent."""
    cause = error.args[0] if error.args else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"{cause.verify_message}; --ca-file names the authority that signed its certificate"
    if isinstance(cause, ssl.SSLError) and cause.reason:
        return cause.reason.lower().replace("_", " ")
    return "TLS failed"


def _retry_after_seconds(text: str | None, now: int) -> float | None:
    """Return the seconds from ``now`` until a ``Retry-After`` value; None if absent or invalid.

    Source: RFC 9110, section 10.2.3.
    """
    if text is None:
        return None
    if text.strip().isascii() and text.strip().isdigit():
        return float(text)
    try:
        at = to_micros(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError):
        return None
    return max((at - now) / SECOND, 0.0)
