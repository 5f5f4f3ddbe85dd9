"""What the docs say of speed is what was measured, and the gate fails where it is no more."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
BENCH = ROOT / "tests" / "bench"
RESULTS = sorted((BENCH / "results").glob("*.json"))
MEASURED = re.compile(r"<!-- measured: ([\w ]+) -->\n(.*?)<!-- end -->", re.DOTALL)


def test_the_pages_are_what_the_results_render_to() -> None:
    command = [sys.executable, "tests/bench/performance_page.py", "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(("page", "rendered"), [("performance", 6), ("deployment", 1)])
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
    assert names <= {"memory", "refresh", "run", "scale", "small"}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_says_when_and_of_which_commit(path: Path) -> None:
    found = json.loads(path.read_text())
    assert re.fullmatch(r"[0-9a-f]{12}\+?", found["commit"])
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", found["date"])
    assert "cores of" in found["machine"]


@pytest.mark.parametrize(
    ("ratio", "waited", "said"),
    [
        (0.5, 0.1, []),
        (0.41, 0.1, []),
        (0.39, 0.1, ["librdkafka, both: 0.390 of the bare client's rate; the docs say 0.500"]),
        (0.39, 99.0, []),  # others had the cores: that is no witness
    ],
)
def test_the_gate_fails_where_the_docs_say_more(
    monkeypatch: pytest.MonkeyPatch, ratio: float, waited: float, said: list[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import bench_run
    from measured import Usage
    from run_rows import Row, Table

    def slicewatch(client: str, load: SimpleNamespace) -> Row:
        cpu = 1.0 + 1.0 / ratio
        return Row("slicewatch", client, load.name, 1_000, Usage(cpu, 1.0, 9.0, 9.0), 1.0, waited)

    load, tried = SimpleNamespace(name="both"), []

    def another(client: str, load: SimpleNamespace) -> Row:
        tried.append(client)
        return slicewatch(client, load)

    row = {"reader": "slicewatch", "client": "librdkafka", "load": "both", "ratio_running": 0.5}
    monkeypatch.setattr(bench_run, "kept", lambda name: {"rows": [row]})
    silent: Any = SimpleNamespace(add=lambda *_: None)
    table = Table(silent)
    table.add(Row("raw", "librdkafka", "both", 1_000, Usage(1.0, 0.0, 1.0, 9.0)))
    table.add(slicewatch("librdkafka", load))
    bench: Any = SimpleNamespace(loads={"both": load}, slicewatch=another)
    assert bench_run.check(bench, table) == said
    assert len(tried) == (0 if ratio > 0.4 else 2), "what is slow is measured again"
