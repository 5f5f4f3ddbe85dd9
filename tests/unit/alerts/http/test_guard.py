"""Who is let in, and by which name."""

from __future__ import annotations

import base64
from http import HTTPStatus

import pytest

from alerts.http.config import common_name
from alerts.http.guard import Guard


def packed(credentials: str) -> str:
    return base64.b64encode(credentials.encode()).decode()


TOKENS = {"prometheus": "first-token", "grafana": "second-token"}


@pytest.mark.parametrize(
    ("header", "reader"),
    [
        ("Bearer first-token", "prometheus"),
        ("bearer second-token ", "grafana"),
        ("Bearer  second-token", "grafana"),
        (f"Basic {packed('whoever:first-token')}", "prometheus"),
        (f"basic {packed(':second-token')}", "grafana"),
    ],
)
def test_each_token_lets_in_under_its_name(header: str, reader: str) -> None:
    admission = Guard(TOKENS, certificates=False).admit(header, None)

    assert admission.granted
    assert admission.reader == reader


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer first", "Bearer first-tokenn", "Basic first-token",
     f"Basic {packed('first-token')}", f"Basic {packed('prometheus:first')}", "Basic !!!", "Basic ",
     "first-token", "Bearer prometheus", "Bearer first-token second-token", "\xff \xff"],
)  # fmt: skip
def test_anything_else_is_refused_without_a_name(header: str) -> None:
    admission = Guard(TOKENS, certificates=False).admit(header, None)

    assert (admission.status, admission.reader) == (HTTPStatus.UNAUTHORIZED, "unknown")


def test_where_nothing_is_asked_for_readers_are_anonymous() -> None:
    admission = Guard({}, certificates=False).admit("Bearer anything", None)

    assert (admission.status, admission.reader) == (HTTPStatus.OK, "anonymous")


def test_certificates_and_tokens_together_are_both_asked_for() -> None:
    both = Guard(TOKENS, certificates=True)

    without = both.admit("Bearer first-token", None)
    assert (without.status, without.reader) == (HTTPStatus.FORBIDDEN, "unknown")
    wrong = both.admit("Bearer third", "host-1")
    assert (wrong.status, wrong.reader) == (HTTPStatus.UNAUTHORIZED, "host-1")
    right = both.admit("Bearer first-token", "host-1")
    assert (right.granted, right.reader) == (True, "prometheus + host-1")
    assert Guard({}, certificates=True).admit("", "host-1").reader == "host-1"


def test_all_tokens_are_compared_also_after_one_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, known: bytes) -> bool:
        compared.append((given, known))
        return given == known

    guard = Guard(TOKENS, certificates=False)
    monkeypatch.setattr("hmac.compare_digest", compare)
    for header in ("Bearer first-token", "Bearer second-token", "Bearer x", "Basic x", ""):
        compared.clear()
        guard.admit(header, None)
        assert len(compared) == len(TOKENS), header
        assert {len(side) for pair in compared for side in pair} == {32}, "no length is told"


def test_a_guard_prints_no_token() -> None:
    guard = Guard(TOKENS, certificates=False)

    assert "first-token" not in repr(vars(guard))


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (((("commonName", "grafana"),),), "grafana"),
        (((("commonName", "a"),), (("commonName", "b"),)), "b"),
        (((("commonName", "a\nb\x1b[2J"),),), "a?b?[2J"),
        (((("commonName", "x" * 500),),), "x" * 64),
        (((("organizationName", "a"),),), "nameless certificate"),
        ((), "nameless certificate"),
    ],
)
def test_a_certificate_is_known_by_its_common_name(subject: object, name: str) -> None:
    assert common_name({"subject": subject}) == name


def test_who_may_act_is_known_by_token_or_certificate_and_nobody_else_is() -> None:
    guard = Guard(TOKENS, certificates=False, responders=("grafana",))
    assert guard.admit("Bearer second-token", None).responds
    assert not guard.admit("Bearer first-token", None).responds
    assert not guard.admit("Bearer grafana", None).responds
    by_certificate = Guard(TOKENS, certificates=True, responders=("host-1",))
    assert by_certificate.admit("Bearer first-token", "host-1").responds
    assert not by_certificate.admit("Bearer first-token", "host-2").responds
    assert not by_certificate.admit("Bearer first-token", "x + host-1").responds
    assert not by_certificate.admit("", "host-1").responds
    assert Guard({}, certificates=False, responders=("anonymous",)).admit("", None).responds
    assert not Guard({}, certificates=False).admit("", None).responds


def test_a_producer_sends_and_reads_nothing() -> None:
    guard = Guard(TOKENS, certificates=False, producers=("grafana",))
    router = guard.admit("Bearer second-token", None)
    assert (router.granted, router.sends, router.reads) == (True, True, False)
    reader = guard.admit("Bearer first-token", None)
    assert (reader.sends, reader.reads) == (False, True)
    by_certificate = Guard(TOKENS, certificates=True, producers=("host-1",))
    assert by_certificate.admit("Bearer first-token", "host-1").sends
    anybody = Guard({}, certificates=False, producers=("anonymous",)).admit("", None)
    assert (anybody.sends, anybody.reads) == (True, True)
