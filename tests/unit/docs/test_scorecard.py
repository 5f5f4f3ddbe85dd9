"""The page on the scorecard: its commands run, and it names every measure, key and field."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from monitor.cli import cli

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "deploy" / "docs" / "scorecard.md").read_text()


def test_its_commands_end_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    enter, *commands = block.splitlines()
    folder = shutil.copytree(ROOT / enter.removeprefix("cd "), tmp_path / "example")
    monkeypatch.chdir(folder)
    assert len(commands) == 3
    for line in commands:
        program, *arguments = shlex.split(line)
        assert program == "slicewatch"
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 1, result.output
        assert "1 of 2 dimensions with a limit block: refusals." in result.stdout
    assert "as it was" in result.stdout
