"""The search finds what it looks for, or its silence would mean nothing."""

from __future__ import annotations

import base64
import hashlib

import pytest
from planted import MARK, leaks, marks

SECRET = f"{MARK}-decision-17"


@pytest.mark.parametrize(
    "written",
    [
        SECRET.encode(),
        SECRET.lower().encode(),
        SECRET.encode().hex().encode(),
        *(base64.b64encode(b"x" * shift + SECRET.encode()) for shift in range(6)),
        base64.urlsafe_b64encode(SECRET.encode()),
        *(hashlib.new(n, SECRET.encode()).hexdigest().encode() for n in ("md5", "sha1", "sha256")),
        base64.b64encode(hashlib.sha256(SECRET.encode()).digest()),
        hashlib.blake2b(SECRET.encode(), digest_size=8).digest(),
        hashlib.blake2b(SECRET.encode(), digest_size=8).hexdigest().encode(),
        str(
            int.from_bytes(hashlib.blake2b(SECRET.encode(), digest_size=8).digest(), "big") >> 1
        ).encode(),
    ],
)
def test_every_form_of_a_secret_is_found(written: bytes) -> None:
    assert leaks("a log", b"before " + written + b" after", [SECRET])


def test_nothing_is_found_where_nothing_is() -> None:
    keyed = hashlib.blake2b(SECRET.encode(), key=b"a key", digest_size=8)
    assert leaks("a log", keyed.hexdigest().encode() + b" ordinary text", [SECRET]) == []
    assert all(len(mark) >= 8 for mark in marks())
