"""HTTP connections whose time-out is for a whole answer, from its first line to its end.

The client's own one is for each piece that arrives: a router that sends its headers byte by byte,
or says ``100 Continue`` again and again, would hold us for as long as it likes.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from typing import TYPE_CHECKING

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from monitor.probing.target import Target

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class _Until(io.RawIOBase):
    """Bytes that a socket receives until a moment of the monotonic clock; late is a time-out."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        self._raw = raw
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Timed(http.client.HTTPResponse):
    """An answer that has the socket's time-out in all."""

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
            self.fp = io.BufferedReader(_Until(raw, sock, time.monotonic() + timeout))


class _Plain(HTTPConnection):
    response_class = _Timed


class _Tls(HTTPSConnection):
    response_class = _Timed


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _Tls


def connections(target: Target, trust: ssl.SSLContext | None) -> HTTPConnectionPool:
    """A pool that keeps one connection; ``trust`` is for TLS alone."""
    host, _, port = target.host.rpartition(":")
    if trust is None:
        return _PlainPool(host, int(port), maxsize=1)
    return _TlsPool(host, int(port), maxsize=1, ssl_context=trust)
