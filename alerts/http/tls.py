"""TLS: the server's settings of it, and the name in a client's certificate."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from alerts.http.config import HttpConfig
from monitor.errors import SlicewatchError

_LONGEST_NAME = 64  # the longest common name that X.509 allows
_NAMELESS = "nameless certificate"


def tls_context(config: HttpConfig) -> ssl.SSLContext | None:
    """The server's TLS settings; None without a certificate.

    Client certificates are optional in the handshake, since probes come without one; the views
    ask for their name.

    Raises:
        SlicewatchError: a file cannot be read or does not fit.
    """
    if config.cert_file is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.cert_file, config.key_file)
        if config.client_ca_file:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(config.client_ca_file)
    except OSError as error:  # SSLError too
        raise SlicewatchError(f"{config.section}.tls_cert_file: cannot be used: {error}") from error
    return context


def common_name(certificate: Mapping[str, Any]) -> str:
    """The subject's common name, fit for a line of a log; the last one where there are several.

    Args:
        certificate: as ``SSLSocket.getpeercert`` gives it.

    Example:
        >>> common_name({"subject": ((("organizationName", "x"),), (("commonName", "grafana"),))})
        'grafana'
    """
    parts = (part for level in certificate.get("subject", ()) for part in level)
    names = [value for kind, value in parts if kind == "commonName"]
    name = names[-1] if names else ""
    # Whoever signs certificates is trusted with names, but not with our lines.
    return "".join(c if c.isprintable() else "?" for c in name)[:_LONGEST_NAME] or _NAMELESS
