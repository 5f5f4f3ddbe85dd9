"""Memory, descriptors and database stay flat once retention has turned over."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from soak_samples import Sample, growing

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


SAMPLE = Sample(
    hour=0, resident=100 << 20, descriptors=12, used=1 << 20, free=0, log=0, page=1000, keys=10,
    cells=10, rows={"pending": 1000},
)  # fmt: skip


@pytest.mark.parametrize(
    ("field", "step"),
    [("resident", 1 << 19), ("descriptors", 1), ("used", 20 << 10), ("free", 20 << 10)],
)
def test_what_grows_by_a_little_each_time_is_named(field: str, step: int) -> None:
    samples = [replace(SAMPLE, **{field: getattr(SAMPLE, field) + i * step}) for i in range(48)]
    assert len(growing(samples)) >= 1


def test_what_rises_and_falls_is_flat() -> None:
    saw = [replace(SAMPLE, used=(1 << 20) + i % 5 * 50_000, log=i % 3 * 10**6) for i in range(48)]
    assert growing(saw) == []
