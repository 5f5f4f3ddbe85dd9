"""HTTP client that no answer can hold up or fill: bounds on bytes and time, and no redirects."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import httpx

LONGEST_BODY = 4 << 20
"""Most bytes of an answer: fifty findings, and the thoughts of a reasoning model, take far less."""


class BoundedClient(httpx.Client):
    """Client of one request; redirects are answers, and bodies are never inflated."""

    def __init__(self) -> None:
        """Create a client that reads at most LONGEST_BODY bytes of an answer, never compressed."""
        super().__init__(event_hooks={"response": [_bound]}, verify=_certificates())
        # A compressed body of a megabyte may inflate to a gigabyte.
        self.headers["Accept-Encoding"] = "identity"

    @contextmanager
    def ended_after(self, seconds: float) -> Iterator[None]:
        """Close all connections if the block takes longer than ``seconds``, so that it fails.

        The timeouts of httpx begin anew with every byte; a trickle would never reach them.
        """
        timer = threading.Timer(seconds, self.close)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


# Read once: it takes longer than the rest of a request.
_certificates = cache(httpx.create_ssl_context)


class _BoundedStream(httpx.SyncByteStream):
    """Body that fails beyond :data:`LONGEST_BODY`."""

    def __init__(self, stream: httpx.SyncByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        """Yield the pieces of the body; raise httpx.ReadError when it is too long."""
        read = 0
        for piece in self._stream:
            read += len(piece)
            if read > LONGEST_BODY:
                raise httpx.ReadError("the answer is too long")
            yield piece

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


def _bound(response: httpx.Response) -> None:
    response.headers.pop("content-encoding", None)
    if isinstance(response.stream, httpx.SyncByteStream):
        response.stream = _BoundedStream(response.stream)
