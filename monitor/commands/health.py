"""``slicewatch health``: the health check of a container, without a shell or another program."""

from __future__ import annotations

import http.client
import ssl
import sys
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path

import click

from monitor.commands.options import load_settings, settings_option
from monitor.settings.sections import Server

EXIT_UNHEALTHY = 1
SECONDS = 4.0
"""Time-out of an answer, shorter than usual time-outs of container health checks (5 s)."""


@dataclass(frozen=True, slots=True)
class Door:
    """Address of the health endpoints of a service on this machine, from its settings.

    Attributes:
        host: an address of this machine.
        tls: True for HTTPS.
    """

    host: str
    port: int
    tls: bool

    @classmethod
    def from_settings(cls, server: Server) -> Door:
        """Return the Door to the operations port, else to the only port."""
        operations = server.operations
        if operations.port is not None:
            return cls(_local_address(operations.host), operations.port, tls=False)
        return cls(_local_address(server.host), server.port, server.tls)

    def ask(self, path: str) -> tuple[bool, str]:
        """Request a health endpoint; return (True for status 200, its text or the failure)."""
        client = self._client()
        try:
            client.request("GET", path)
            answer = client.getresponse()
            text = answer.read(4096).decode(errors="replace").strip()
        except (OSError, http.client.HTTPException) as error:
            return False, f"no answer from {self.host}:{self.port} ({type(error).__name__})"
        finally:
            client.close()
        return answer.status == HTTPStatus.OK, text or f"status {answer.status}"

    def _client(self) -> http.client.HTTPConnection:
        if not self.tls:
            return http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)
        # The certificate names the public host, and nothing secret is sent.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(self.host, self.port, timeout=SECONDS, context=context)


@click.command("health")
@click.option("--ready", "probe", flag_value="/readyz", help="Ask whether it can do its work.")
@click.option("--started", "probe", flag_value="/startupz", help="Ask whether its start is over.")
@settings_option
def command(probe: str | None, path: Path) -> None:
    """Ask the service that runs here with these settings whether it is alive.

    Exit code 0 when it says yes, 1 when it says no or does not answer. A service that is not ready
    may be quite alive: its broker may be away, which no restart would mend.

    Example: slicewatch health --ready
    """
    door = Door.from_settings(load_settings(path, with_secrets=False).server)
    is_good, text = door.ask(probe or "/livez")
    click.echo(text)
    if not is_good:
        sys.exit(EXIT_UNHEALTHY)


def _local_address(host: str) -> str:
    """Return the address at which a local process reaches a server that listens on ``host``."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    return "127.0.0.1" if address.version == 4 else "::1"  # noqa: PLR2004
