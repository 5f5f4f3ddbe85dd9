"""What is at the other end when it is no broker that would let us in; without a broker."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from certificates import Certificates, make_certificates

from consumers.sources.kafka_admin import KafkaConnection
from consumers.sources.kafka_preflight import Need, check_access
from monitor.errors import AccessError

Talk = Callable[[socket.socket], None]
Serve = Callable[..., tuple[str, int]]
NEED = Need(("decisions", "labels"), "slicewatch")
PATIENT = 60.0
"""Seconds for what is answered at once, if the machine has the time for it."""
SASL = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": "somebody",
    "sasl_plain_password": "a-secret",
}


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A port whose connections are talked to as told, one after the other."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def open_port(talk: Talk, host: str = "127.0.0.1") -> tuple[str, int]:
        listener = socket.create_server((host, 0))
        listeners.append(listener)

        def accept() -> None:
            while True:
                try:
                    connected, _ = listener.accept()
                except OSError:
                    return
                with connected, suppress(OSError, struct.error):
                    talk(connected)

        threads.append(threading.Thread(target=accept))
        threads[-1].start()
        return host, int(listener.getsockname()[1])

    yield open_port
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    for thread in threads:
        thread.join()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def request_of(connected: socket.socket) -> int:
    """Read one request; its number."""
    (size,) = struct.unpack(">i", connected.recv(4, socket.MSG_WAITALL))
    (number,) = struct.unpack(">4xi", connected.recv(size, socket.MSG_WAITALL)[:8])
    return int(number)


def answer(connected: socket.socket, number: int, body: bytes) -> None:
    connected.sendall(struct.pack(">ii", 4 + len(body), number) + body)


def versions(*apis: tuple[int, int, int]) -> bytes:
    return struct.pack(">hi", 0, len(apis)) + b"".join(struct.pack(">hhh", *api) for api in apis)


def hang_up(connected: socket.socket) -> None:
    connected.recv(4096)


def refusal(address: tuple[str, int], security: dict[str, Any] | None = None) -> str:
    with pytest.raises(AccessError) as raised:
        check_access(address, security or {}, NEED, PATIENT)
    said = str(raised.value)
    assert "\n" not in said
    assert "a-secret" not in said
    return said


def test_another_service(serve: Serve) -> None:
    web = serve(lambda connected: connected.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    assert "does not speak Kafka in plain text" in refusal(web)
    assert "set stream.security.protocol to SASL_SSL" in refusal(web, SASL)


def test_a_node_that_is_no_broker(serve: Serve) -> None:
    """A controller of the cluster knows its versions, and no topics."""

    def controller(connected: socket.socket) -> None:
        answer(connected, request_of(connected), versions((18, 0, 4)))
        hang_up(connected)

    assert "does not answer like a Kafka broker" in refusal(serve(controller))


@pytest.mark.parametrize("security", [{}, SASL], ids=["plain", "sasl"])
def test_noise_in_the_place_of_answers(serve: Serve, security: dict[str, str]) -> None:
    chance = random.Random(7)

    def noise(connected: socket.socket) -> None:
        number = request_of(connected)
        if chance.random() < 0.8:
            answer(connected, number, versions((3, 0, 13), (12, 0, 4), (17, 0, 1), (36, 0, 2)))
            number = request_of(connected)
        answer(connected, number, chance.randbytes(chance.randrange(80)))

    address = serve(noise)
    for _ in range(200):
        refusal(address, security)


def test_silence_ends_in_time(serve: Serve) -> None:
    release = threading.Event()
    address = serve(lambda connected: release.wait(PATIENT) and None)
    began = time.monotonic()
    try:
        for protocol in ("PLAINTEXT", "SSL"):
            connection = KafkaConnection(
                (f"127.0.0.1:{address[1]}",), security={"security_protocol": protocol}, timeout=0.3
            )
            with pytest.raises(AccessError, match="no Kafka broker can be reached"):
                connection.check_access(NEED)
    finally:
        release.set()
    assert time.monotonic() - began < PATIENT / 2


def test_an_answer_in_drops_ends_in_time(serve: Serve) -> None:
    """The time is for all of it, not for each byte."""

    def drip(connected: socket.socket) -> None:
        request_of(connected)
        connected.sendall(struct.pack(">i", 1_000_000))
        while True:
            connected.sendall(b"\0")
            time.sleep(0.001)

    began = time.monotonic()
    with pytest.raises(TimeoutError):
        check_access(serve(drip), {}, NEED, 0.5)
    assert time.monotonic() - began < PATIENT / 2


def test_a_certificate_for_another_name(serve: Serve, certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)

    def shake(connected: socket.socket) -> None:
        with context.wrap_socket(connected, server_side=True) as secured:
            hang_up(secured)

    address = serve(shake, "127.0.0.2")  # the certificate is for localhost and 127.0.0.1
    said = refusal(address, {"security_protocol": "SSL", "ssl_cafile": str(certificates.ca)})
    assert "is not trusted" in said
    assert "use a name that it holds in stream.bootstrap_servers" in said


def test_an_encrypted_key_is_not_asked_for_its_password(
    certificates: Certificates, tmp_path: Path, serve: Serve
) -> None:
    key = tmp_path / "key.pem"
    begin, end = (f"-----{word} ENCRYPTED PRIVATE KEY-----" for word in ("BEGIN", "END"))
    key.write_text(f"{begin}\nMIIB\n{end}\n")
    files = {"ssl_certfile": str(certificates.client), "ssl_keyfile": str(key)}
    said = refusal(serve(hang_up), {"security_protocol": "SSL", **files})
    assert "stream.security.cert_file and key_file cannot be used" in said


def test_what_one_broker_refuses_another_may_allow(serve: Serve) -> None:
    """The first that lets us in is enough; a refusal tells more than a dead address."""
    dead = "127.0.0.1:1"

    def friendly(connected: socket.socket) -> None:
        known = versions((3, 0, 1), (12, 0, 0))
        answer(connected, request_of(connected), known)
        answer(connected, request_of(connected), struct.pack(">iii", 0, -1, 0))
        answer(connected, request_of(connected), struct.pack(">h", 25))

    strict, open_ = (f"127.0.0.1:{serve(talk)[1]}" for talk in (hang_up, friendly))
    KafkaConnection((dead, strict, open_), timeout=PATIENT).check_access(NEED)
    with pytest.raises(AccessError, match=f"{strict} does not speak Kafka in plain text"):
        KafkaConnection((dead, strict), timeout=PATIENT).check_access(NEED)
    with pytest.raises(AccessError, match=f"reached .{dead}: Connection refused"):
        KafkaConnection((dead,)).check_access(NEED)
