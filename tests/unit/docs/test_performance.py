"""What the docs say of speed is what was measured."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RESULTS = sorted((ROOT / "tests" / "bench" / "results").glob("*.json"))
MEASURED = re.compile(r"<!-- measured: ([\w ]+) -->\n(.*?)\n<!-- end -->", re.DOTALL)


def test_the_pages_are_what_the_results_render_to() -> None:
    command = [sys.executable, "tests/bench/performance_page.py", "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("page", ["performance.md", "sizing.md"])
def test_all_tables_of_measurements_are_rendered(page: str) -> None:
    """A table that somebody typed would stay when the program has changed."""
    text = (ROOT / "deploy" / "docs" / page).read_text()
    tables = MEASURED.findall(text)
    assert all("| --- |" in table for _, table in tables)
    typed = MEASURED.sub("", text).count("| --- |")
    assert (len(tables), typed) == {"performance.md": (6, 0), "sizing.md": (1, 0)}[page]


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_says_when_and_of_which_commit(path: Path) -> None:
    found = json.loads(path.read_text())
    assert re.fullmatch(r"[0-9a-f]{12}\+?", found["commit"])
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", found["date"])
    assert "cores of" in found["machine"]
