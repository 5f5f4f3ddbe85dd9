"""Router address: a web address that requests may be sent to, and that may be shown."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from urllib3.exceptions import LocationParseError
from urllib3.util import Url, parse_url

from monitor.errors import SlicewatchError

# Neither user:password@ nor a query, where tokens are: command lines and logs show addresses.
_PLAIN = re.compile(r"https?://[A-Za-z0-9._~:/%\[\]+-]+\Z")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """The address of a router.

    Attributes:
        url: where probes are sent; holds no secret.
        host: the router's host, for people.
        tls: whether the connection is encrypted.
    """

    url: str
    host: str
    tls: bool


def target(url: str, *, insecure: bool = False) -> Target:
    """An address as it was typed.

    Args:
        url: the address.
        insecure: plain HTTP to another machine is meant.

    Raises:
        SlicewatchError: it is none, holds a password or a query, or is plain HTTP to another
            machine. The address itself is not repeated.
    """
    if "@" in url:
        raise SlicewatchError(
            "--target holds a user name or a password; leave it out, and give a token by "
            "--token-file"
        )
    if not _PLAIN.match(url):
        raise SlicewatchError(
            '--target must be a web address without a query, such as "https://router.example/probe"'
        )
    try:
        parts = parse_url(url)
    except LocationParseError:
        parts = Url()
    if not parts.host:
        raise SlicewatchError("--target is not a web address; check host and port")
    host, tls = parts.host, parts.scheme == "https"
    if not tls and not insecure and not _is_here(host.strip("[]")):
        raise SlicewatchError(
            "--target is plain HTTP to another machine, where anybody on the way reads probes and "
            "answers; use https, or say --insecure-http"
        )
    return Target(url, f"{host}:{parts.port or _PORTS[str(parts.scheme)]}", tls)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
