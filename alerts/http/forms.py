"""Forms of readers: only from our own pages, bounded in size and time.

A browser adds its credentials to every request, even if a foreign page makes it send one. But it
names the origin of that page (RFC 6454), and no page can change that. Programs send no origin; they
need a bearer token, which no browser adds by itself.
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
    """Refuse (403) a form that a foreign page may have sent.

    Args:
        request: the form.
        origins: addresses at which browsers reach us, besides the one in the request.

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
    """Return the fields of a posted form; the last value of a repeated field counts.

    Args:
        request: the form.
        seconds: time of the client to send it.

    Raises:
        HTTPException: the body is no form, too large, or too slow.
    """
    body = await read_body(request, [_KIND], most=MAX_FORM, seconds=seconds)
    try:
        text = body.decode("ascii")
        return dict(
            parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
        )
    except ValueError:
        raise HTTPException(HTTPStatus.BAD_REQUEST) from None
