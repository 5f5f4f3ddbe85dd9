"""Expiry of the certificates in the settings: an unnoticed expiry stops everything.

The standard library reports expiry only for certificates of peers and authorities, so this module
reads the field of a file itself.
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
"""Remaining time below which a certificate is reported: signing a new one may take a while."""
_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_LARGEST = 1 << 22  # bytes; a bundle of all public authorities is a tenth of that
_VERSION, _UTC_TIME = 0xA0, 0x17  # tags of DER
_LONG = 0x80


@dataclass(frozen=True, slots=True)
class CertificateFile:
    """Certificate file named in the settings; made by :func:`configured` to read its expiry.

    Attributes:
        name: name of the file in the metrics, from a closed list.
        key: key of the file in the settings.
        file: path.
        ends: function that selects the expiry of the file from those of its certificates. A chain
            ends with its first certificate, a bundle of authorities with its last, because old
            authorities stay in it for a while.
        served: True for the certificate of a port of the service.
    """

    name: str
    key: str
    file: Path
    ends: Callable[[Iterable[int]], int]
    served: bool = False

    def not_after(self) -> int:
        """Read the file; return its earliest or latest expiry, as ``ends`` picks, in us.

        Raises:
            SlicewatchError: the file cannot be read.
        """
        try:
            with self.file.open("rb") as file:
                text = file.read(_LARGEST).decode("ascii", errors="replace")
            blocks = _BLOCK.findall(text)
            return self.ends([not_after(ssl.PEM_cert_to_DER_cert(block)) for block in blocks])
        except OSError as error:
            reason = error.strerror or "cannot be read"
            raise SlicewatchError(f"{self.key}: {self.file}: {reason}") from None
        except ValueError:  # also for a file without certificates: min() of none
            raise SlicewatchError(f"{self.key}: {self.file} holds no certificate (PEM)") from None


def configured(settings: Settings) -> tuple[CertificateFile, ...]:
    """Return a CertificateFile for each certificate that the settings name."""
    server, security = settings.server, settings.stream.security
    registry = settings.stream.schema_registry
    candidates = (
        ("server", "server.tls_cert_file", server.tls_cert_file, min, True),
        ("client_ca", "server.client_ca_file", server.client_ca_file, max, False),
        ("kafka_ca", "stream.security.ca_file", security.ca_file, max, False),
        ("kafka_client", "stream.security.cert_file", security.cert_file, min, False),
        ("registry_ca", "stream.schema_registry.ca_file", registry.ca_file, max, False),
        ("registry_client", "stream.schema_registry.cert_file", registry.cert_file, min, False),
    )
    return tuple(
        CertificateFile(name, key, Path(file), ends, served)
        for name, key, file, ends, served in candidates
        if file is not None
    )


def expiries(settings: Settings) -> Iterator[tuple[str, int]]:
    """Yield (name, expiry in us) of each readable certificate; skip unreadable ones."""
    for certificate in configured(settings):
        try:
            yield certificate.name, certificate.not_after()
        except SlicewatchError:
            continue


def not_after(der: bytes) -> int:
    """Return the expiry of a DER certificate, in us since 1970.

    Raises:
        ValueError: the bytes are no certificate.
    """
    try:
        return to_micros(_not_after(der))
    except IndexError:
        raise ValueError("cut short") from None


def _not_after(der: bytes) -> datetime:
    """Return when a DER certificate expires; it reads no other field."""
    _, certificate, _ = _read_element(der, 0)
    _, at, _ = _read_element(der, certificate)
    tag, _, end = _read_element(der, at)
    if tag == _VERSION:
        at = end
    for _ in ("serial number", "algorithm", "issuer"):
        _, _, at = _read_element(der, at)
    _, validity, _ = _read_element(der, at)
    _, _, at = _read_element(der, validity)
    tag, start, end = _read_element(der, at)
    text = der[start:end].decode("ascii")
    if tag == _UTC_TIME:  # two digits of the year: 1950 to 2049
        text = ("19" if text >= "5" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _read_element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return (tag, start, end) of the DER element at index ``at``: bounds of its content."""
    tag, length, start = der[at], der[at + 1], at + 2
    if length >= _LONG:
        size = length - _LONG
        length = int.from_bytes(der[start : start + size], "big")
        start += size
    if start + length > len(der):
        raise ValueError("cut short")
    return tag, start, start + length
