"""Throw-away certificates for the TLS tests, made by the openssl command."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Certificates:
    """A certificate authority with one server (this machine, or other names) and one client."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


HERE = "DNS:localhost,IP:127.0.0.1"


def make_certificates(folder: Path, names: str = HERE) -> Certificates:
    """All five files, the server's for these names; no openssl: a skip, in CI a failure."""
    if shutil.which("openssl") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI=true and openssl is missing", pytrace=False)
        pytest.skip("openssl is missing")
    ca, ca_key = _certificate(folder, "ca", "basicConstraints=critical,CA:TRUE")
    named = f"subjectAltName={names}"
    server, server_key = _certificate(folder, "server", named, ca, ca_key)
    client, client_key = _certificate(folder, "client", "extendedKeyUsage=clientAuth", ca, ca_key)
    return Certificates(ca, server, server_key, client, client_key)


def _certificate(
    folder: Path, name: str, extension: str, ca: Path | None = None, ca_key: Path | None = None
) -> tuple[Path, Path]:
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    signed = ["-CA", str(ca), "-CAkey", str(ca_key)] if ca else []
    # A configuration of its own: Debian's default would add CA:TRUE to every certificate.
    config = folder / "openssl.cnf"
    config.write_text("[req]\ndistinguished_name=dn\n[dn]\n")
    command = [
        *("openssl", "req", "-x509", "-config", str(config), "-newkey", "ec"),
        *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
        *("-subj", f"/CN=slicewatch test {name}", "-addext", extension, *signed),
        *("-keyout", str(key), "-out", str(cert)),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key
