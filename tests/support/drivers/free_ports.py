"""Ports for the services that tests start: each is given out once, whoever else asks.

A port that was found free is bound only moments later, by a process that has yet to start. Until
then nothing may take it: not another worker of pytest, so each has a range of its own; not
another test of the worker, so a range is gone through from a random place before anything in it
is given out again; not a client, so no port is of those from which the kernel serves outgoing
connections (32768 up); and not a broker that the product starts, which looks from 20000 up.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from functools import cache

RANGE = range(10_000, 20_000)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has and that nobody else is given."""
    for port in _ports():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("the ports have no end")


@cache
def _ports() -> Iterator[int]:
    """Those of this process, over and over."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return in_turn(int(worker), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def in_turn(worker: int, workers: int) -> Iterator[int]:
    """The ports of one of so many workers, from a random one of them on, without end."""
    own = RANGE[worker::workers]
    place = random.SystemRandom().randrange(len(own))
    while True:
        yield own[place]
        place = (place + 1) % len(own)
