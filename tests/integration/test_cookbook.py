"""Every recipe of the cookbook with traffic of its own: the planted gap is found, and no other."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from id_keys import WITH_KEY
from programs import program

from monitor.settings import Settings, load
from monitor.settings.sections import AttributeSettings

pytestmark = pytest.mark.full

RECIPES = sorted((Path(__file__).parents[2] / "deploy" / "examples" / "cookbook").glob("*.toml"))
START = datetime(2026, 6, 1, tzinfo=UTC)
DAYS, DECISIONS = 8, 4_500
ENVIRONMENT = {**WITH_KEY, "SLICEWATCH__SERVER__TOKEN": "a-token-of-the-tests-long-enough"}


def value_of(attribute: AttributeSettings, pick: random.Random) -> Any:
    """A value as an event has it, all equally often; a number for an attribute with ranges."""
    if not attribute.ranges:
        return pick.choice(attribute.values)
    edges = attribute.ranges
    return pick.choice([edges[0] - 1, *edges])


def events(settings: Settings, planted: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Decisions with their labels; ready requests with the planted value wait more often."""
    pick = random.Random(7)
    attributes = [one for one in settings.attribute if one.version_of is None]
    versions = [one for one in settings.attribute if one.version_of is not None]
    for i in range(DECISIONS):
        at = (START + i * timedelta(days=DAYS) / DECISIONS).isoformat()
        values = {one.name: value_of(one, pick) for one in attributes}
        for where in settings.use_case[0].where.items():
            values[where[0]] = where[1]
        ready = pick.random() < 0.6
        worse = values[planted] == _worst(settings, planted)
        served = pick.random() < (0.85 if ready else 0.2) - 0.4 * (ready and worse)
        decision = {
            "decision_id": f"d-{i}",
            "decided_at": at,
            "route": "auto_serve" if served else "human_review",
            "evidence_passed": True,
            "attributes": values,
            "versions": {str(one.version_of): pick.choice(one.values) for one in versions},
            "audit_p": 1.0,
            "label_requested": True,
            "unit": f"u-{i}",
        }
        label = {
            "label_id": f"l-{i}", "decision_id": f"d-{i}", "decided_at": at, "version": 1,
            "ready": ready, "kind": "initial", "reason": "review", "reviewer": "r",
            "labelled_at": at,
        }  # fmt: skip
        yield decision, label


def _worst(settings: Settings, planted: str) -> Any:
    """The last value of the attribute that is not the reference."""
    (attribute,) = (one for one in settings.attribute if one.name == planted)
    return attribute.values[-1]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_planted_gap_is_the_one_that_is_found(recipe: Path, tmp_path: Path) -> None:
    text = "\n".join(
        line
        for line in recipe.read_text().splitlines()
        if not line.startswith(("id_key_file", "token_file"))
    )
    (tmp_path / "settings.toml").write_text(text)
    settings = load(tmp_path / "settings.toml", ENVIRONMENT)
    planted = next(
        group.attributes[0]
        for group in settings.use_case[0].group_bys
        if len(group.attributes) == 1
        for one in settings.attribute
        if one.name == group.attributes[0] and one.values and one.version_of is None
    )
    decisions, labels = zip(*events(settings, planted), strict=True)
    for name, some in (("decisions", decisions), ("labels", labels)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in some))
    files = ["decisions.jsonl", "labels.jsonl", "--settings", "settings.toml"]
    done = subprocess.run(
        [program("slicewatch"), "replay", *files],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    case = settings.use_case[0]
    found = verdicts(tmp_path / "slicewatch.db", case.name, case.contract.window)
    assert found[planted, f"{planted}={_worst(settings, planted)}", "tpr"] == "fail"
    others = {name for group_by, name, _ in found if planted not in group_by.split("+")}
    wrong = [key for key, verdict in found.items() if verdict == "fail" and key[1] in others]
    assert not wrong
    assert len(found) > len(case.group_bys)


def verdicts(store: Path, contract: str, window: str) -> dict[tuple[str, str, str], str]:
    """What is published: verdicts by group-by, slice and metric."""
    query = (
        "SELECT group_by, slice, metric, verdict FROM published_rate"
        " WHERE contract = ? AND window_name = ? AND verdict IS NOT NULL"
    )
    with closing(sqlite3.connect(store)) as connection:
        rows = connection.execute(query, (contract, window))
        return {(group_by, name, metric): verdict for group_by, name, metric, verdict in rows}
