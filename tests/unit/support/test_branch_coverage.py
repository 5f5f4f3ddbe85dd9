"""The figures of branch coverage are those of all that the product runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import branch_coverage
import pytest

PROGRAM = """
import importlib.util, sys
import branch_coverage
spec = importlib.util.spec_from_file_location("once_more", branch_coverage.__file__)
copy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(copy)
assert copy.MEASURED is None
import monitor.errors
print(*branch_coverage.MEASURED._measured.get_coverage()["files"])
"""


def test_a_second_import_takes_nothing_from_the_measurement() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            "BRANCH_COVERAGE": "1",
            "PYTHONPATH": str(Path(branch_coverage.__file__).parent),
        },
        cwd=branch_coverage.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "monitor/errors.py" in done.stdout.split()


def test_no_file_of_the_product_is_taken_for_a_test(request: pytest.FixtureRequest) -> None:
    """Pytest would load it by its own loader, and nobody would measure it."""
    patterns = request.config.getini("python_files")
    taken = [
        file
        for name in branch_coverage.PRODUCT
        for pattern in patterns
        for file in (branch_coverage.ROOT / name).rglob(pattern)
    ]
    assert not taken
