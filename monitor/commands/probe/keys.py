"""The probe key of the settings, and ``slicewatch probe router-key``, derived from it."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.commands.options import load_settings, settings_option, write_key
from monitor.errors import SlicewatchError
from monitor.probing.protocol import router_key
from monitor.settings import Settings


def probe_key(settings: Settings) -> bytes:
    """The key that signs. None in the settings: SlicewatchError."""
    if settings.probes.key is None:
        raise SlicewatchError(
            "probes.key is missing: a router must be able to tell probes from requests; create one "
            "with slicewatch db new-key FILE, and set probes.key_file = FILE"
        )
    return settings.probes.key.reveal().encode()


@click.command("router-key")
@click.argument("file", type=click.Path(path_type=Path))
@settings_option
def router_key_command(file: Path, path: Path) -> None:
    """Write the key with which a router verifies probes to a new FILE.

    It is derived from probes.key, and always the same for the same key. It cannot sign decision
    events: a router that has it cannot pass its own decisions off as probes.

    Example: slicewatch probe router-key /run/secrets/router_probe_key
    """
    write_key(file, router_key(probe_key(load_settings(path))))
    click.echo(f"the router's key is in {file}; give it only to the router")
