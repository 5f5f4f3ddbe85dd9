"""Secrets that can be recognised, in every form in which they could leak."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterator
from urllib.parse import quote

MARK = "zqPlantedQz"
"""In every planted text; no other text has it."""
_DIGESTS = ("md5", "sha1", "sha224", "sha256", "sha512", "sha3_256", "blake2s", "blake2b")
_SIZES = (8, 16, 20, 32)  # of a BLAKE2b without a key
_SHORTEST = 8  # bytes of a digest that are told from chance


def marks() -> dict[bytes, str]:
    """The mark itself, and as an encoder would write it."""
    found = {MARK.encode(): "as it is", MARK.lower().encode(): "in lower case"}
    found |= {MARK.upper().encode(): "in upper case", MARK[::-1].encode(): "reversed"}
    found |= {MARK.encode("utf-16-le"): "in UTF-16", quote(MARK).encode(): "in a URL"}
    found |= dict.fromkeys(_hex(MARK.encode()), "in hex")
    for shift in range(3):  # in Base64 the same bytes look different at each of three places
        text = base64.b64encode(b"\0" * shift + MARK.encode() + b"\0\0\0")
        inner = text[4:-8]
        found |= {inner: "in base64", inner.translate(_URL_SAFE): "in base64"}
    return found


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def hashes(secret: str) -> Iterator[bytes]:
    """What somebody who guesses a secret could find: every hash that needs no key."""
    for text in {secret, secret.lower()}:
        data = text.encode()
        digests = [hashlib.new(name, data).digest() for name in _DIGESTS]
        digests += [hashlib.blake2b(data, digest_size=size).digest() for size in _SIZES]
        for digest in digests:
            yield from _written(digest)
        yield str(zlib.crc32(data)).encode() + b" "


def _written(digest: bytes) -> Iterator[bytes]:
    short = digest[:_SHORTEST]
    yield short
    yield from _hex(short)
    yield base64.b64encode(digest)[:11]
    for number in (int.from_bytes(short, "big"), int.from_bytes(short, "little")):
        for one in (number, number >> 1, number - (1 << 64)):
            yield str(one).encode()
        yield (number >> 1).to_bytes(8, "big")


def _hex(data: bytes) -> tuple[bytes, bytes]:
    return data.hex().encode(), data.hex().upper().encode()


def leaks(place: str, body: bytes, secrets: list[str]) -> list[str]:
    """What of the secrets is found in the bytes of a place, and how it is written there."""
    found = [f"{place}: the mark {form}" for mark, form in marks().items() if mark in body]
    for secret in secrets:
        if secret.encode() in body:
            found.append(f"{place}: {secret[:20]!r} as it is")
        if any(one in body for one in hashes(secret)):
            found.append(f"{place}: {secret[:20]!r} hashed without a key")
    return found
