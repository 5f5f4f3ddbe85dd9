"""Failures on the page for people on call: what it names exists, and is what the program says."""

from __future__ import annotations

import re
from pathlib import Path

import consumers
import monitor
from alerts.exposition.catalogue import CATALOGUE
from consumers import reconcile, worker_health
from consumers.sources.kafka_source import FIXED
from monitor import watchdog
from monitor.shard_status import ConsumerState

ROOT = Path(__file__).parents[3]
MANUAL = (ROOT / "deploy" / "docs" / "on-call.md").read_text()
SECTION = MANUAL.partition("\n## When something else fails\n")[2].partition("\n## ")[0]
ROWS = [line.strip("| ").split(" | ") for line in SECTION.splitlines() if line.startswith("| ")]
FAILURES = ROWS[1:]


def source() -> str:
    """The program's text with neighbouring string literals joined."""
    packages = [Path(package.__file__ or "").parent for package in (consumers, monitor)]
    files = [file for package in packages for file in package.rglob("*.py")]
    return re.sub(r'"\s*f?"', "", "".join(path.read_text() for path in files))


def test_every_row_is_complete() -> None:
    assert len(FAILURES) == 9
    for row in FAILURES:
        assert len(row) == len(ROWS[0]), row
        assert all(row), row


def test_states_and_metrics_exist() -> None:
    names = {family.name for family in CATALOGUE}
    named = set(re.findall(r"`(slicewatch_[a-z_]+)", SECTION))
    assert named
    assert named <= names
    states = {word for row in FAILURES for word in re.findall(r"`(\w+)`", row[1])}
    assert states <= {*ConsumerState}
    assert {*re.findall(r"`(\w+)`", SECTION.partition("(one of")[2].partition(")")[0])} == {
        *ConsumerState
    }


def test_log_lines_are_those_of_the_program() -> None:
    program = source()
    for row in FAILURES:
        for told in re.findall(r"`([^`]+)`", row[2]):
            for part in re.split(r"\.\.\.|decisions/0|stuck$|:", told):
                assert part.strip() in program, part


def test_times_and_sizes_are_those_of_the_program() -> None:
    assert f"within {reconcile.TOPICS_SECONDS:.0f} seconds" in SECTION
    assert f"after {worker_health.STALLED_SECONDS:.0f} seconds" in SECTION
    assert f"{int(str(FIXED['receive_message_max_bytes'])) >> 20} MB" in SECTION
    assert (reconcile.REVIEW_SECONDS, watchdog.ENDS_SECONDS) == (10, 15)
