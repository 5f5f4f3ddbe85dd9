"""The commands of the operations manual, run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from postgres import SUPERUSER, PostgresServer

ROOT = Path(__file__).parents[3]
MANUAL = ROOT / "deploy" / "docs" / "operations.md"
PASSWORD = "a password of the tests"
DATABASE = "slicewatch"


def commands(heading: str) -> list[str]:
    """The shell blocks below a heading, up to the next one."""
    _, _, below = MANUAL.read_text().partition(f"\n### {heading}\n")
    shown = blocks(below.partition("\n##")[0], "bash")
    assert shown, f"no commands below {heading}"
    return shown


def blocks(text: str, language: str) -> list[str]:
    """Return the blocks of a language in a text."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


class Administrator:
    """Somebody with a shell in the repository's root and the manual open.

    Attributes:
        server: where the databases are.
        folder: files that the commands write end up here.
    """

    def __init__(
        self, server: PostgresServer, folder: Path, settings: str, programs: Path | None = None
    ) -> None:
        """Come to the server; ``programs`` are found before those that are installed."""
        self.server = server
        self._folder = folder
        self._programs = programs or Path(sys.executable).parent
        (folder / "deploy").symlink_to(ROOT / "deploy")
        (folder / "slicewatch.toml").write_text(settings)

    def follow(self, heading: str) -> None:
        """Run all commands of a section."""
        for block in commands(heading):
            self.run(block)

    def url(self, login: str, database: str = DATABASE) -> str:
        """Address for one of the manual's logins."""
        return self.server.url(database, login, PASSWORD)

    def run(self, script: str) -> None:
        """Run a script, which must succeed, and give the logins it makes their password."""
        self._run(script)
        for login in re.findall(r"CREATE ROLE (\w+)", script):
            self._run(f"psql --command \"ALTER ROLE {login} PASSWORD '{PASSWORD}'\"")

    def _run(self, script: str) -> None:
        programs = (
            f"{self._programs}:{self.server.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        )
        environment = {
            **os.environ,
            "PATH": programs,
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.server.port),
            "PGUSER": SUPERUSER,
            "PGPASSWORD": self.server.password,
            "DEPLOY_URL": self.url("slicewatch_deploy"),
            "SERVICE_URL": self.url("slicewatch_service"),
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
