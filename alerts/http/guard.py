"""Access control of readers: named tokens, client certificates, or both.

Programs send a token as a bearer; browsers ask for it as a password, of whatever user name.
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
"""A reader who has shown nothing that we know."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Decision on a request: whether it is admitted, and the name that it is known by.

    Attributes:
        status: OK, FORBIDDEN without a certificate, UNAUTHORIZED without a token.
        reader: name of the token, of the certificate, or of both where both are asked for.
        responds: whether the reader may acknowledge and close incidents.
        sends: whether it is a producer: it may send events.
    """

    status: HTTPStatus
    reader: str
    responds: bool = False
    sends: bool = False

    @property
    def granted(self) -> bool:
        """True when the request may be answered."""
        return self.status is HTTPStatus.OK

    @property
    def reads(self) -> bool:
        """True unless it is a producer, who reads nothing; anybody may do what anybody may."""
        return not self.sends or self.reader == ANYBODY


class Guard:
    """Knows readers by what they show; keeps digests, not the tokens."""

    def __init__(
        self,
        tokens: Mapping[str, str],
        *,
        certificates: bool,
        responders: Collection[str] = (),
        producers: Collection[str] = (),
    ) -> None:
        """Set up who is let in.

        Args:
            tokens: the tokens by name, one of which is asked for; none asks for none.
            certificates: whether a checked client certificate is asked for.
            responders: names of tokens or certificates whose readers may act on incidents.
            producers: names of those that may send events, and read nothing.
        """
        self._responders = frozenset(responders)
        self._producers = frozenset(producers)
        self._digests = {name: _digest(text.strip().encode()) for name, text in tokens.items()}
        self._certificates = certificates

    def admit(self, authorization: str, certificate: str | None) -> Admission:
        """Judge one request.

        Args:
            authorization: the header, empty where there is none.
            certificate: name of the client's checked certificate, None without one.
        """
        token = self._token(authorization)
        if self._certificates and certificate is None:
            return Admission(HTTPStatus.FORBIDDEN, UNKNOWN)
        if self._digests and token is None:
            return Admission(HTTPStatus.UNAUTHORIZED, certificate or UNKNOWN)
        names = [name for name in (token, certificate) if name is not None]
        names = names or [ANYBODY]
        responds, sends = (
            not some.isdisjoint(names) for some in (self._responders, self._producers)
        )
        return Admission(HTTPStatus.OK, " + ".join(names), responds, sends)

    def _token(self, authorization: str) -> str | None:
        """The name of the token that was sent.

        Takes as long for any of them as for none, and reveals neither how much of one matched nor
        how long it is.
        """
        scheme, _, given = authorization.partition(" ")
        # Header bytes arrive as latin-1.
        sent = given.strip().encode("latin-1")
        digest = _digest(_password(sent) if scheme.lower() == "basic" else sent)
        found = None
        for name, known in self._digests.items():
            if hmac.compare_digest(digest, known):
                found = name
        return found if scheme.lower() in ("bearer", "basic") else None


def _password(sent: bytes) -> bytes:
    """The password of Basic credentials (RFC 7617); empty, and no token, where they are none."""
    try:
        return base64.b64decode(sent, validate=True).partition(b":")[2].strip()
    except binascii.Error:
        return b""


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
