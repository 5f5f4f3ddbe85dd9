"""Acceptor of a port: bounded connections, of which the slowest makes room for the next."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable, Collection

from alerts.http.config import HttpConfig
from alerts.http.connection import Connection, Phase

_ACCEPT_WAIT = 0.2  # seconds until descriptors may be free again
_MOMENT = 0.05  # seconds until a client that keeps others waiting is noticed

_log = logging.getLogger(__name__)


class Acceptor:
    """Acceptor of a port's connections; it ends slow clients to make room for new ones.

    When all slots are taken, the client that has kept us waiting longest is evicted. A client that
    does not keep us waiting is never evicted; new clients wait in the system's backlog meanwhile.
    uvicorn itself would accept without end, give a handshake a minute, and refuse scrapes rather
    than idle clients.
    """

    def __init__(
        self,
        config: HttpConfig,
        tls: ssl.SSLContext | None,
        connect: Callable[[Callable[[Connection], None]], Connection],
    ) -> None:
        """Create an acceptor without open connections.

        Args:
            config: bounds on the number and the times of clients.
            tls: context of the handshakes; None is plain HTTP.
            connect: creates the protocol of a connection, given a callback for its end.
        """
        self._slots = config.slots
        self._times = config.timeouts
        self._tls = tls
        self._new_connection = connect
        self._tasks: dict[Connection, asyncio.Task[None]] = {}
        self._accepted: dict[Connection, socket.socket] = {}  # tasks have not begun
        self._left = asyncio.Event()

    @property
    def connections(self) -> Collection[Connection]:
        """Return the open connections, including those in their handshake."""
        return list(self._tasks)

    async def open(self, listener: socket.socket) -> None:
        """Accept connections on a listening socket until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wait_for_room()
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:  # for example, no free descriptor
                _log.warning("accept failed: %s", error)
                await asyncio.sleep(_ACCEPT_WAIT)
                continue
            connection = self._new_connection(self._forget)
            self._accepted[connection] = client
            self._tasks[connection] = loop.create_task(self._connect(connection))

    async def _wait_for_room(self) -> None:
        """Wait for a free slot; end a connection that only reads or writes to make room."""
        while len(self._tasks) >= self._slots:
            if not self.evict(Phase.READING, Phase.WRITING):
                self._left.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_MOMENT):
                        await self._left.wait()

    async def _connect(self, connection: Connection) -> None:
        """Shake hands if there is TLS, and connect the accepted socket to its protocol."""
        loop = asyncio.get_running_loop()
        client = self._accepted.pop(connection)
        limits = {
            "ssl_handshake_timeout": self._times.head,
            "ssl_shutdown_timeout": self._times.drain,
        }
        try:
            # The end of an answer must not wait for the acknowledgement of its beginning; asyncio
            # sets this for its own listeners.
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(
                lambda: connection, client, ssl=self._tls, **(limits if self._tls else {})
            )
        except OSError:  # the client reset the connection or failed the handshake
            client.close()
        finally:
            if not connection.connected:
                self._forget(connection)

    def evict(self, *phases: Phase) -> bool:
        """End the client that stalled longest in these phases; return False if none stalled."""
        now = time.monotonic()
        stalled = [connection for connection in self._tasks if connection.stalled(phases, now)]
        if stalled:
            self._end(min(stalled, key=lambda connection: connection.since))
        return bool(stalled)

    def end_overdue(self) -> None:
        """End every connection that is past its deadline."""
        now = time.monotonic()
        for connection in self.connections:
            if connection.deadline < now:
                self._end(connection)

    async def close(self) -> None:
        """Wait a moment for unfinished answers, then end all connections."""
        for connection in self.connections:
            if not connection.connected:
                self._end(connection)
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._times.stop):
                while self._tasks:
                    self._left.clear()
                    await self._left.wait()
        for connection in self.connections:
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
