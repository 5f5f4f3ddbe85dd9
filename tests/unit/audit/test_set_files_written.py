from __future__ import annotations

import errno
import os
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from probe_rows import result_row, set_row, write_json

from monitor.audit.inputs import ProbeSet, Results, digest
from monitor.audit.set_files import read_results, read_set, write_rows, write_set
from monitor.core.counts.cells import Route
from monitor.core.probes.flips import Observed
from monitor.errors import AuditError


def a_set(folder: Path, **changed: Any) -> ProbeSet:
    rows = [set_row(**changed), set_row("p2", "b", held_out=True, evidence=None, axis="persona")]
    return read_set(write_json(folder / "source.jsonl", rows))


def results(folder: Path) -> Results:
    rows = [
        result_row(route="human_review"),
        result_row(variant="b", judge_score=None, evidence_passed=False),
    ]
    return read_results(write_json(folder / "run.jsonl", rows))


@pytest.mark.parametrize("name", ["set.jsonl", "set.jsonl.gz"])
def test_a_set_comes_back(tmp_path: Path, name: str) -> None:
    probe_set = a_set(tmp_path, request={"text": "Grüße\n\u2028", "n": 1.5})
    write_set(tmp_path / name, probe_set)
    assert read_set(tmp_path / name) == probe_set


def test_results_come_back(tmp_path: Path) -> None:
    written = results(tmp_path)
    write_rows(tmp_path / "new.jsonl", written.probe_set, written.rows)
    assert read_results(tmp_path / "new.jsonl") == written
    assert written.rows[1].observed == Observed(Route.BLOCKED_BY_EVIDENCE, None, 0.7, False)


def test_results_of_a_set_have_its_hash_and_not_its_requests(tmp_path: Path) -> None:
    sent = a_set(tmp_path)
    row = results(tmp_path).rows[0]
    rows = [replace(row, item=item) for item in reversed(sent.items)]
    write_rows(tmp_path / "results.jsonl", sent, rows)
    assert digest(read_results(tmp_path / "results.jsonl").probe_set) == digest(sent)
    assert "where is my parcel" not in (tmp_path / "results.jsonl").read_text()


def test_the_same_set_is_the_same_file(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_set(tmp_path / name, a_set(tmp_path))
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text("kept")
    with pytest.raises(AuditError, match="stands there already, and a set or its results never"):
        write_set(path, a_set(tmp_path))
    assert path.read_text() == "kept"


@pytest.mark.parametrize(
    ("name", "said"),
    [("set.csv", "choose a name that ends in .jsonl"), ("no/set.jsonl", "cannot be written: No")],
)
def test_where_a_set_cannot_be_written(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(AuditError, match=said):
        write_set(tmp_path / name, a_set(tmp_path))


def test_what_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    probe_set = replace(a_set(tmp_path), name="two words")
    with pytest.raises(AuditError, match=r"line 1, field dataset: found text; write a name"):
        write_set(tmp_path / "set.jsonl", probe_set)
    assert not (tmp_path / "set.jsonl").exists()


class FullDisk(FileIO):
    def write(self, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe_set, path = a_set(tmp_path), tmp_path / "set.jsonl"

    def opened(self: Path, mode: str) -> FileIO:
        return FullDisk(self, mode)

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(AuditError, match="cannot be written: No space left on device"):
        write_set(path, probe_set)
    assert not path.exists()
