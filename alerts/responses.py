"""HTTP responses: built by whoever answers, put into bytes in one place."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus

Headers = tuple[tuple[str, str], ...]

PLAIN: Headers = (("Content-Type", "text/plain; charset=utf-8"),)


@dataclass(frozen=True, slots=True)
class Response:
    """One answer, body included; what every response has is added by :func:`encode`."""

    status: HTTPStatus
    body: bytes
    headers: Headers = PLAIN


def just(status: HTTPStatus, headers: Headers = ()) -> Response:
    """A response that says its status and nothing else."""
    return Response(status, f"{status.value} {status.phrase}\n".encode(), headers + PLAIN)


def encode(response: Response, *, keep: bool = False, body: bool = True) -> bytes:
    """The bytes on the wire.

    Args:
        response: the answer.
        keep: whether the connection stays open.
        body: False leaves the body out and says how long it would be, as HEAD wants it.
    """
    headers = (
        *response.headers,
        ("Content-Length", str(len(response.body))),
        ("Date", formatdate(usegmt=True)),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Connection", "keep-alive" if keep else "close"),
    )
    status = f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
    head = status + "".join(f"{name}: {value}\r\n" for name, value in headers) + "\r\n"
    return head.encode("latin-1") + (response.body if body else b"")
