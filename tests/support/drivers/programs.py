"""Programs that were installed with the tests, and the program that is tested."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def program(name: str) -> str:
    """Where it is: of the environment that runs, or of the one that lends its test tools.

    The tests of the built wheel run in an environment that has the wheel alone.
    """
    lent = [Path(one).parents[2] / "bin" for one in sys.path if one.endswith("site-packages")]
    folders = ":".join(str(folder) for folder in [Path(sys.executable).parent, *lent])
    found = shutil.which(name, path=folders)
    assert found is not None, f"{name} is not installed; make .venv/.installed-test"
    return found


def catches(pid: int, number: int) -> bool:
    """Return True when a process has a handler of its own for a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)
