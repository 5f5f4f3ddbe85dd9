"""Forms that readers send: only their own pages', of a bounded size, and within a bounded time.

A browser adds its credentials to whatever a page of somebody else makes it send, but it says of
which origin that page is (RFC 6454), which no page can change. Programs send no origin; they are
let through with a bearer token, which no browser adds by itself.
"""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from alerts.http.bodies import read_body

MAX_FORM = 8 * 1024  # bytes; a note has at most 500 characters
_KIND = "application/x-www-form-urlencoded"
_MAX_FIELDS = 16


def check_origin(request: Request, origins: Collection[str]) -> None:
    """Refuse a form that a page of somebody else may have sent.

    Args:
        request: the form.
        origins: where browsers reach us, beside the address that the request names.

    Raises:
        HTTPException: 403.
    """
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
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
    body = await read_body(request, [_KIND], most=MAX_FORM, seconds=seconds)
    try:
        text = body.decode("ascii")
        return dict(
            parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
        )
    except ValueError:
        raise HTTPException(HTTPStatus.BAD_REQUEST) from None
