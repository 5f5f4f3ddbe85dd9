"""A router behind HTTP: one connection that is kept, one attempt a call."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, SSLError
from urllib3.exceptions import TimeoutError as LateError
from urllib3.util import Timeout, parse_url

from monitor.core.time import SECOND, to_micros
from monitor.errors import SlicewatchError
from monitor.ports import Clock
from monitor.probing.deadline import connections
from monitor.probing.protocol import body, read_answer, signed_headers
from monitor.probing.router import Answer, Failure, FailureKind, Probe
from monitor.probing.target import Target

LARGEST_ANSWER = 64 << 10
"""An answer has a few hundred bytes; no router may fill our memory."""
OK, BUSY, REDIRECTS = 200, frozenset({429, 503}), range(300, 400)


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """Access to a router: address, credentials and time-out.

    Attributes:
        target: its address.
        key: what requests are signed with.
        timeout: seconds for connecting, and for all of the answer.
        token: bearer token, if it wants one.
        ca_file: certificate of the authority that signed the router's; None: those of the system.
    """

    target: Target
    key: str
    timeout: float = 10.0
    token: str | None = None
    ca_file: Path | None = None


class HttpRouter:
    """Sends a probe with POST; no redirect is followed, no proxy of the environment is used."""

    def __init__(self, access: HttpAccess, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        fixed = {"Content-Type": "application/json", "User-Agent": "slicewatch-probe"}
        if access.token is not None:
            fixed["Authorization"] = f"Bearer {access.token}"
        self._fixed = fixed
        trust = _trust(access.ca_file) if access.target.tls else None
        self._pool = connections(access.target, trust)
        self._path = parse_url(access.target.url).request_uri

    def ask(self, probe: Probe) -> Answer | Failure:
        """One attempt."""
        try:
            return self._ask(body(probe))
        except SSLError as error:
            return Failure(FailureKind.UNTRUSTED, f"is not trusted: {_reason(error)}")
        except ConnectTimeoutError:
            return Failure(FailureKind.UNREACHABLE, "cannot be reached")
        except LateError:
            return self._late()
        except HTTPError:
            return Failure(FailureKind.UNREACHABLE, "broke the connection, or speaks no HTTP")

    def close(self) -> None:
        """Close the connection."""
        self._pool.close()

    def _ask(self, content: bytes) -> Answer | Failure:
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
                return self._refusal(answer)
            return _read(answer)
        finally:
            answer.close()  # what was read to its end has given its connection back before

    def _refusal(self, answer: urllib3.BaseHTTPResponse) -> Failure:
        status = answer.status
        if status in BUSY:
            wait = _seconds(answer.headers.get("Retry-After"), self._clock.now())
            return Failure(FailureKind.BUSY, f"answered {status}", wait)
        if status in REDIRECTS:
            return Failure(
                FailureKind.REDIRECT, f"answered {status}: redirects are not followed, fix --target"
            )
        return Failure(FailureKind.STATUS, f"answered {status}")

    def _late(self) -> Failure:
        return Failure(FailureKind.TIMEOUT, f"did not answer within {self._access.timeout:g} s")


def _read(answer: urllib3.BaseHTTPResponse) -> Answer | Failure:
    content = b""
    while piece := answer.read1(LARGEST_ANSWER + 1, decode_content=False):
        content += piece
        if len(content) > LARGEST_ANSWER:
            return Failure(
                FailureKind.TOO_LARGE, f"sent more than {LARGEST_ANSWER:,} bytes of answer"
            )
    return read_answer(content)


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except OSError as error:
        reason = "PEM is needed" if isinstance(error, ssl.SSLError) else error.strerror
        raise SlicewatchError(f"--ca-file cannot be used: {reason}") from None


def _reason(error: SSLError) -> str:
    """OpenSSL's own words, which quote nothing that was sent."""
    cause = error.args[0] if error.args else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"{cause.verify_message}; --ca-file names the authority that signed its certificate"
    if isinstance(cause, ssl.SSLError) and cause.reason:
        return cause.reason.lower().replace("_", " ")
    return "TLS failed"


def _seconds(text: str | None, now: int) -> float | None:
    """Seconds until the time that ``Retry-After`` names; None for none, or for nonsense.

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
