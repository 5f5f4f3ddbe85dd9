"""The reference page says everything that is exported, and its queries are valid."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from monitoring import binary

from alerts.exposition.catalogue import CATALOGUE, Family
from alerts.exposition.metrics_page import LABELS, example, page, unit

PAGE = page()
ROOT = Path(__file__).parents[4]


def test_the_page_in_the_repository_is_the_one_that_is_made() -> None:
    assert (ROOT / "deploy" / "docs" / "metrics.md").read_text() == PAGE, "run slicewatch render"


@pytest.mark.parametrize("family", CATALOGUE, ids=lambda one: one.name)
def test_every_metric_is_there_once_with_its_meaning(family: Family) -> None:
    rows = [line for line in PAGE.splitlines() if re.search(rf"^\|.*`{family.name}`", line)]
    assert len(rows) == 1
    bound = re.search(r"_(lower|upper)_ratio$", family.name)
    assert bound or family.help in rows[0]
    assert all(f"`{label}`" in rows[0] for label in family.labels)


def test_every_label_is_explained_and_none_that_is_not_exported() -> None:
    assert set(LABELS) == {label for family in CATALOGUE for label in family.labels}


def test_units_are_by_suffix() -> None:
    units = {family.name: unit(family) for family in CATALOGUE}
    assert units["slicewatch_slice_rate_ratio"] == "ratio"
    assert units["slicewatch_watermark_timestamp_seconds"] == "seconds since 1970"
    assert units["slicewatch_slice_label_need_seconds"] == "seconds"
    assert units["slicewatch_blind"] == "number"


def test_prometheus_accepts_every_example(tmp_path: Path) -> None:
    rules = [{"record": f"a:{i}", "expr": example(one)} for i, one in enumerate(CATALOGUE)]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "examples", "rules": rules}]}))
    done = subprocess.run(
        [binary("promtool"), "check", "rules", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(CATALOGUE)} rules found" in done.stdout
