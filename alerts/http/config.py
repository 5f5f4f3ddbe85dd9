"""Configuration of a server: its address, readers, time-outs and TLS."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from monitor.errors import SlicewatchError
from monitor.settings.checks import is_loopback

_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Address of a server, its readers and producers, its TLS files and its limits.

    Attributes:
        host: address; any but a loopback address needs TLS and credentials, or ``insecure``.
        port: 0 takes a free port.
        tokens: tokens by name, of which the views require one; empty requires none.
        responders: readers who may act on incidents, by name of token or certificate.
        producers: senders of events, by name of token or certificate; they read nothing.
        origins: addresses at which browsers reach the port besides its own, such as a proxy's.
        cert_file: certificate chain (PEM); None is plain HTTP.
        key_file: key of the certificate; None if it is in ``cert_file``.
        client_ca_file: authorities that must have signed the client's certificate.
        insecure: True serves without TLS and credentials on an address that others can reach.
        slices: True if a view shows slices. Otherwise no address needs TLS and credentials: probes
            and scrapers of operators have none, and learn nothing.
        section: section of the settings, for messages.
        slots: most open connections; in its handshake, one takes 0.35 MB.
        answers: most scrapes that are made at a time.
        pages: most other simultaneous answers; they take computing time from everything else.
        batches: most batches of events written at a time.
        body_seconds: time of a client to send a form or a batch.
        turn_seconds: waiting of a request for its turn.
        stop_seconds: time of unfinished answers when the server stops.
    """

    host: str = "127.0.0.1"
    port: int = 9095
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    responders: tuple[str, ...] = ()
    producers: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    cert_file: Path | None = None
    key_file: Path | None = None
    client_ca_file: Path | None = None
    insecure: bool = False
    slices: bool = True
    section: str = "server"
    slots: int = 1024
    answers: int = 16
    pages: int = 2
    batches: int = 4
    body_seconds: float = 5.0
    turn_seconds: float = 8.0
    stop_seconds: float = 1.0

    @property
    def exposed(self) -> bool:
        """Return True if others can reach views of slices without TLS and credentials."""
        guarded = self.cert_file and (self.tokens or self.client_ca_file)
        return self.slices and not is_loopback(self.host) and not guarded

    def check(self) -> None:
        """Raise SlicewatchError if a value is impossible or the policy forbids it."""
        if not 0 <= self.port <= _MAX_PORT:
            raise self._wrong("listen", f"{self.port} is not between 0 and {_MAX_PORT}")
        if not all(token.strip() for token in self.tokens.values()):
            raise self._wrong("token", "is empty; remove it or set one")
        if self.client_ca_file and not self.cert_file:
            raise self._wrong("client_ca_file", f"needs {self.section}.tls_cert_file")
        if self.exposed and not self.insecure:
            fix = f"{self.section}.tls_cert_file and a token or client_ca_file, or insecure = true"
            raise self._wrong("listen", f"{self.host} can be reached by others; set {fix}")

    def _wrong(self, key: str, text: str) -> SlicewatchError:
        return SlicewatchError(f"{self.section}.{key}: {text}")


_LONGEST_NAME = 64  # longest common name of X.509
_NAMELESS = "nameless certificate"


def tls_context(config: HttpConfig) -> ssl.SSLContext | None:
    """Return the TLS context of a server; None without a certificate.

    Client certificates are optional in the handshake, since probes have none; the views require
    them.

    Raises:
        SlicewatchError: a file cannot be read or does not fit.
    """
    if config.cert_file is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.cert_file, config.key_file)
    except OSError as error:  # SSLError too
        pair = (config.cert_file, config.key_file)
        raise _unusable(config, "tls_cert_file", error, *pair) from error
    if config.client_ca_file:
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(config.client_ca_file)
        except OSError as error:
            raise _unusable(config, "client_ca_file", error, config.client_ca_file) from error
    return context


def _unusable(config: HttpConfig, key: str, error: OSError, *files: Path | None) -> SlicewatchError:
    file_names = " and ".join(str(file) for file in files if file is not None)
    reason = error.strerror
    if isinstance(error, ssl.SSLError):
        reason = "PEM is needed, unencrypted, certificate and key of one pair"
    return SlicewatchError(f"{config.section}.{key}: {file_names} cannot be used: {reason}")


def common_name(certificate: Mapping[str, Any]) -> str:
    """Return the last common name of a certificate's subject, as printable text.

    Args:
        certificate: result of ``SSLSocket.getpeercert``.

    Example:
        >>> common_name({"subject": ((("organizationName", "x"),), (("commonName", "grafana"),))})
        'grafana'
    """
    parts = (part for level in certificate.get("subject", ()) for part in level)
    names = [value for kind, value in parts if kind == "commonName"]
    name = names[-1] if names else ""
    # We trust the signer of certificates with names, but not with our log lines.
    return "".join(c if c.isprintable() else "?" for c in name)[:_LONGEST_NAME] or _NAMELESS
