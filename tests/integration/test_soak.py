"""Memory, descriptors and database stay flat once retention has turned over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

SCRIPT = Path(__file__).parents[1] / "support/drivers/soak.py"


def soak(hours: int, *more: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: this one holds what other tests have left."""
    command = [
        sys.executable,
        str(SCRIPT),
        f"--hours={hours}",
        "--per-message=100",
        "--per-poll=40",
    ]
    return subprocess.run(
        [*command, *more], check=False, capture_output=True, text=True, timeout=580
    )


def test_sixteen_hours_of_demo_traffic_leave_everything_flat() -> None:
    done = soak(16)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "soak: flat after 16 hours" in done.stdout


def test_without_retention_the_same_soak_fails() -> None:
    done = soak(8, "--keep-everything")
    assert done.returncode == 1, done.stderr[-2000:]
    for what in ("pages in use", "rows of pending", "rows of label_state", "rows of counts"):
        assert f"grows: {what}" in done.stdout
