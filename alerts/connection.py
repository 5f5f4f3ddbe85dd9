"""The socket side of the HTTP server: one client, with an absolute deadline for every phase."""

from __future__ import annotations

import enum
import logging
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monitor.errors import SlicewatchError

MAX_HEAD = 16 * 1024  # bytes; the head of a scrape is under 1 KiB
_CHUNK = 64 * 1024
_BACKLOG = 1024  # connections that the system holds until they are accepted
_PATIENCE = 0.25  # what a request may take when others wait for the place
_STALLED = 1.0  # no reader needs longer for a chunk
_DRAIN = 64 * 1024  # bytes of an unread body that are taken before closing
_LONGEST_NAME = 64  # the longest common name that X.509 allows
_NAMELESS = "nameless certificate"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds each phase may take as a whole; a byte now and then does not extend it.

    Attributes:
        head: a TLS handshake, and a request head once begun.
        idle: a connection without a request; above any usual scrape interval.
        turn: a request until its answer is begun, when many are asked for at once.
        write: one response.
        drain: what is still being sent when we close.
    """

    head: float = 5.0
    idle: float = 90.0
    turn: float = 8.0
    write: float = 10.0
    drain: float = 0.5


class Phase(enum.Enum):
    """What a connection waits for."""

    READING = enum.auto()  # for the client's handshake or request
    WORKING = enum.auto()  # for us
    WRITING = enum.auto()  # for the client to take the response


_KEPT_WAITING = {Phase.READING: _PATIENCE, Phase.WRITING: _STALLED}


class Connection:
    """One client: its socket, and since when it has been in its present phase.

    Used by one thread; only :meth:`abort` and :meth:`stalled` may be called from another.

    Attributes:
        since: monotonic time at which the phase began, or at which the client took a part of the
            response.
    """

    def __init__(
        self, client: socket.socket, tls: ssl.SSLContext | None, timeouts: Timeouts
    ) -> None:
        """Take over an accepted socket; nothing is read or written yet."""
        self._socket = (
            tls.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
            if tls
            else client
        )
        self._timeouts = timeouts
        self._buffer = b""
        self._phase = Phase.READING
        self.since = time.monotonic()

    @property
    def certificate(self) -> str | None:
        """Name of the certificate that the client has shown and that was checked, else None."""
        shown = self._socket.getpeercert() if isinstance(self._socket, ssl.SSLSocket) else None
        return common_name(shown) if shown else None

    def begin(self, phase: Phase) -> None:
        """Enter the next phase."""
        self.since = time.monotonic()  # first, or another thread sees the phase as an old one
        self._phase = phase

    def stalled(self, *phases: Phase) -> bool:
        """Whether the client keeps us waiting in one of these phases, while others wait for it."""
        phase, since = self._phase, self.since
        return phase in phases and time.monotonic() - since > _KEPT_WAITING[phase]

    def shake_hands(self) -> None:
        """The TLS handshake, if there is one; raises OSError where it fails."""
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.settimeout(self._timeouts.head)
            self._socket.do_handshake()

    def read_head(self) -> bytes | None:
        """Next request head without its empty line; longer than MAX_HEAD when it is too long.

        None when the client has gone; raises OSError when it was too slow.
        """
        self.begin(Phase.READING)
        if not self._buffer and not self._receive(self.since + self._timeouts.idle):
            return None
        deadline = time.monotonic() + self._timeouts.head
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > MAX_HEAD:
                return self._buffer
            if not self._receive(deadline):
                return None
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        return head

    def _receive(self, deadline: float) -> bool:
        self._socket.settimeout(_left(deadline))
        received = self._socket.recv(4096)
        self._buffer += received
        return bool(received)

    def write(self, data: bytes) -> None:
        """Send everything; raises OSError when the client is too slow."""
        deadline = time.monotonic() + self._timeouts.write
        for start in range(0, len(data), _CHUNK):
            self.begin(Phase.WRITING)
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(data[start : start + _CHUNK])

    def drain(self) -> None:
        """Take what is still coming, so that closing does not reset an unread response."""
        deadline = time.monotonic() + self._timeouts.drain
        self._shut(socket.SHUT_WR)
        taken = 0
        while taken < _DRAIN:
            self._socket.settimeout(_left(deadline))
            received = self._socket.recv(4096)
            if not received:
                break
            taken += len(received)

    def abort(self) -> None:
        """Make whatever the thread waits for fail."""
        try:
            self._shut(socket.SHUT_RDWR)
        except OSError:
            _log.debug("connection was closed already")

    def close(self) -> None:
        """Release the socket."""
        self._socket.close()

    def _shut(self, how: int) -> None:
        # Past SSLSocket.shutdown, which would drop the TLS state that the thread is using.
        socket.socket.shutdown(self._socket, how)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("deadline passed")
    return left


def common_name(certificate: Mapping[str, Any]) -> str:
    """The subject's common name, fit for a line of a log; the last one where there are several.

    Args:
        certificate: as ``SSLSocket.getpeercert`` gives it.

    Example:
        >>> common_name({"subject": ((("organizationName", "x"),), (("commonName", "grafana"),))})
        'grafana'
    """
    parts = (part for level in certificate.get("subject", ()) for part in level)
    names = [value for kind, value in parts if kind == "commonName"]
    name = names[-1] if names else ""
    # Whoever signs certificates is trusted with names, but not with our lines.
    return "".join(c if c.isprintable() else "?" for c in name)[:_LONGEST_NAME] or _NAMELESS


def listen(host: str, port: int, section: str = "server") -> socket.socket:
    """A listening socket; raises SlicewatchError where the address cannot be bound.

    Args:
        host: address.
        port: 0 takes a free one.
        section: of the settings, for the message.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        message = f"{section}.port: cannot listen on {host} port {port}: {error.strerror or error}"
        raise SlicewatchError(message) from error


def tls_context(
    cert: Path | None, key: Path | None, client_ca: Path | None, section: str = "server"
) -> ssl.SSLContext | None:
    """The server's TLS settings; None without a certificate.

    Client certificates are optional in the handshake, since probes come without one; who needs
    one asks :attr:`Connection.certificate`. ``section`` of the settings is for the message.

    Raises:
        SlicewatchError: a file cannot be read or does not fit.
    """
    if cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key)
        if client_ca:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(client_ca)
    except OSError as error:  # SSLError too
        raise SlicewatchError(f"{section}.tls_cert_file: cannot be used: {error}") from error
    return context
