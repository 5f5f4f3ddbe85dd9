"""Expiry of the certificates that the settings name: one that expires unnoticed stops everything.

The standard library reports it for a peer's certificate alone, or an authority's: of a file we
read the one field ourselves.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from monitor.core.time import DAY, to_micros
from monitor.errors import SlicewatchError
from monitor.settings import Settings

SOON = 14 * DAY
"""A certificate that ends so soon is reported: whoever signs the next one may take a while."""
_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_LARGEST = 1 << 22  # bytes; a bundle of all public authorities is a tenth of that
_VERSION, _UTC_TIME = 0xA0, 0x17  # tags of DER
_LONG = 0x80


@dataclass(frozen=True, slots=True)
class CertificateFile:
    """A file of certificates that the settings name.

    Attributes:
        name: of the file, in the metrics: a closed list.
        key: of the settings.
        file: where it is.
        ends: which of several certificates counts. A chain ends with its first one. A bundle of
            authorities ends with its last: old ones stay in it for a while.
        served: whether clients connect to us by it.
    """

    name: str
    key: str
    file: Path
    ends: Callable[[Iterable[int]], int]
    served: bool = False

    def not_after(self) -> int:
        """Expiry in microseconds.

        Raises:
            SlicewatchError: it cannot be read.
        """
        try:
            with self.file.open("rb") as file:
                text = file.read(_LARGEST).decode("ascii", errors="replace")
            blocks = _BLOCK.findall(text)
            return self.ends([not_after(ssl.PEM_cert_to_DER_cert(one)) for one in blocks])
        except OSError as error:
            reason = error.strerror or "cannot be read"
            raise SlicewatchError(f"{self.key}: {self.file}: {reason}") from None
        except ValueError:  # no certificate too: there is no smallest of none
            raise SlicewatchError(f"{self.key}: {self.file} holds no certificate (PEM)") from None


def named(settings: Settings) -> tuple[CertificateFile, ...]:
    """All that these settings name."""
    server, security = settings.server, settings.stream.security
    registry = settings.stream.schema_registry
    operations = server.operations
    found = (
        ("server", "server.tls_cert_file", server.tls_cert_file, min, True),
        ("operations", "server.operations.tls_cert_file", operations.tls_cert_file, min, True),
        ("client_ca", "server.client_ca_file", server.client_ca_file, max, False),
        ("kafka_ca", "stream.security.ca_file", security.ca_file, max, False),
        ("kafka_client", "stream.security.cert_file", security.cert_file, min, False),
        ("registry_ca", "stream.schema_registry.ca_file", registry.ca_file, max, False),
        ("registry_client", "stream.schema_registry.cert_file", registry.cert_file, min, False),
    )
    return tuple(
        CertificateFile(name, key, Path(file), ends, served)
        for name, key, file, ends, served in found
        if file is not None
    )


def expiries(settings: Settings) -> Iterator[tuple[str, int]]:
    """Name and end of each that can be read; of others their user says why not."""
    for one in named(settings):
        try:
            yield one.name, one.not_after()
        except SlicewatchError:
            continue


def not_after(der: bytes) -> int:
    """Expiry of a certificate, in microseconds.

    Raises:
        ValueError: it is none.
    """
    try:
        return to_micros(_not_after(der))
    except IndexError:
        raise ValueError("cut short") from None


def _not_after(der: bytes) -> datetime:
    _, certificate, _ = _element(der, 0)
    _, at, _ = _element(der, certificate)
    tag, _, end = _element(der, at)
    if tag == _VERSION:
        at = end
    for _ in ("serial number", "algorithm", "issuer"):
        _, _, at = _element(der, at)
    _, validity, _ = _element(der, at)
    _, _, at = _element(der, validity)
    tag, start, end = _element(der, at)
    text = der[start:end].decode("ascii")
    if tag == _UTC_TIME:  # two digits of the year: 1950 to 2049
        text = ("19" if text >= "5" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Tag of the element at a position, and the beginning and end of its content."""
    tag, length, start = der[at], der[at + 1], at + 2
    if length >= _LONG:
        size = length - _LONG
        length = int.from_bytes(der[start : start + size], "big")
        start += size
    if start + length > len(der):
        raise ValueError("cut short")
    return tag, start, start + length
