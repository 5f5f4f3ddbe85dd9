"""The README's first command, as a newcomer runs it: in a fresh clone, with its own environment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
SECONDS_TO_BE_SEEN = 180
REGRESSED = "language_variety=conversational"


def run(command: list[str], folder: Path, seconds: float) -> str:
    """Standard output of a command in a process group of its own, none of which outlives it."""
    environment = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "MAKEFLAGS")}
    with (folder / "errors.txt").open("w") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors,
            text=True, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, (folder / "errors.txt").read_text()[-2000:]
    return output


def processes_in(folder: Path) -> list[str]:
    """Command lines of running processes that belong to the clone."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(folder) in line:
            found.append(line)
    return found


@pytest.mark.full
def test_make_demo_in_a_fresh_clone(tmp_path: Path) -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    clone = tmp_path / "clone"
    run(["git", "clone", "--quiet", str(ROOT), str(clone)], tmp_path, 60)
    began = time.monotonic()
    output = run(["make", "--no-print-directory", "demo", "FOR=120", "ARGS=--json"], clone, 500)
    took = time.monotonic() - began
    document = json.loads(output[output.index("{\n") :])
    print(f"from clone to the end of a 120 s demo, downloads included: {took:.0f} s")  # noqa: T201
    assert document["seconds_until_suspected"] <= SECONDS_TO_BE_SEEN
    assert list(document["suspected"]) == [REGRESSED]
    assert document["suspected_wrongly"] == []
    rates = {
        row["slice"]: row["published"]["rates"]["tpr"]["value"]
        for row in document["slices"]
        if row["group_by"] == "language_variety" and "tpr" in row["published"]["rates"]
    }
    assert min(rates, key=lambda name: rates[name]) == REGRESSED
    assert sorted(rates.values())[1] - rates[REGRESSED] > 0.15
    assert processes_in(clone) == []
