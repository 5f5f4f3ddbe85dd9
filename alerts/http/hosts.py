"""Check of the host name in requests without credentials.

A foreign page can make a browser ask this machine under the page's own name (DNS rebinding), and
then reads the answer. Only the name tells such a request from one of ours.
"""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

from monitor.settings.checks import is_loopback

_REASON = (
    "Forbidden: without a token this port answers to localhost and 127.0.0.1 alone. Behind a proxy,"
    " set alerting.external_url to the address that browsers use."
)


def check_host(request: Request, origins: Collection[str] = ()) -> None:
    """Refuse (403) a request whose Host is neither this machine nor one of ``origins``.

    Args:
        request: request without credentials.
        origins: addresses at which browsers reach us through a proxy.

    Raises:
        HTTPException: 403, with the reason.
    """
    name = _host_name(f"//{request.headers.get('host', '')}")
    if not is_loopback(name) and name not in map(_host_name, origins):
        raise HTTPException(HTTPStatus.FORBIDDEN, _REASON)


def _host_name(address: str) -> str:
    """Return the host name in an address; empty if it has none or is invalid."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
