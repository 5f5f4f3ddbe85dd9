"""The manual of alerts: all of them, as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alerts.exposition.catalogue import CATALOGUE
from alerts.rules import alerts
from monitor.settings import Settings

ROOT = Path(__file__).parents[3]
MANUAL = ROOT / "deploy" / "docs" / "alerts.md"
TEXT = MANUAL.read_text()


def test_the_table_has_every_alert_in_the_order_of_the_rules() -> None:
    rows = re.findall(r"^\| \[`(\w+)`\]\((\S+)\) \| (\w+) \| ([^|]+) \|", TEXT, re.MULTILINE)
    expected = [
        (
            alert.name,
            f"../runbooks/{alert.name}.md",
            alert.severity.value,
            alert.for_ or "at once",
        )
        for alert in alerts(Settings())
    ]
    assert rows == expected


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\((?!http)([^)#]+)\)", TEXT))))
def test_every_linked_file_exists(path: str) -> None:
    assert (MANUAL.parent / path).exists()


def test_every_metric_is_in_the_catalogue() -> None:
    named = set(re.findall(r"`(slicewatch_[a-z_]+)`", TEXT))
    assert named
    assert named <= {family.name for family in CATALOGUE}
