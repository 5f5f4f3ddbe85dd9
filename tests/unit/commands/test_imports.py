"""What a command loads before it is asked to do anything: no library that it may not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    *("alembic", "jinja2", "kafka", "mako", "pandas", "pygments", "river", "scipy", "sklearn"),
    *("sqlalchemy", "starlette", "urllib3", "uvicorn", "monitor.composition", "monitor.service"),
)
"""Each of them takes some tens of milliseconds to load, or seconds."""
_NONE: frozenset[str] = frozenset()
COMMANDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("backtest", "check", "db", "db status", "demo", "health", "incident"), _NONE),
    **dict.fromkeys(("ingest", "init", "render", "replay", "run", "serve"), _NONE),
    **dict.fromkeys(("audit", "judge", "report"), frozenset({"jinja2"})),
    **dict.fromkeys(("probe", "probe run"), frozenset({"urllib3"})),
}
"""By command, what it loads of these."""
PROGRAM = f"""
import sys
from monitor.cli import cli
cli(sys.argv[1:], standalone_mode=False)
sys.stderr.write(" ".join(name for name in {HEAVY} if name in sys.modules))
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_no_library_that_the_command_may_not_need(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command.split(), "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"slicewatch {command}".split()[-1] in done.stdout
    assert {*done.stderr.split()} == COMMANDS[command]
