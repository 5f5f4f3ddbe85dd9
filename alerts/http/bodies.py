"""Bodies of requests: of an expected kind, bounded in size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request


def kind_of(request: Request) -> str:
    """Return the media type of a request's body, without parameters; empty if none is named."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(
    request: Request, kinds: Collection[str], *, most: int, seconds: float
) -> bytes:
    """Return a request's body; raise HTTPException if its kind, size or time is not allowed.

    Args:
        request: request with an unread body.
        kinds: accepted media types.
        most: largest number of bytes.
        seconds: time of the client to send it.

    Raises:
        HTTPException: the body is of another kind, too large, or too slow.
    """
    encoded = request.headers.get("content-encoding", "identity").lower() != "identity"
    if encoded or kind_of(request) not in kinds:
        detail = f"send {' or '.join(sorted(kinds))} as Content-Type, not compressed"
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    except TimeoutError:
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT) from None
    return bytes(body)
