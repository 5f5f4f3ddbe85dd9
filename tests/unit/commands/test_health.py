"""``slicewatch health``: asks the port that the settings name, and says what it heard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import make_certificates
from click.testing import CliRunner, Result
from free_ports import free_port
from served import Start, Switches, small_exporter, starter

from alerts.http import HttpConfig
from monitor.cli import cli
from monitor.commands.health import Door
from monitor.settings.sections import Operations, Server

SETTINGS = (Path(__file__).parents[3] / "deploy" / "examples" / "quickstart.toml").read_text()


@pytest.fixture
def start() -> Iterator[Start]:
    with starter(small_exporter(), Switches()) as starting:
        yield starting


def asked(folder: Path, port: int, *options: str, more: str = "") -> Result:
    file = folder / "slicewatch.toml"
    file.write_text(f'{SETTINGS}\n[server]\nlisten = "127.0.0.1:{port}"\n{more}\n')
    return CliRunner().invoke(cli, ["health", *options, "--settings", str(file)])


def test_a_service_that_lives_is_healthy(start: Start, tmp_path: Path) -> None:
    found = asked(tmp_path, start().port)
    assert (found.exit_code, found.stdout) == (0, "ok\n")


@pytest.mark.parametrize(
    ("option", "live", "started", "code"),
    [
        ("", False, True, 1),
        ("", True, False, 0),
        ("--started", True, False, 1),
        ("--started", False, True, 0),
        ("--ready", True, True, 1),
    ],
)
def test_it_asks_what_it_is_told_to(
    tmp_path: Path, option: str, *, live: bool, started: bool, code: int
) -> None:
    switches = Switches()
    switches.live, switches.started, switches.ready = live, started, (False, "nobody reads")
    with starter(small_exporter(), switches) as start:
        found = asked(tmp_path, start().port, *([option] if option else []))
    assert found.exit_code == code
    assert ("nobody reads" in found.stdout) == (option == "--ready")


def test_nobody_there_is_not_healthy(tmp_path: Path) -> None:
    port = free_port()
    found = asked(tmp_path, port)
    assert found.exit_code == 1
    assert found.stdout == f"no answer from 127.0.0.1:{port} (ConnectionRefusedError)\n"


def test_the_operations_port_is_asked_where_there_is_one(start: Start, tmp_path: Path) -> None:
    more = f'[server.operations]\nlisten = "127.0.0.1:{start().port}"'
    assert asked(tmp_path, free_port(), more=more).exit_code == 0


def test_a_port_with_tls_and_tokens_is_asked_without_either(start: Start, tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    config = HttpConfig(
        port=0, cert_file=made.server, key_file=made.server_key, tokens={"reader": "x" * 32}
    )
    files = f'tls_cert_file = "{made.server}"\ntls_key_file = "{made.server_key}"\n'
    secret = 'token_file = "not/there"'  # it needs no secret, and reads none
    assert asked(tmp_path, start(config).port, more=files + secret).exit_code == 0


@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("0.0.0.0", "127.0.0.1"),
        ("[::]", "::1"),
        ("10.0.0.7", "10.0.0.7"),
        ("localhost", "localhost"),
    ],
)
def test_every_address_stands_for_this_machine(host: str, reached: str) -> None:
    operations = Operations(listen=f"{host}:9096")
    assert Door.from_settings(Server(listen="10.1.1.1:9095", operations=operations)) == Door(
        reached, 9096, False
    )
    assert Door.from_settings(Server(listen=f"{host}:9095", insecure=True)) == Door(
        reached, 9095, False
    )
