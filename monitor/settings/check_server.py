"""Contradictions in what is served: the ports, their certificates, and who may read."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from monitor.settings.kinds import Secret
from monitor.settings.problems import join, problem, shown
from monitor.settings.sections import DEFAULT_READER, Operations, Server

_TAKEN = (DEFAULT_READER, "anonymous", "unknown", "others")
"""Names that the access log gives to readers itself."""


def check_server(server: Server) -> None:
    """Raise SettingsError for the first contradiction."""
    check_pair("server", "tls_cert_file", server.tls_cert_file, "tls_key_file", server.tls_key_file)
    if server.client_ca_file is not None and not server.tls:
        fix = "set tls_cert_file and tls_key_file"
        raise problem("server.client_ca_file", f"needs TLS; {fix}")
    _check_tokens(server)
    _check_address(server)
    _check_operations(server)


def is_loopback(host: str) -> bool:
    """Return True when only processes of this machine can reach a server on this address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_pair(section: str, first: str, cert: str | None, second: str, key: str | None) -> None:
    """Raise SettingsError unless a certificate and its key are both set or both not."""
    if (cert is None) != (key is None):
        missing, present = (first, second) if cert is None else (second, first)
        raise problem(f"{section}.{missing}", f"is missing; it goes with {section}.{present}")


def _check_address(server: Server) -> None:
    if is_loopback(server.host) or server.insecure:
        return
    if not server.tls:
        fix = "set tls_cert_file and tls_key_file, or insecure = true"
        raise problem("server.host", f"is not loopback, so TLS is required; {fix}")
    if not server.knows_readers:
        fix = "set token_file, tokens or client_ca_file, or insecure = true"
        raise problem("server.host", f"is not loopback, so readers must be known; {fix}")


def _check_tokens(server: Server) -> None:
    names: dict[str, str] = {}
    for i, one in enumerate(server.tokens):
        key = join("server.tokens", i)
        if one.token is None:
            raise problem(f"{key}.token_file", f"is missing; give {shown(one.name)} a token")
        if one.name in _TAKEN:
            raise problem(f"{key}.name", f"{shown(one.name)} has a meaning in logs; rename it")
        if one.name in names:
            raise problem(f"{key}.name", f"is taken by {names[one.name]}.name; rename one")
        names[one.name] = key
    secrets: dict[Secret, str] = {}
    for key, token in tokens_by_key(server):
        text = token.reveal()
        if not (text.isascii() and text.isprintable()) or " " in text:
            raise problem(key, "does not fit into a header; use letters and digits")
        if token in secrets:
            raise problem(key, f"is also {secrets[token]}; give each reader its own")
        secrets[token] = key


def tokens_by_key(server: Server) -> Iterator[tuple[str, Secret]]:
    """Every token that is set, of both ports, with the key it is set by."""
    named = ((f"server.tokens[{i}].token", one.token) for i, one in enumerate(server.tokens))
    operations = ("server.operations.token", server.operations.token)
    for key, token in (("server.token", server.token), *named, operations):
        if token is not None:
            yield key, token


def _check_operations(server: Server) -> None:
    operations, key = server.operations, "server.operations"
    if operations.port is None:
        if operations != Operations():
            raise problem(f"{key}.port", "is missing; set it, or remove the section")
        return
    if operations.port and operations.port == server.port:
        raise problem(f"{key}.port", "is server.port too; use two ports, or remove the section")
    cert, private = operations.tls_cert_file, operations.tls_key_file
    check_pair(key, "tls_cert_file", cert, "tls_key_file", private)
