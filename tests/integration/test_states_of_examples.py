"""The files that ship: every state and verdict of theirs follows from what is printed with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from shown_contract import disagreements

from monitor.commands.audit import command as audit

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"


def test_the_replayed_ten_pairs(tmp_path: Path) -> None:
    files = [str(EXAMPLES / f"ten_pairs_{name}.jsonl") for name in ("decisions", "labels")]
    settings = ["--settings", str(EXAMPLES / "ten_pairs.toml")]
    command = [sys.executable, "-m", "monitor", "replay", *settings, *files, "--summary", "--json"]
    environment = {**os.environ, "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    (shown,) = json.loads(done.stdout)["contracts"]

    assert disagreements(shown) == []
    states = {state for row in _rows(shown) for state in row["states"].values()}
    assert {"no_limit", "inconclusive", "suspected"} <= states


@pytest.mark.parametrize("name", ["ten_pairs", "ten_pairs_candidate"])
def test_the_audited_ten_pairs(name: str, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    arguments = [str(EXAMPLES / "audit" / f"{name}.jsonl"), "--settings"]
    arguments += [str(EXAMPLES / "audit" / "audit.toml"), "--json", str(target)]
    assert CliRunner().invoke(audit, arguments).exit_code == 1
    parts = json.loads(target.read_text())["baseline"]["parts"]
    checks = [(part, check) for part in parts for check in part["checks"]]

    assert len(checks) > 4
    for part, check in checks:
        assert check["verdict"] == _verdict(part, check), check


def _rows(contract: dict[str, Any]) -> list[dict[str, Any]]:
    (window,) = (one for one in contract["windows"] if one["window"] == contract["window"])
    return [row for group in window["groups"] for row in group["rows"]]


def _verdict(part: dict[str, Any], check: dict[str, Any]) -> str:
    """By the support of both slices, which the report lists, and the bounds of the check."""
    lines = {line["slice"]: line for line in part["slices"]}
    metric = check["metric"]
    for name in filter(None, (check["slice"], check["against"])):
        line = lines.get(name)
        if line and line["supports"].get(metric, 0) < line["needed"].get(metric, 0):
            return "insufficient_support"
    if check["lower"] is None:
        return "insufficient_support"
    low, high = (Fraction(str(round(check[side], 12))) for side in ("lower", "upper"))
    limit = Fraction(str(check["limit"]))
    if low > limit or -high > limit:
        return "fail"
    return "pass" if high <= limit and -low <= limit else "inconclusive"
