"""A router behind HTTP, on real sockets: every way in which it can fail is one kind of failure."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from email.utils import format_datetime
from pathlib import Path

import pytest
from certificates import Certificates, make_certificates
from probing import (
    KEY,
    SAID,
    Reply,
    ScriptedRouter,
    StillClock,
    answer,
    example_router,
    http,
    probe,
)

from monitor.clock import SystemClock
from monitor.core.time import to_datetime
from monitor.errors import SlicewatchError
from monitor.ports import Clock
from monitor.probing.http_router import LARGEST_ANSWER, HttpAccess, HttpRouter, target
from monitor.probing.protocol import Answer, Failure, FailureKind, Probe, body, router_key

ROUTER_KEY = router_key(KEY.encode())
PATIENT = 30.0


def access(url: str, timeout: float = PATIENT) -> HttpAccess:
    return HttpAccess(target(url), ROUTER_KEY, timeout)


def ask(one: HttpAccess, *probes: Probe, clock: Clock | None = None) -> list[Answer | Failure]:
    router = HttpRouter(one, clock or SystemClock())
    try:
        return [router.ask(each) for each in probes or (probe(),)]
    finally:
        router.close()


def failure(*replies: Reply, timeout: float = PATIENT) -> Failure:
    with ScriptedRouter(*replies) as scripted:
        (outcome,) = ask(access(scripted.url, timeout))
    assert isinstance(outcome, Failure)
    assert "\n" not in outcome.text
    return outcome


def test_a_probe_is_posted_signed_and_answered() -> None:
    clock = StillClock(seconds=1_767_225_600.5)
    with ScriptedRouter(http(SAID)) as scripted:
        assert ask(access(scripted.url), clock=clock) == [answer()]
    (asked,) = scripted.asked
    assert asked.line == "POST /probe HTTP/1.1"
    assert asked.body == body(probe())
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.headers["Slicewatch-Timestamp"] == "1767225600"
    signed = hmac.new(ROUTER_KEY.encode(), b"1767225600." + asked.body, hashlib.sha256)
    assert asked.headers["Slicewatch-Signature"] == f"v1={signed.hexdigest()}"
    assert "Authorization" not in asked.headers


def test_a_token_is_sent_with_each_request() -> None:
    with ScriptedRouter(http(SAID)) as scripted:
        ask(replace(access(scripted.url), token="t0ken"), probe(), probe())
    assert [one.headers["Authorization"] for one in scripted.asked] == ["Bearer t0ken"] * 2


def test_one_connection_is_kept() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    said = json.dumps(SAID).encode()
    chunked += b"%x\r\n%s\r\n0\r\n\r\n" % (len(said), said)
    with ScriptedRouter(http(SAID), chunked, http(SAID)) as scripted:
        assert ask(access(scripted.url), *[probe()] * 4) == [answer()] * 4
    assert [one.connection for one in scripted.asked] == [1, 1, 1, 1]


def test_a_kept_connection_that_the_router_closed_is_a_failure_that_is_tried_again() -> None:
    with ScriptedRouter(http(SAID), None, http(SAID)) as scripted:
        first, second, third = ask(access(scripted.url), *[probe()] * 3)
    assert (first, third) == (answer(), answer())
    assert isinstance(second, Failure)
    assert second.kind is FailureKind.UNREACHABLE


def test_a_port_where_nobody_listens_is_unreachable() -> None:
    with socket.socket() as silent:  # bound, or another program might listen there meanwhile
        silent.bind(("127.0.0.1", 0))
        (outcome,) = ask(access(f"http://127.0.0.1:{silent.getsockname()[1]}/"))
    assert outcome == Failure(FailureKind.UNREACHABLE, "cannot be reached")


def test_a_name_that_nobody_has_is_unreachable() -> None:
    (outcome,) = ask(access("https://router.invalid/"))
    assert outcome == Failure(FailureKind.UNREACHABLE, "cannot be reached")


@pytest.mark.parametrize("noise", [b"SSH-2.0-OpenSSH\r\n\r\n", b"\x00" * 64 + b"\r\n"])
def test_what_speaks_no_http_is_unreachable(noise: bytes) -> None:
    assert failure(noise).kind is FailureKind.UNREACHABLE


def test_an_answer_that_breaks_off_is_unreachable() -> None:
    assert failure([http(SAID)[:-20], None]).kind is FailureKind.UNREACHABLE


def test_a_router_that_says_nothing_is_late() -> None:
    assert failure(b"", timeout=0.3) == Failure(FailureKind.TIMEOUT, "did not answer within 0.3 s")


def test_a_router_that_says_a_little_now_and_then_is_late_too() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"
    drip = [head, *[b" "] * 2000]
    assert failure(drip, timeout=0.5).kind is FailureKind.TIMEOUT


@pytest.mark.parametrize(
    ("head", "again"),
    [
        pytest.param(b"HTTP/1.1 200 ", b"a", id="status line"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", b"a", id="headers"),
        pytest.param(b"HTTP/1.1 500 Oh\r\nX: ", b"a", id="headers of a refusal"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 A\r\n\r\n", id="100"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;", b"a", id="chunk"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: ",
            b"a",
            id="trailers",
        ),
    ],
)
def test_a_router_that_never_comes_to_its_answer_is_late(head: bytes, again: bytes) -> None:
    assert failure([head, *[again] * 2000], timeout=0.5).kind is FailureKind.TIMEOUT


@pytest.mark.parametrize("status", ["500 Oh", "404 No", "401 Who", "201 Made", "204 Nothing"])
def test_any_other_status_is_told(status: str) -> None:
    found = failure(http({"error": "s3cret"}, status))
    assert found == Failure(FailureKind.STATUS, f"answered {status[:3]}")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    with ScriptedRouter(http(SAID)) as elsewhere:
        moved = http({}, f"{status} Moved", f"Location: {elsewhere.url}")
        assert failure(moved).kind is FailureKind.REDIRECT
    assert not elsewhere.asked


@pytest.mark.parametrize("status", ["429 Slow", "503 Busy"])
def test_a_busy_router_says_when_to_come_back(status: str) -> None:
    assert failure(http({}, status)).retry_after is None
    found = failure(http({}, status, "Retry-After: 7"))
    assert found == Failure(FailureKind.BUSY, f"answered {status[:3]}", 7.0)


def test_a_busy_router_may_name_a_time() -> None:
    clock = StillClock(seconds=1_767_225_600.0)
    for ahead, wait in ((90, 90.0), (-90, 0.0)):
        at = format_datetime(to_datetime(clock.now() + ahead * 1_000_000), usegmt=True)
        with ScriptedRouter(http({}, "503 Busy", f"Retry-After: {at}")) as scripted:
            (outcome,) = ask(access(scripted.url), clock=clock)
        assert outcome == Failure(FailureKind.BUSY, "answered 503", wait)


@pytest.mark.parametrize(
    "nonsense",
    [
        *("soon", "-5", "1e9", "\u0663", "Wed, 99 Foo 2026 00:00:00 GMT"),
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        f"Mon, 01 Jan 2026 00:00:00 +{'9' * 20}",
    ],
)
def test_a_busy_router_may_talk_nonsense(nonsense: str) -> None:
    reply = http({}, "503 Busy", f"Retry-After: {nonsense}")
    assert failure(reply).retry_after is None


@pytest.mark.parametrize("length", ["Content-Length: 99999999", "Transfer-Encoding: chunked"])
def test_an_answer_without_end_is_cut_off(length: str) -> None:
    piece = b" " * 4096
    if "chunked" in length:
        piece = b"1000\r\n" + piece + b"\r\n"
    endless = b"HTTP/1.1 200 OK\r\n" + length.encode() + b"\r\n\r\n" + piece * 64
    found = failure(endless)
    assert found.kind is FailureKind.TOO_LARGE
    assert f"{LARGEST_ANSWER:,}" in found.text


def test_the_largest_answer_is_read() -> None:
    said = json.dumps(SAID).encode()
    with ScriptedRouter(http(said.ljust(LARGEST_ANSWER))) as scripted:
        assert ask(access(scripted.url)) == [answer()]


def test_a_packed_answer_is_not_unpacked() -> None:
    packed = gzip.compress(json.dumps(SAID).encode())
    found = failure(http(packed, "200 OK", "Content-Encoding: gzip"))
    assert found.kind is FailureKind.MALFORMED


@pytest.mark.parametrize("content", [b"", b"<html>no</html>", {"route": "somewhere"}])
def test_what_is_no_answer_is_malformed(content: object) -> None:
    assert failure(http(content)).kind is FailureKind.MALFORMED


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with ScriptedRouter(http(SAID)) as scripted:
        assert ask(access(scripted.url)) == [answer()]


def test_the_example_router_answers_what_has_its_key() -> None:
    request = {"text": "Where?", "completeness": 0.9}
    with example_router(ROUTER_KEY) as server:
        (outcome,) = ask(access(server.url), probe(request=request))
        (refused,) = ask(replace(access(server.url), key="another"), probe(request=request))
    assert isinstance(outcome, Answer)
    assert outcome.route == "auto_serve"
    assert refused == Failure(FailureKind.STATUS, "answered 401")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Certificates, int]]:
    """A TLS port that answers; and its certificates."""
    made = make_certificates(tmp_path_factory.mktemp("certificates"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.server, made.server_key)
    with example_router(ROUTER_KEY, context) as server:
        yield made, server.server_address[1]


def trusting(secured: tuple[Certificates, int], host: str, ca_file: Path | None) -> HttpAccess:
    return replace(access(f"https://{host}:{secured[1]}/probe"), ca_file=ca_file)


def test_a_trusted_certificate_is_trusted(secured: tuple[Certificates, int]) -> None:
    one = trusting(secured, "localhost", secured[0].ca)
    (outcome,) = ask(one, probe(request={"completeness": 0.9}))
    assert isinstance(outcome, Answer)


def test_a_certificate_of_nobody_we_know_is_not(secured: tuple[Certificates, int]) -> None:
    (outcome,) = ask(trusting(secured, "localhost", None))
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.UNTRUSTED
    assert "--ca-file" in outcome.text


def test_a_certificate_that_is_not_the_hosts_is_not(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.client, made.client_key)
    with example_router(ROUTER_KEY, context) as server:
        (outcome,) = ask(trusting((made, server.server_address[1]), "localhost", made.ca))
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.UNTRUSTED


def test_plain_http_where_tls_is_meant_is_not(secured: tuple[Certificates, int]) -> None:
    with ScriptedRouter(http(SAID)) as scripted:
        one = access(scripted.url.replace("http", "https"))
        (outcome,) = ask(replace(one, ca_file=secured[0].ca))
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.UNTRUSTED


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_ca_file_must_be_usable(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    one = replace(access("https://router.example/"), ca_file=file)
    with pytest.raises(SlicewatchError, match="--ca-file"):
        HttpRouter(one, SystemClock())
