"""What the docs say of speed is what was measured, and the gate fails where it is no more."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BENCH = ROOT / "tests" / "bench"
RESULTS = sorted((BENCH / "results").glob("*.json"))
MEASURED = re.compile(r"<!-- measured: ([\w ]+) -->\n(.*?)<!-- end -->", re.DOTALL)


def test_the_pages_are_what_the_results_render_to() -> None:
    command = [sys.executable, "tests/bench/performance_page.py", "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(("page", "rendered"), [("performance", 8), ("deployment", 1)])
def test_all_tables_of_measurements_are_rendered(page: str, rendered: int) -> None:
    """A table that somebody typed would stay when the program has changed."""
    text = (ROOT / "deploy" / "docs" / f"{page}.md").read_text()
    tables = MEASURED.findall(text)
    assert len(tables) == rendered
    assert all("| --- |" in table or "Not measured yet" in table for _, table in tables)
    if page == "performance":
        assert not re.search(r"^\|[ |-]+\|$", MEASURED.sub("", text), re.MULTILINE)


def test_every_result_is_shown_and_the_gate_has_its_own() -> None:
    names = {path.stem for path in RESULTS}
    assert "small" in names
    assert names <= {"beside", "growth", "memory", "refresh", "run", "scale", "small"}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_says_when_and_of_which_commit(path: Path) -> None:
    found = json.loads(path.read_text())
    assert re.fullmatch(r"[0-9a-f]{12}\+?", found["commit"])
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", found["date"])
    assert "cores of" in found["machine"]
