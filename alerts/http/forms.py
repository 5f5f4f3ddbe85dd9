"""Forms that readers send: only their own pages', of a bounded size, and within a bounded time.

A browser adds its credentials to whatever a page of somebody else makes it send, but it says of
which origin that page is (RFC 6454), which no page can change. Programs send no origin; they are
let through with a bearer token, which no browser adds by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

from monitor.settings.checks import is_loopback

MAX_FORM = 8 * 1024  # bytes; a note has at most 500 characters
_KIND = "application/x-www-form-urlencoded"
_MAX_FIELDS = 16


def check_origin(request: Request, origins: Collection[str], *, anonymous: bool) -> None:
    """Refuse a form that a page of somebody else may have sent.

    Args:
        request: the form.
        origins: where browsers reach us, beside the address that the request names.
        anonymous: nobody shows credentials here. Then only the address of this machine is taken:
            a name that leads here may be of a page that has sent the browser (DNS rebinding).

    Raises:
        HTTPException: 403.
    """
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    if anonymous and not is_loopback(urlsplit(f"//{host}").hostname or ""):
        raise HTTPException(HTTPStatus.FORBIDDEN)
    if origin is None:
        bearer = request.headers.get("authorization", "").lower().startswith("bearer ")
        if not bearer:
            raise HTTPException(HTTPStatus.FORBIDDEN)
    elif origin not in (f"{request.url.scheme}://{host}", *origins):
        raise HTTPException(HTTPStatus.FORBIDDEN)


async def read_fields(request: Request, seconds: float) -> dict[str, str]:
    """The fields of a form; of a repeated one the last.

    Args:
        request: the form.
        seconds: that the client has to send it.

    Raises:
        HTTPException: it is no form, too large, or too slow.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _KIND:
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > MAX_FORM:
                    raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    except TimeoutError:
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT) from None
    try:
        text = body.decode("ascii")
        return dict(
            parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
        )
    except ValueError:
        raise HTTPException(HTTPStatus.BAD_REQUEST) from None
