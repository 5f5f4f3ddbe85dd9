"""Clients that are slow, silent, greedy or hostile: over real sockets, byte by byte."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus

import pytest
from certificates import Certificates, make_certificates
from example_counts import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from monitoring import eventually
from served import (
    FAR,
    GET,
    SCRAPE,
    Start,
    Switches,
    ask,
    connect,
    fetch,
    of_the_server,
    open_connections,
    read_all,
    read_answer,
    small_exporter,
    starter,
    statuses,
    whole,
)

import alerts.http.server
from alerts.exposition.exporter import TEXT, Exporter
from alerts.http import HttpConfig, Servers
from alerts.http.connection import MAX_HEAD, Patience

HOST = b"Host: localhost\r\n"
LAST = HOST + b"Connection: close\r\n\r\n"
ROOT = b"GET / HTTP/1.1\r\n" + HOST


@pytest.fixture
def exporter() -> Exporter:
    return small_exporter()


@pytest.fixture
def start(exporter: Exporter) -> Iterator[Start]:
    with starter(exporter, Switches()) as start:
        yield start


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 400),
        (b"GET / HTTP/0.9\r\n" + HOST + b"\r\n", 400),
        (b"GET / HTTP/1.10\r\n" + HOST + b"\r\n", 400),
        (b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET / / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"G\x00T / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"G@T / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (ROOT + HOST + b"\r\n", 400),
        (ROOT + b"no colon\r\n\r\n", 400),
        (ROOT + b": no name\r\n\r\n", 400),
        (ROOT + b"space before : b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: b\r\n" + HOST + b"\r\n", 400),
        (ROOT + b"A: \x00\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (ROOT + b"A: " + b"b" * MAX_HEAD + b"\r\n\r\n", 431),
        (ROOT + b"A: " + b"b" * 20_000, 400),
        (ROOT + b"A: " + b"b" * 40_000 + b"\r\n\r\n", 431),
        (ROOT + b"A: b\r\n" * 10_000 + b"\r\n", 431),
        (b"GET /" + b"a" * MAX_HEAD + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431),
        (b"GET /" + b"a" * 20_000, 400),
        (b"POST /metrics HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello", 405),
        (b"GET /" + b"../" * 99 + b"etc/passwd HTTP/1.1\r\n" + LAST, 404),
        (b"GET http://x/metrics HTTP/1.1\r\n" + LAST, 404),
        (b"OPTIONS * HTTP/1.1\r\n" + LAST, 404),
    ],
)  # fmt: skip
def test_bad_requests_end_in_their_status(start: Start, request_bytes: bytes, status: int) -> None:
    answer = ask(start(), request_bytes)
    head, _, body = answer.partition(b"\r\n\r\n")
    phrase = HTTPStatus(status).phrase.encode()

    assert statuses(answer) == [status]
    assert head.lower().split(b"\r\n").count(b"connection: close") == 1
    assert b"\r\nserver:" not in head.lower(), "no banner"
    assert body in (b"Invalid HTTP request received.", b"%d %s\n" % (status, phrase))


def test_whoever_sends_on_after_a_refusal_is_cut_off(start: Start) -> None:
    server = start()
    with connect(server) as client:
        client.sendall(b"\x00\r\n\r\n")
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < FAR:
                client.sendall(b"x" * 65_536)
                assert whole(ask(server, SCRAPE)), "nor does it hold up anyone"

    assert time.monotonic() - began < FAR / 2


def test_a_folded_header_is_one_line_and_a_bare_line_feed_ends_one(start: Start) -> None:
    """RFC 9112 leaves both to the server; nothing in front of us may read them otherwise."""
    server = start(tokens={"a": "t"})
    scrape = SCRAPE.replace(HOST, HOST + b"Authorization: Bearer\r\n t\r\n")

    assert whole(ask(server, scrape))
    assert statuses(ask(server, scrape.replace(b"\r\n t\r\n", b"\r\n u\r\n"))) == [401]
    assert statuses(ask(server, GET.replace(b"\r\n", b"\n"))) == [200]


def test_a_path_is_decoded_before_it_is_guarded(start: Start) -> None:
    server = start(tokens={"a": "t"})
    for path in ("/metrics", "/%6detrics", "/%6d%65trics?x=1"):
        assert fetch(server, path)[0] == 401
        assert fetch(server, path, Authorization="Bearer t")[0] == 200


def test_two_tokens_are_none(start: Start) -> None:
    two = b"Authorization: Bearer t\r\nAuthorization: Bearer u\r\n"
    answer = ask(start(tokens={"a": "t"}), SCRAPE.replace(HOST, HOST + two))

    assert statuses(answer) == [401]


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: %d\r\n\r\n" % len(GET),
        b"Content-Length: 1\r\n\r\n",
        b"Content-Length: %d\r\nConnection: keep-alive\r\n\r\n" % len(GET),
        b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n0\r\n\r\n" % len(GET),
        b"Content-Length: %d\r\nContent-Length: 0\r\n\r\n" % len(GET),
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: +0\r\n\r\n",
        b"Content-Length: 0x10\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n\r\n",
        b"Upgrade: h2c\r\nConnection: Upgrade, close\r\n\r\n",
        b"Upgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n",
    ],
)
@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_a_body_is_not_taken_for_the_next_request(
    start: Start, caplog: pytest.LogCaptureFixture, framing: bytes, method: bytes
) -> None:
    request = method + b" /livez HTTP/1.1\r\n" + HOST + framing + GET
    answer = ask(start(), request)

    assert len(statuses(answer)) == 1
    assert b"connection: close" in answer.lower()
    assert of_the_server(caplog.records) == [], "no flood of these fills the log"


def test_a_body_that_never_ends_is_not_waited_for(start: Start) -> None:
    with connect(start()) as client:
        client.sendall(b"POST /metrics HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999\r\n\r\nx")

        assert statuses(read_all(client)) == [405]


def test_no_client_is_told_to_go_on_with_a_body(start: Start) -> None:
    expecting = b"GET /livez HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 5\r\n"

    assert statuses(ask(start(), expecting + b"\r\n")) == [200]


def test_keep_alive_and_pipelining(start: Start) -> None:
    server = start()

    assert statuses(ask(server, GET * 3)) == [200] * 3
    assert statuses(ask(server, GET * 100)) == [200] * 100
    assert statuses(ask(server, GET.replace(b"1.1", b"1.0") * 2)) == [200]
    closing = GET.replace(HOST, HOST + b"Connection: close\r\n")
    assert statuses(ask(server, closing * 2)) == [200]
    assert statuses(ask(server, GET + b"\x00")) == [200, 400]
    mixed = SCRAPE.replace(b"Connection: close\r\n", b"")
    assert statuses(ask(server, mixed + GET + mixed + closing + GET)) == [200] * 4


def test_a_kept_connection_is_answered_as_often_as_it_asks(start: Start) -> None:
    with connect(start()) as client:
        for _ in range(20):
            client.sendall(GET)
            assert whole(read_answer(client))


def test_http_1_0_needs_no_host_and_is_answered_once(start: Start) -> None:
    answer = ask(start(), b"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2)

    assert statuses(answer) == [200]
    assert b"\r\nconnection: close\r\n" in answer.lower()


def test_a_client_that_says_no_more_is_still_answered(start: Start, exporter: Exporter) -> None:
    def slow(accept: str, gzip: bool) -> tuple[list[bytes], str]:
        time.sleep(0.2)
        return [b"x" * 1_000_000], TEXT

    exporter.body = slow  # type: ignore[method-assign]
    server = start()

    assert whole(ask(server, SCRAPE.replace(b"Connection: close\r\n", b"")))
    assert ask(server, b"") == ask(server, GET[:-1]) == b""


@given(data=st.binary(max_size=300))
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_bytes_are_refused_or_answered(lasting: Servers, data: bytes) -> None:
    for request in (data, b"GET " + data + b" HTTP/1.1\r\n" + HOST + b"\r\n", ROOT + data):
        assert set(statuses(ask(lasting, request))) <= {200, 400, 404, 405, 431}
    assert whole(ask(lasting, SCRAPE))


@pytest.fixture
def lasting(start: Start) -> Servers:
    return start()


def test_nothing_that_was_asked_is_repeated(
    start: Start, exporter: Exporter, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in an answer nor in the log: a path or a header may hold what is private."""
    caplog.set_level(logging.DEBUG)

    def fail(accept: str, gzip: bool) -> tuple[list[bytes], str]:
        raise RuntimeError("cannot read " + accept)

    exporter.body = fail  # type: ignore[method-assign]
    server = start()
    secret = b"private-thing"
    field = b"Accept: " + secret + b"\r\nReferer: " + secret + b"\r\nConnection: close\r\n\r\n"
    answers = [
        ask(server, line + b" HTTP/1.1\r\n" + HOST + field)
        for line in (
            b"GET /" + secret,
            b"GET /metrics?" + secret,
            b"GET /metrics/" + secret,
            secret + b" /metrics",
            secret + b" / /",
            b"GET /snapshot/" + secret,
        )
    ]
    answers.append(ask(server, ROOT + secret + b"\r\n\r\n"))
    answers.append(ask(server, ROOT + b"A: " + secret * 2_000 + b"\r\n\r\n"))

    assert [statuses(answer)[0] for answer in answers] == [404, 500, 404, 405, 400, 404, 400, 431]
    assert not [answer for answer in answers if secret in answer]
    told = [record.getMessage() for record in caplog.records]
    assert [line for line in told if "private-thing" in line] == []
    assert told.count("no answer to /metrics") == 1


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts.http.server, "DEADLINES", Patience(request=0.3, answer=0.3))


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("begun", [b"", b"GET /met", GET, GET + b"GE"])
def test_who_asks_for_nothing_is_ended(start: Start, begun: bytes) -> None:
    with connect(start()) as silent:
        silent.sendall(begun)

        assert len(statuses(read_all(silent))) == begun.count(GET)


@pytest.mark.usefixtures("hasty")
def test_a_byte_now_and_then_does_not_extend_the_deadline(start: Start) -> None:
    server = start()
    with connect(server) as slow:
        slow.settimeout(0.05)
        sent = 0
        for byte in GET[:-2] + b"A: b\r\n" * 100:
            try:
                slow.sendall(bytes([byte]))
                sent += 1
                if slow.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break

    assert sent < 200, "the whole head has 0.3 s, and these take 10"


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("kept", [True, False])
def test_whoever_takes_nothing_of_an_answer_is_ended(
    start: Start, exporter: Exporter, *, kept: bool
) -> None:
    """Also when all of it is made, and waits in the connection's own buffer."""
    exporter.body = lambda accept, gzip: ([bytes(20_000_000)], TEXT)  # type: ignore[method-assign]
    server = start()
    with connect(server) as stuck:
        stuck.sendall(SCRAPE.replace(b"Connection: close\r\n", b"") if kept else SCRAPE)
        stuck.recv(1)
        eventually(lambda: open_connections(server) == 0, "the server lets go of the connection")

        assert len(read_all(stuck)) < 20_000_000


@pytest.mark.usefixtures("hasty")
def test_whoever_takes_an_answer_bit_by_bit_has_one_deadline_for_it(
    start: Start, exporter: Exporter
) -> None:
    big = os.urandom(30_000_000)
    exporter.body = lambda accept, gzip: ([big], TEXT)  # type: ignore[method-assign]
    with connect(start()) as slow:
        slow.sendall(SCRAPE)
        taken, began = 0, time.monotonic()
        with contextlib.suppress(ConnectionError):
            while chunk := slow.recv(100_000):
                taken += len(chunk)
                time.sleep(0.02)

    assert taken < len(big)
    assert time.monotonic() - began < FAR


def tls_config(certificates: Certificates) -> HttpConfig:
    return HttpConfig(port=0, cert_file=certificates.server, key_file=certificates.server_key)


def scrape_tls(server: Servers, certificates: Certificates) -> bool:
    context = ssl.create_default_context(cafile=certificates.ca)
    with connect(server) as plain, context.wrap_socket(plain, server_hostname="localhost") as tls:
        tls.sendall(SCRAPE)
        return whole(read_all(tls))


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"])
def test_a_flood_of_handshakes_that_do_not_end_holds_no_place(
    start: Start, certificates: Certificates, begun: bytes
) -> None:
    server = start(tls_config(certificates), slots=4)  # with the real timeouts
    waiting = [connect(server) for _ in range(30)]
    for client in waiting:
        client.sendall(begun)

    for _ in range(3):
        assert scrape_tls(server, certificates)
    for client in waiting:
        client.close()


@pytest.mark.usefixtures("hasty")
def test_a_handshake_has_a_deadline(start: Start, certificates: Certificates) -> None:
    with connect(start(tls_config(certificates))) as silent:
        assert read_all(silent) == b""


def test_a_tls_client_that_does_not_say_good_bye_is_not_waited_for(
    start: Start, certificates: Certificates
) -> None:
    server = start(tls_config(certificates))
    context = ssl.create_default_context(cafile=certificates.ca)
    with connect(server) as plain, context.wrap_socket(plain, server_hostname="localhost") as tls:
        tls.sendall(GET)
        assert whole(read_answer(tls))
        began = time.monotonic()
        server.stop()

    assert time.monotonic() - began < FAR / 2


def test_no_more_than_the_slots_are_open(start: Start) -> None:
    """Those beyond wait in the system's backlog, where they cost no descriptor of ours."""
    server = start(slots=8)
    clients = [connect(server) for _ in range(60)]
    eventually(lambda: open_connections(server) > 0, "some of them are accepted")
    time.sleep(0.1)

    assert open_connections(server) <= 8
    for client in clients:
        client.close()
    assert whole(ask(server, SCRAPE))


def test_an_answer_in_the_making_is_finished_when_the_server_stops(
    start: Start, exporter: Exporter
) -> None:
    begun = threading.Event()

    def slow(accept: str, gzip: bool) -> tuple[list[bytes], str]:
        begun.set()
        time.sleep(0.4)
        return [b"x" * 1_000_000], TEXT

    exporter.body = slow  # type: ignore[method-assign]
    server = start()
    with connect(server) as client:
        client.sendall(SCRAPE.replace(b"Connection: close\r\n", b""))
        assert begun.wait(FAR)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        answer = read_all(client)
        stopping.join()

    assert whole(answer)


def test_a_view_that_hangs_does_not_hold_up_the_stop(
    start: Start, exporter: Exporter, caplog: pytest.LogCaptureFixture
) -> None:
    begun, done = threading.Event(), threading.Event()

    def hang(accept: str, gzip: bool) -> tuple[list[bytes], str]:
        begun.set()
        done.wait(60)
        return [], TEXT

    exporter.body = hang  # type: ignore[method-assign]
    server = start(answers=1, stop_seconds=0.2)
    with connect(server) as client, connect(server) as waits_for_its_turn:
        client.sendall(SCRAPE)
        waits_for_its_turn.sendall(SCRAPE)
        assert begun.wait(FAR)
        began = time.monotonic()
        server.stop()
        took = time.monotonic() - began
        done.set()

        assert read_all(client) == read_all(waits_for_its_turn) == b""
    assert took < FAR / 2
    assert of_the_server(caplog.records) == []


def test_whoever_asks_on_and_takes_nothing_keeps_no_turn(start: Start, exporter: Exporter) -> None:
    """Each page is small enough to be made and sent before it is seen that nobody takes it."""
    exporter.body = lambda accept, gzip: ([bytes(200_000)], TEXT)  # type: ignore[method-assign]
    server = start(answers=2)
    greedy = [connect(server) for _ in range(3)]
    for client in greedy:
        client.sendall(SCRAPE.replace(b"Connection: close\r\n", b"") * 150)
    time.sleep(0.3)

    assert whole(ask(server, SCRAPE))
    for client in greedy:
        client.close()


def test_garbage_in_place_of_tls_is_not_worth_a_line(
    start: Start, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server = start(tls_config(certificates))
    assert statuses(ask(server, GET)) == []
    assert statuses(ask(server, os.urandom(100_000))) == []
    context = ssl.create_default_context(cafile=certificates.ca)
    with connect(server) as plain:
        tls = context.wrap_socket(plain, server_hostname="localhost")
        descriptor = socket.socket(fileno=os.dup(tls.fileno()))
        with contextlib.closing(tls), descriptor:
            descriptor.sendall(b"not encrypted" * 100)
            with contextlib.suppress(OSError):
                while tls.recv(65_536):
                    pass

    assert scrape_tls(server, certificates)
    told = [one for one in of_the_server(caplog.records) if one.name != "slicewatch.access"]
    assert told == []
