"""Who is ended while the acceptor is busy with others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import uvicorn
from uvicorn.server import ServerState

from alerts.http import HttpConfig
from alerts.http.acceptor import Acceptor
from alerts.http.connection import Connection, Patience


def test_a_client_that_is_evicted_before_it_had_its_turn_is_hung_up_on() -> None:
    """Not when its socket is collected, of which Python warns, and that is an error here."""
    assert asyncio.run(_evicted_at_once()) == b""


async def _evicted_at_once() -> bytes:
    loop = asyncio.get_running_loop()

    def connect(gone: Callable[[Connection], None]) -> Connection:
        made = Connection(
            uvicorn.Config(_nothing, interface="asgi3", log_config=None), ServerState(), gone
        )
        made.since -= 60.0
        loop.call_soon(evict)  # before the task that is made for it
        return made

    def evict() -> None:
        acceptor.evict(Patience(30.0, 30.0), most=1)

    acceptor = Acceptor(HttpConfig(), None, connect)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        accepting = asyncio.create_task(acceptor.open(listener))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        async with asyncio.timeout(10.0):
            answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        accepting.cancel()
    return answer


async def _nothing(scope: object, receive: object, send: object) -> None:
    """An application that nobody asks."""
