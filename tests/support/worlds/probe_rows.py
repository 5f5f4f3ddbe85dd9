"""Rows of probe sets and of results, as their files hold them."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

ProbeRow = dict[str, Any]
VERSIONS = {"judge": "j1", "rubric": "r1", "policy": "p1", "router": "t1"}
RESULTS = ("judge_score", "threshold", "evidence_passed", "route", "versions")


def set_row(pair: str = "p1", variant: str = "formal", **changed: Any) -> ProbeRow:
    """A row of a set file; a field changed to None is left out."""
    row = {
        "dataset": "pairs",
        "dataset_version": "1",
        "synthetic": True,
        "pair_id": pair,
        "variant": variant,
        "attributes": {"language_variety": variant, "channel": "email"},
        "expected_ready": True,
        "policy": "p1",
        "evidence": "kb-1",
        "reviewers_agree": True,
        "held_out": False,
        "request": {"text": f"{variant}: where is my parcel, {pair}?", "turn": 1},
    } | changed
    return {name: value for name, value in row.items() if value is not None}


def result_row(pair: str = "p1", variant: str = "formal", **changed: Any) -> ProbeRow:
    """A row of a results file; a field changed to None is left out."""
    observed = {
        "judge_score": 0.78,
        "threshold": 0.70,
        "evidence_passed": True,
        "versions": VERSIONS,
    }
    return set_row(pair, variant, **(observed | changed))


def write_json(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """The rows as JSON lines; gzipped where the name says so."""
    return write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """The rows as CSV; gzipped where the name says so."""
    cells = [_cells(row) for row in rows]
    text = StringIO(newline="")
    writer = csv.DictWriter(text, sorted({name for row in cells for name in row}), restval="")
    writer.writeheader()
    writer.writerows(cells)
    return write_text(path, text.getvalue())


def write_text(path: Path, text: str) -> Path:
    """A text as a file; gzipped where the name says so."""
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    cells: dict[str, str] = {}
    for name, value in row.items():
        if name in {"attributes", "versions"}:
            cells |= {f"{name}.{inner}": text for inner, text in value.items()}
        elif name == "varies":
            cells[name] = " ".join(value)
        elif name == "request" or isinstance(value, bool):
            cells[name] = json.dumps(value)
        else:
            cells[name] = str(value)
    return cells
