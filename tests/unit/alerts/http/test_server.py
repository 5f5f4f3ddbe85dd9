"""What a port answers, to whom, and for how long: over real sockets."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import logging
import os
import re
import resource
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from certificates import Certificates, make_certificates
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
    read_all,
    read_answer,
    servers,
    small_exporter,
    starter,
    whole,
)

from alerts.exposition.exporter import OPENMETRICS, TEXT, Exporter
from alerts.http import HttpConfig, Servers
from alerts.http.access_log import AccessLog
from monitor.errors import SlicewatchError
from monitor.logs import JsonFormatter

BEARER_OR_PASSWORD = 'Bearer, Basic realm="slicewatch", charset="UTF-8"'


@pytest.fixture
def switches() -> Switches:
    return Switches()


@pytest.fixture
def exporter() -> Exporter:
    return small_exporter()


@pytest.fixture
def start(exporter: Exporter, switches: Switches) -> Iterator[Start]:
    with starter(exporter, switches) as start:
        yield start


def test_metrics_as_text_and_openmetrics_plain_and_compressed(start: Start) -> None:
    server = start()
    status, headers, text = fetch(server, "/metrics")
    accept = "application/openmetrics-text;version=1.0.0"
    _, packed_headers, packed = fetch(server, "/metrics", Accept=accept, Accept_Encoding="gzip")

    assert (status, headers["content-type"]) == (200, TEXT)
    assert b"slicewatch_slice_state{" in text
    assert b"slicewatch_flushes_total 0.0" in text
    assert packed_headers["content-type"] == OPENMETRICS
    assert packed_headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed).endswith(b"# EOF\n")
    assert headers["vary"] == "Accept, Accept-Encoding"
    assert "server" not in headers


def test_health_paths_say_yes_or_no_and_readiness_says_why(
    start: Start, switches: Switches, caplog: pytest.LogCaptureFixture
) -> None:
    server = start(tokens={"a": "secret"})
    for path in ("/livez", "/healthz", "/readyz", "/startupz"):
        assert fetch(server, path)[::2] == (200, b"ok\n")

    switches.live = switches.started = False
    switches.ready = (False, "store db1 is away")
    with caplog.at_level(logging.INFO):
        answers = {p: fetch(server, p)[::2] for p in ("/livez", "/readyz", "/startupz")}

    assert answers.pop("/readyz") == (503, b"store db1 is away\n")
    assert set(answers.values()) == {(503, b"503 Service Unavailable\n")}
    assert "store db1 is away" in caplog.text


def test_index_unknown_paths_and_methods(start: Start) -> None:
    server = start()

    assert fetch(server, "/")[0] == 200
    assert b"/metrics" in fetch(server, "/")[2]
    assert fetch(server, "/metrics?name[]=x")[0] == 200
    for path in ("/metricsx", "/metrics/", "/../etc/passwd", "//metrics", "/%2fmetrics", "/%00"):
        status, _, body = fetch(server, path)
        assert (status, body) == (404, b"404 Not Found\n")
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"):
        status, headers, body = fetch(server, "/metrics", method)
        assert (status, headers["allow"]) == (405, "GET, HEAD")
        assert body == b"405 Method Not Allowed\n"


def test_head_is_get_without_a_body(start: Start) -> None:
    server = start()
    status, headers, body = fetch(server, "/livez", "HEAD")

    assert (status, headers["content-length"], body) == (200, "3", b"")


@pytest.mark.parametrize(
    "accept", ["application/openmetrics-text;version=abc", ";;;", "q=nan", "\xff", "a" * 9_000]
)
def test_a_malformed_accept_is_never_an_error(start: Start, accept: str) -> None:
    status, headers, _ = fetch(start(), "/metrics", Accept=accept)

    assert (status, headers["content-type"]) == (200, TEXT)


def test_the_token_guards_metrics_alone(start: Start) -> None:
    server = start(tokens={"a": "s3cret-ü"})
    good = "Bearer s3cret-ü".encode().decode("latin-1")

    assert fetch(server, "/metrics", Authorization=good)[0] == 200
    assert fetch(server, "/metrics", Authorization=good.replace("Bearer", "bearer"))[0] == 200
    status, headers, body = fetch(server, "/metrics")
    assert (status, headers["www-authenticate"]) == (401, BEARER_OR_PASSWORD)
    assert b"slicewatch" not in body
    for wrong in ("Bearer", "Bearer ", "Bearer s3cret", "Basic s3cret-ü", "s3cret-ü", "\xff"):
        assert fetch(server, "/metrics", Authorization=wrong)[0] == 401
    assert fetch(server, "/livez")[0] == 200


def test_an_error_inside_is_a_500_without_details(
    start: Start, exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(accept: str, gzip: bool) -> tuple[list[bytes], str]:
        raise RuntimeError("private detail")

    monkeypatch.setattr(exporter, "body", fail)
    status, _, body = fetch(start(), "/metrics")

    assert (status, body) == (500, b"500 Internal Server Error\n")


@pytest.mark.parametrize("first", [b"", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nA: "])
def test_clients_that_wait_do_not_keep_others_out(start: Start, first: bytes) -> None:
    server = start(slots=4)  # with the real timeouts: nobody is waited for
    waiting = [connect(server) for _ in range(20)]
    for client in waiting:
        client.sendall(first)

    for _ in range(10):
        assert fetch(server, "/metrics")[0] == 200
    for client in waiting:
        client.close()


def test_a_reader_that_does_not_read_is_ended(start: Start, exporter: Exporter) -> None:
    big = b"x" * 20_000_000
    exporter.body = lambda accept, gzip: ([big], TEXT)  # type: ignore[method-assign]
    server = start(slots=1)
    with connect(server) as stuck:
        stuck.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        stuck.recv(1)
        # The only slot is responding: a newcomer waits until it is ended.
        assert b"200 OK" in ask(server, GET)
        assert len(read_all(stuck)) < len(big)


def test_readers_that_do_not_read_do_not_keep_others_from_their_turn(
    start: Start, exporter: Exporter
) -> None:
    big = b"x" * 20_000_000
    exporter.body = lambda accept, gzip: ([big], TEXT)  # type: ignore[method-assign]
    server = start(answers=2)
    stuck = [connect(server) for _ in range(4)]
    for client in stuck:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.05)

    assert whole(ask(server, SCRAPE))
    for client in stuck:
        client.close()


def test_whoever_gets_no_turn_is_told_when_to_come_again(start: Start, exporter: Exporter) -> None:
    begun, going_on = threading.Event(), threading.Event()

    def slow(accept: str, gzip: bool) -> tuple[list[bytes], str]:
        begun.set()
        going_on.wait(FAR)
        return [], TEXT

    exporter.body = slow  # type: ignore[method-assign]
    server = start(answers=1, turn_seconds=0.2)
    with connect(server) as first:
        first.sendall(SCRAPE)
        assert begun.wait(FAR)
        told = ask(server, SCRAPE)
        probed = ask(server, GET)
        going_on.set()
        answered = read_all(first)

    assert told.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 5\r\n" in told.lower()
    assert probed.startswith(b"HTTP/1.1 200 "), "a probe has no page to wait for"
    assert answered.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "limits", [{}, {"slots": 16, "answers": 4}], ids=["as it is", "more than the slots"]
)
def test_a_crowd_of_scrapers_is_answered_and_nobody_reset(
    start: Start, exporter: Exporter, limits: dict[str, int]
) -> None:
    page = gzip.compress(os.urandom(400_000))
    all_have_asked = threading.Event()

    def body(accept: str, gzip: bool) -> tuple[list[bytes], str]:
        all_have_asked.wait(FAR)
        time.sleep(0.03)
        return [page], TEXT

    exporter.body = body  # type: ignore[method-assign]
    server = start(turn_seconds=3 * FAR, **limits)
    answers: list[bytes] = []

    def read(client: socket.socket) -> None:
        parts = []
        with client:
            while part := client.recv(65_536):  # a reset raises, and no answer is kept
                parts.append(part)
        answers.append(b"".join(parts))

    readers = []
    for _ in range(80):
        client = socket.create_connection(("127.0.0.1", server.port), timeout=3 * FAR)
        client.sendall(SCRAPE)  # by the thread that connects: who waits with it is not kept
        readers.append(threading.Thread(target=read, args=(client,)))
        readers[-1].start()
    all_have_asked.set()
    for reader in readers:
        reader.join()

    assert [whole(answer) for answer in answers] == [True] * 80


def test_many_scrapes_at_once(start: Start) -> None:
    """Six clients need up to twelve slots: one is free only when its end is seen."""
    server = start()
    statuses: list[int] = []

    def scrape() -> None:
        for _ in range(10):
            statuses.append(fetch(server, "/metrics", Accept_Encoding="gzip")[0])

    threads = [threading.Thread(target=scrape) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert statuses == [200] * 60


def test_stop_closes_the_port_and_kept_connections(start: Start) -> None:
    server = start()
    port = server.port
    with connect(server) as kept, connect(server) as fresh:
        kept.sendall(GET)
        assert whole(read_answer(kept))
        before = {t.name for t in threading.enumerate()}
        server.stop()
        server.stop()

        assert read_all(kept) == read_all(fresh) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=FAR)
        assert "http" in before
        assert not [t for t in threading.enumerate() if t.name == "http"]


def test_a_low_limit_on_descriptors_is_raised(start: Start) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        start()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (4096, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_stop_before_start_is_nothing(exporter: Exporter, switches: Switches) -> None:
    server = servers(HttpConfig(port=0), exporter, switches)
    assert server.port == 0
    server.stop()


def test_an_address_in_use_is_one_clear_line(
    start: Start, exporter: Exporter, switches: Switches
) -> None:
    taken = start().port
    second = servers(HttpConfig(port=taken), exporter, switches)

    with pytest.raises(SlicewatchError, match=f"127.0.0.1 port {taken}: Address already in use"):
        second.start()
    nowhere = HttpConfig(host="127.0.0.999", port=0, insecure=True)
    with pytest.raises(SlicewatchError, match="cannot listen on"):
        servers(nowhere, exporter, switches).start()


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (HttpConfig(host="0.0.0.0"), "server.listen"),
        (HttpConfig(host="::"), "server.listen"),
        (HttpConfig(host="metrics.example"), "server.listen"),
        (HttpConfig(host="0.0.0.0", tokens={"a": "t"}), "server.listen"),
        (HttpConfig(host="0.0.0.0", cert_file=Path("c")), "server.listen"),
        (HttpConfig(port=70_000), "server.listen"),
        (HttpConfig(tokens={"a": ""}), "server.token"),
        (HttpConfig(client_ca_file=Path("c")), "server.client_ca_file"),
        (HttpConfig(cert_file=Path("/nowhere/c.pem")), "server.tls_cert_file"),
    ],
)
def test_the_policy_refuses(
    config: HttpConfig, key: str, exporter: Exporter, switches: Switches
) -> None:
    with pytest.raises(SlicewatchError, match=key) as raised:
        servers(config, exporter, switches)
    assert "\n" not in str(raised.value)


def test_a_file_that_cannot_be_used_is_named(
    exporter: Exporter, switches: Switches, tmp_path: Path
) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    for file, reason in ((tmp_path / "none.pem", "No such file"), (text, "PEM is needed")):
        said = re.escape(f"server.tls_cert_file: {file} cannot be used: {reason}")
        with pytest.raises(SlicewatchError, match=said):
            servers(HttpConfig(cert_file=file), exporter, switches)


def test_the_policy_allows() -> None:
    cert = Path("c")
    HttpConfig().check()
    HttpConfig(host="::1").check()
    HttpConfig(host="localhost").check()
    HttpConfig(host="0.0.0.0", cert_file=cert, tokens={"a": "t"}).check()
    HttpConfig(host="0.0.0.0", cert_file=cert, client_ca_file=cert).check()
    HttpConfig(host="0.0.0.0", insecure=True).check()


def test_insecure_is_logged_and_exported(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    body = fetch(start(host="0.0.0.0", insecure=True), "/metrics")[2]
    assert b"slicewatch_server_insecure 1.0" in body
    assert "insecure" in caplog.text

    caplog.clear()
    body = fetch(start(insecure=True), "/metrics")[2]
    assert b"slicewatch_server_insecure 0.0" in body, "nobody else can reach it"
    assert of_the_server(caplog.records) == []


def test_the_token_is_not_printed() -> None:
    assert "s3cret" not in repr(HttpConfig(tokens={"a": "s3cret"}))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def fetch_tls(
    server: Servers, certificates: Certificates, path: str, *, with_client: bool = False
) -> int:
    context = ssl.create_default_context(cafile=certificates.ca)
    if with_client:
        context.load_cert_chain(certificates.client, certificates.client_key)
    client = http.client.HTTPSConnection("localhost", server.port, timeout=FAR, context=context)
    with contextlib.closing(client):
        client.request("GET", path, headers={"Authorization": "Bearer t"})
        response = client.getresponse()
        response.read()
        return response.status


def tls_config(certificates: Certificates) -> HttpConfig:
    return HttpConfig(
        port=0, cert_file=certificates.server, key_file=certificates.server_key, tokens={"a": "t"}
    )


def test_tls_with_a_token(start: Start, certificates: Certificates) -> None:
    server = start(tls_config(certificates))

    assert fetch_tls(server, certificates, "/metrics") == 200
    assert ask(server, GET) == b"", "plain HTTP gets no answer"
    context = ssl.create_default_context(cafile=certificates.ca)
    with connect(server) as kept, context.wrap_socket(kept, server_hostname="localhost") as secured:
        secured.sendall(GET)
        assert whole(read_answer(secured))
        server.stop()
        assert read_all(secured) == b""


def test_a_handshake_that_never_begins_blocks_nobody(
    start: Start, certificates: Certificates
) -> None:
    server = start(tls_config(certificates), slots=4)
    waiting = [connect(server) for _ in range(10)]

    assert fetch_tls(server, certificates, "/metrics") == 200
    for client in waiting:
        client.close()


def test_client_certificates_guard_metrics_and_leave_probes_open(
    start: Start, certificates: Certificates
) -> None:
    config = replace(tls_config(certificates), client_ca_file=certificates.ca)
    server = start(config)

    assert fetch_tls(server, certificates, "/metrics", with_client=True) == 200
    assert fetch_tls(server, certificates, "/metrics") == 403
    assert fetch_tls(server, certificates, "/livez") == 200


def test_an_error_outside_the_views_is_told_in_our_log_alone(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    detail = "-".join(["private", "detail"])

    def fail(*_: object) -> None:
        raise RuntimeError(detail)

    monkeypatch.setattr(AccessLog, "record", fail)
    server = start()
    status, _, body = fetch(server, "/metrics?private=question")
    server.stop()

    assert (status, body) == (500, b"500 Internal Server Error\n")
    (told,) = of_the_server(caplog.records)
    line = json.loads(JsonFormatter().format(told))
    assert (line["level"], line["logger"]) == ("error", "uvicorn.error")
    assert "RuntimeError" in line["error"]
    assert detail not in json.dumps(line)


def test_the_server_leaves_signals_and_the_log_as_they_are(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    signals = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in signals]
    server = start()
    assert whole(ask(server, SCRAPE))
    assert fetch(server, "/nowhere")[0] == 404

    assert [signal.getsignal(number) for number in signals] == before
    server.stop()
    records = of_the_server(caplog.records)
    assert {record.name for record in records} <= {"slicewatch.access", "asyncio"}
    assert [record for record in records if record.levelno > logging.INFO] == []


def test_the_index_and_the_catalogue_agree_on_plain_words(start: Start) -> None:
    paths = fetch(start(), "/")[2].decode().split()[1:]

    assert json.dumps(paths) == '["/metrics", "/livez", "/readyz", "/startupz"]'
