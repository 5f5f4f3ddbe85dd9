"""The probe protocol: bodies, signatures and answers."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest
from probing import KEY, SAID, answer, example, probe

from monitor.core.counts.cells import Route
from monitor.core.probes.flips import Observed
from monitor.probing.protocol import (
    Failure,
    FailureKind,
    body,
    read_answer,
    router_key,
    signed_headers,
)

SECRET = "what nobody may read in a log"


def test_a_body_says_what_is_probed_and_holds_the_request_as_it_is() -> None:
    request = {"text": 'é/"\n', "parts": [1, 2.5, None, {"a": True}]}
    sent = json.loads(body(probe(request=request)))
    about = {"protocol": 1, "probe_set": "0" * 64, "pair_id": "p1", "variant": "formal"}
    assert sent == {"probe": about, "attributes": {"channel": "chat"}, "request": request}


def test_a_request_is_signed_as_documented() -> None:
    key = router_key(KEY.encode())
    content = body(probe())
    headers = signed_headers(content, 1_767_225_600, key)
    signed = hmac.new(key.encode(), b"1767225600." + content, hashlib.sha256).hexdigest()
    assert headers == {"Slicewatch-Timestamp": "1767225600", "Slicewatch-Signature": f"v1={signed}"}


def test_the_routers_key_follows_from_the_probe_key_and_is_another() -> None:
    key = router_key(KEY.encode())
    assert key == router_key(KEY.encode())
    assert len(key) == 64
    assert key != router_key(b"another probe key")
    assert KEY not in key


def test_the_example_router_takes_what_is_signed_and_fresh_alone() -> None:
    module = example("router")
    router = module.ExampleRouter(router_key(KEY.encode()))
    content, now = body(probe()), int(module.time.time())
    fresh, old = (
        [*signed_headers(content, at, router_key(KEY.encode())).values()]
        for at in (now, now - module.FRESH_SECONDS - 60)
    )
    other = [*signed_headers(content, now, router_key(b"another probe key")).values()]
    assert router.is_probe(content, *fresh)
    assert not router.is_probe(content + b" ", *fresh)
    assert not router.is_probe(content, *old)
    assert not router.is_probe(content, *other)
    assert not router.is_probe(content, "", "")
    assert not router.is_probe(content, fresh[0], "v1=\u00e9")


def test_an_answer_is_what_was_observed() -> None:
    assert answer().observed == Observed(Route.AUTO_SERVE, 0.81, 0.7, True)
    blocked = answer(route="blocked_by_evidence", judge_score=None, evidence_passed=False)
    assert blocked.observed == Observed(Route.BLOCKED_BY_EVIDENCE, None, 0.7, False)


def test_what_else_an_answer_says_is_not_looked_at() -> None:
    assert answer(request_id="r-17") == answer()


WRONG = [
    ({"route": SECRET}, "route: is none of auto_serve, human_review, blocked_by_evidence"),
    ({"judge_score": SECRET}, "judge_score: Expected `float | null`, got `str`"),
    ({"judge_score": 1.2}, "judge_score: Expected `float` <= 1.0"),
    ({"threshold": None}, "threshold: Expected `float`, got `null`"),
    ({"evidence_passed": 1}, "evidence_passed: Expected `bool`, got `int`"),
    ({"versions": SECRET}, "versions: Expected `object`, got `str`"),
    (
        {"versions": SAID["versions"] | {"judge": f"{SECRET}\u0007"}},
        "versions.judge: Expected `str` matching",
    ),
    ({"versions": SAID["versions"] | {SECRET: "x"}}, "versions: has a field that it must not have"),
    ({"versions": {"judge": "j1"}}, "versions: Object missing required field `rubric`"),
]


@pytest.mark.parametrize(("changed", "told"), WRONG)
def test_a_wrong_answer_is_told_by_its_field_and_never_repeated(
    changed: dict[str, object], told: str
) -> None:
    failure = read_answer(json.dumps(SAID | changed).encode())
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.MALFORMED
    assert told in failure.text
    assert SECRET not in failure.text


@pytest.mark.parametrize(
    "content", [b"", b"<html>", b"\xff\xfe", b"[" * 100_000, b'{"route": "\xff"}', b"null", b"[]"]
)
def test_noise_is_no_answer(content: bytes) -> None:
    failure = read_answer(content)
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.MALFORMED
    assert "\n" not in failure.text
