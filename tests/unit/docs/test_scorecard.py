"""The page on the scorecard: its commands run, and it names every measure, key and field."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import get_type_hints

import pytest
from click.testing import CliRunner

from monitor.audit.scorecard.card_file import (
    DRIFT,
    FEW_COMPARED,
    FEW_ITEMS,
    WORSE_BY,
    Dimension,
    Head,
)
from monitor.audit.scorecard.scoring import SMALLEST_REAL
from monitor.cli import cli

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "deploy" / "docs" / "before-a-release.md").read_text()


def test_its_commands_end_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (block,) = (block for block in blocks if "--scorecard" in block)
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


def test_the_reference_names_every_key_and_number() -> None:
    reference = (ROOT / "deploy" / "docs" / "records.md").read_text()
    names = [*get_type_hints(Dimension), *get_type_hints(Head)]
    assert [name for name in names if f"| `{name}` |" not in reference] == []
    for number in (DRIFT, WORSE_BY, FEW_ITEMS, FEW_COMPARED):
        assert f"| {number} |" in reference
    assert f"fewer than {SMALLEST_REAL} records" in PAGE
