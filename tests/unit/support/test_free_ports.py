"""Ports of the tests: nobody is given the port of another."""

from __future__ import annotations

import socket
from itertools import islice

from free_ports import RANGE, free_port, in_turn


def test_workers_share_no_port() -> None:
    given = [set(islice(in_turn(worker, 4), len(RANGE) // 4)) for worker in range(4)]
    assert sum(map(len, given)) == len(set().union(*given)) == len(RANGE)


def test_nothing_is_given_twice_nor_what_somebody_has() -> None:
    taken = free_port()
    with socket.create_server(("127.0.0.1", taken)):
        given = [free_port() for _ in range(50)]
    assert len({taken, *given}) == 51
    assert {taken, *given} <= {*RANGE}
