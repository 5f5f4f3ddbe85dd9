"""Acceptor of a port: bounded connections, of which the slowest make room for the next.

Measured beside libraries with settings alone: seconds of the longest scrape of 5 MB in an attack
from the same busy machine (two cores, 1,024 descriptors; a dash is no answer in ten seconds).

| clients | uvicorn | its limit_concurrency | hypercorn | cheroot | waitress | this |
|---|---|---|---|---|---|---|
| 1,000 idle | .0 | 503 | 1.1 | 8.3 | 1.2 | .0 |
| 3,000 idle | - | - | - | - | 2.6 | 1.5 |
| 1,000 with slow headers | .0 | 503 | 3.3 | 8.4 | 8.4 | .0 |
| 1,000 half-open handshakes | .6 | .7 | 1.1 | 8.9 | no TLS | .1 |
| 100 that take nothing | 1.0 | .8 | .1 | 4.5 | .1 | .8 |
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import time
from collections.abc import Callable

from alerts.http.config import HttpConfig
from alerts.http.connection import Connection, Patience

_ACCEPT_WAIT = 0.2  # seconds until descriptors may be free again
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_MOMENT = 0.05  # seconds until a client that keeps others waiting is noticed
_BATCH = 8  # a flood is met by freeing an eighth of the slots at once
_WHILE_FULL = Patience(request=0.25, answer=1.0)  # no reader nearby needs as long
_PASSES = 5  # of the loop, until it has read what a connection sent before it was accepted

_log = logging.getLogger(__name__)


class Acceptor:
    """Acceptor of a port's connections; it ends slow clients to make room for new ones.

    When all slots are taken, the clients that have kept us waiting longest are evicted. A client
    that does not keep us waiting is never evicted; new clients wait in the system's backlog.
    uvicorn itself accepts until the process has no descriptor left, for Kafka and the database
    neither; with a limit, it refuses scrapes rather than idle clients.
    """

    def __init__(
        self,
        config: HttpConfig,
        tls: ssl.SSLContext | None,
        connect: Callable[[Callable[[Connection], None]], Connection],
    ) -> None:
        """Create an acceptor without open connections.

        Args:
            config: number of slots, and time for answers at the end.
            tls: context of the handshakes; None is plain HTTP.
            connect: creates the protocol of a connection, given a callback for its end.
        """
        self._slots = config.slots
        self._stop_seconds = config.stop_seconds
        self._tls = tls
        self._new_connection = connect
        self._tasks: dict[Connection, asyncio.Task[None]] = {}
        self._accepted: dict[Connection, socket.socket] = {}  # tasks have not begun
        self._left = asyncio.Event()

    async def open(self, listener: socket.socket) -> None:
        """Accept connections on a listening socket until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wait_for_room()
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:  # for example, no free descriptor
                _log.warning("accept failed: %s", error)
                if error.errno in _EXHAUSTED:
                    self.evict(_WHILE_FULL, most=self._slots)
                await asyncio.sleep(_ACCEPT_WAIT)
                continue
            connection = self._new_connection(self._forget)
            self._accepted[connection] = client
            self._tasks[connection] = loop.create_task(self._connect(connection))
            await asyncio.sleep(0)  # a flood must not keep us from reading what others ask

    async def _wait_for_room(self) -> None:
        """Wait for a free slot; end clients that stall to make room."""
        while len(self._tasks) >= self._slots:
            for _ in range(_PASSES):  # we may be late, and not the client
                await asyncio.sleep(0)
            if not self.evict(_WHILE_FULL, most=max(1, self._slots // _BATCH)):
                self._left.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_MOMENT):
                        await self._left.wait()

    async def _connect(self, connection: Connection) -> None:
        """Shake hands if there is TLS, and connect the accepted socket to its protocol."""
        loop = asyncio.get_running_loop()
        client = self._accepted.pop(connection)
        try:
            # The end of an answer must not wait for the acknowledgement of its beginning; asyncio
            # sets this for its own listeners.
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(lambda: connection, client, ssl=self._tls)
        except OSError:  # the client reset the connection or failed the handshake
            client.close()
        finally:
            if not connection.connected:
                self._forget(connection)

    def evict(self, patience: Patience, *, most: int) -> bool:
        """End the clients that stall longest; return False if none stalls."""
        now = time.monotonic()
        stalled = [connection for connection in self._tasks if connection.stalls(patience, now)]
        for connection in sorted(stalled, key=lambda connection: connection.since)[:most]:
            self._end(connection)
        return bool(stalled)

    async def close(self) -> None:
        """Wait a moment for unfinished answers, then end all connections."""
        for connection in list(self._tasks):
            if connection.connected:
                connection.shutdown()
            else:
                self._end(connection)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._stop_seconds):
                while self._tasks:
                    self._left.clear()
                    await self._left.wait()
        for connection in list(self._tasks):
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        """Abort a connection and free its slot at once."""
        if connection.connected:
            connection.transport.abort()
        else:
            self._tasks[connection].cancel()
            if client := self._accepted.pop(connection, None):  # a task that never begins
                client.close()
        self._forget(connection)  # at once: a flood must not hold the slot

    def _forget(self, connection: Connection) -> None:
        self._tasks.pop(connection, None)
        self._left.set()
