"""Access control of readers: named tokens, client certificates, or both.

Programs send a token as a bearer; browsers send it as a password, with any user name.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from monitor.settings.sections import ANYBODY

UNKNOWN = "unknown"
"""Name of a reader without valid credentials."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Decision on a request: its status, its reader's name and the reader's rights.

    Attributes:
        status: OK, FORBIDDEN without a certificate, UNAUTHORIZED without a token.
        reader: name of the token, of the certificate, or of both if both are required.
        responds: True if the reader may acknowledge and close incidents.
        sends: True for a producer, who may send events.
    """

    status: HTTPStatus
    reader: str
    responds: bool = False
    sends: bool = False

    @property
    def granted(self) -> bool:
        """Return True if the request may be answered."""
        return self.status is HTTPStatus.OK

    @property
    def reads(self) -> bool:
        """Return True unless the client is a named producer; producers read nothing."""
        return not self.sends or self.reader == ANYBODY


class Guard:
    """Access control by digests of tokens, by client certificates, or by both."""

    def __init__(
        self,
        tokens: Mapping[str, str],
        *,
        certificates: bool,
        responders: Collection[str] = (),
        producers: Collection[str] = (),
    ) -> None:
        """Create the access control.

        Args:
            tokens: tokens by name, of which one is required; empty requires none.
            certificates: True requires a checked client certificate.
            responders: names of tokens or certificates whose readers may act on incidents.
            producers: names of tokens or certificates that may send events, and read nothing.
        """
        self._responders = frozenset(responders)
        self._producers = frozenset(producers)
        self._digests = {name: _digest(text.strip().encode()) for name, text in tokens.items()}
        self._certificates = certificates

    def admit(self, authorization: str, certificate: str | None) -> Admission:
        """Return the decision on a request, by its Authorization header and certificate's name.

        Args:
            authorization: the header; empty without one.
            certificate: name of the client's checked certificate, None without one.
        """
        token = self._token_name(authorization)
        if self._certificates and certificate is None:
            return Admission(HTTPStatus.FORBIDDEN, UNKNOWN)
        if self._digests and token is None:
            return Admission(HTTPStatus.UNAUTHORIZED, certificate or UNKNOWN)
        names = [name for name in (token, certificate) if name is not None]
        names = names or [ANYBODY]
        responds, sends = (
            not role.isdisjoint(names) for role in (self._responders, self._producers)
        )
        return Admission(HTTPStatus.OK, " + ".join(names), responds, sends)

    def _token_name(self, authorization: str) -> str | None:
        """Return the name of the token in an Authorization header; None if it holds no valid one.

        The time is the same for every token and for none, so that it reveals neither length nor
        matching prefix.
        """
        scheme, _, credentials = authorization.partition(" ")
        # Header bytes arrive as latin-1.
        sent = credentials.strip().encode("latin-1")
        digest = _digest(_password(sent) if scheme.lower() == "basic" else sent)
        matched = None
        for name, token_digest in self._digests.items():
            if hmac.compare_digest(digest, token_digest):
                matched = name
        return matched if scheme.lower() in ("bearer", "basic") else None


def _password(sent: bytes) -> bytes:
    """Return the password in Basic credentials (RFC 7617); empty if they are invalid."""
    try:
        return base64.b64decode(sent, validate=True).partition(b":")[2].strip()
    except binascii.Error:
        return b""


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
