"""The probe key of the settings."""

from __future__ import annotations

from monitor.errors import SlicewatchError
from monitor.settings import Settings


def probe_key(settings: Settings) -> bytes:
    """The key that signs. None in the settings: SlicewatchError."""
    if settings.probes.key is None:
        raise SlicewatchError(
            "probes.key is missing: a router must be able to tell probes from requests; make one "
            "with slicewatch db new-key FILE, and set probes.key_file = FILE"
        )
    return settings.probes.key.reveal().encode()
