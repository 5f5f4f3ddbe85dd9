from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from probe_rows import VERSIONS, result_row, set_row, write_csv, write_json, write_text

from monitor.audit import record_files
from monitor.audit.inputs import Item, RunVersions
from monitor.audit.set_files import read_results, read_set, route_of
from monitor.core.counts.cells import Route
from monitor.core.probes.flips import Observed
from monitor.errors import AuditError

SECRET = "Maria-Secret"
PAIR = [result_row(), result_row(variant="conversational", judge_score=0.67)]


def refused(path: Path, read: Callable[[Path], object] = read_results) -> str:
    with pytest.raises(AuditError) as refusal:
        read(path)
    text = str(refusal.value)
    assert "\n" not in text
    assert SECRET not in text
    return text.removeprefix(str(path))


def test_a_row_of_results(tmp_path: Path) -> None:
    results = read_results(write_json(tmp_path / "results.jsonl", PAIR))
    row = results.rows[1]
    assert row.line == 2
    assert row.observed == Observed(Route.HUMAN_REVIEW, 0.67, 0.70, evidence_passed=True)
    assert row.versions == RunVersions("j1", "r1", "p1", "t1")
    assert row.item.pair == "p1"
    assert row.item.variant == "conversational"
    assert row.item.attributes == {"language_variety": "conversational", "channel": "email"}
    assert results.probe_set.synthetic
    assert [item.variant for item in results.probe_set.items] == ["conversational", "formal"]


def test_results_keep_the_hash_of_a_request_and_not_the_request(tmp_path: Path) -> None:
    path = write_json(tmp_path / "results.jsonl", PAIR)
    kept, sent = read_results(path).rows[0].item, read_set(path).items[1]
    assert kept.request is None
    assert sent.request == PAIR[0]["request"]
    assert kept.request_digest == sent.request_digest
    assert len(kept.request_digest) == 64


@pytest.mark.parametrize("name", ["set.jsonl", "set.jsonl.gz", "set.ndjson", "SET.JSONL"])
def test_a_set_is_read_from_json_lines(tmp_path: Path, name: str) -> None:
    rows = [set_row(), set_row(variant="conversational")]
    data = "\ufeff" + "\r\n\r\n".join(json.dumps(row) for row in rows)
    path = tmp_path / name
    path.write_bytes(gzip.compress(data.encode()) if name.endswith("gz") else data.encode())
    assert read_set(path).items == read_set(write_json(tmp_path / "plain.jsonl", rows)).items


@pytest.mark.parametrize("name", ["results.csv", "results.CSV", "results.csv.gz"])
def test_csv_says_the_same_as_json_lines(tmp_path: Path, name: str) -> None:
    common: dict[str, Any] = {"axis": "dialect", "varies": ["evidence", "policy"]}
    rows = [
        result_row(**common, evidence=None, held_out=True),
        result_row(variant='a "b", ä', axis="dialect", varies=["policy", "evidence"]),
        result_row("p2", **common, expected_ready=None, judge_score=1, route="human_review"),
        result_row("p3", **common, reviewers_agree=None, judge_score=None, request="two\nlines"),
    ]
    from_csv = read_results(write_csv(tmp_path / name, rows))
    from_json = read_results(write_json(tmp_path / "results.jsonl", rows))
    assert from_csv.probe_set == from_json.probe_set
    assert [row.observed for row in from_csv.rows] == [row.observed for row in from_json.rows]
    assert [row.versions for row in from_csv.rows] == [row.versions for row in from_json.rows]
    assert [row.line for row in from_csv.rows] == [2, 3, 4, 5]


def test_csv_of_a_spreadsheet_writes_true_in_capitals(tmp_path: Path) -> None:
    text = (
        "dataset,synthetic,pair_id,variant,attributes.channel,policy,expected_ready,held_out\n"
        "pairs,TRUE,p1,a,chat,p1,FALSE,\n"
    )
    (item,) = read_set(write_text(tmp_path / "set.csv", text)).items
    assert item == Item("p1", "a", {"channel": "chat"}, expected_ready=False, policy="p1")


def test_optional_fields_have_defaults(tmp_path: Path) -> None:
    row = {
        "dataset": "pairs",
        "synthetic": False,
        "pair_id": "p1",
        "variant": "a",
        "attributes": {"channel": "chat"},
        "policy": "p1",
        "evidence": None,
        "expected_ready": None,
    }
    probe_set = read_set(write_json(tmp_path / "set.jsonl", [row]))
    assert (probe_set.version, probe_set.varies, probe_set.synthetic) == ("1", frozenset(), False)
    assert probe_set.items == (Item("p1", "a", {"channel": "chat"}, None, "p1"),)


def test_a_set_is_read_from_results_whatever_the_router_said(tmp_path: Path) -> None:
    rows = [row | {"threshold": "seven", "route": 3} for row in PAIR]
    assert len(read_set(write_json(tmp_path / "results.jsonl", rows)).items) == 2


@pytest.mark.parametrize(
    ("score", "evidence_passed", "route"),
    [
        (0.70, True, Route.AUTO_SERVE),
        (0.69, True, Route.HUMAN_REVIEW),
        (None, True, Route.HUMAN_REVIEW),
        (0.99, False, Route.BLOCKED_BY_EVIDENCE),
    ],
)
def test_a_route_that_is_not_said_follows_from_the_score(
    tmp_path: Path, score: float | None, evidence_passed: bool, route: Route
) -> None:
    row = result_row(judge_score=score, evidence_passed=evidence_passed)
    (read,) = read_results(write_json(tmp_path / "results.jsonl", [row])).rows
    assert read.observed.route is route_of(score, 0.70, evidence_passed) is route


def test_a_route_that_is_said_counts(tmp_path: Path) -> None:
    row = result_row(judge_score=0.99, route="human_review")
    (read,) = read_results(write_json(tmp_path / "results.jsonl", [row])).rows
    assert read.observed.route is Route.HUMAN_REVIEW


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"judge_score": SECRET}, "judge_score: found text; write a number from 0 to 1"),
        ({"judge_score": 1.5}, "judge_score: found a number; write a number from 0 to 1"),
        ({"threshold": True}, "threshold: found true or false; write a number"),
        ({"threshold": None}, "threshold: missing; write a number"),
        ({"evidence_passed": None}, "evidence_passed: missing; write true or false"),
        ({"expected_ready": "yes"}, "expected_ready: found text; write true or false"),
        ({"synthetic": None}, "synthetic: missing; write true or false"),
        ({"pair_id": 4}, "pair_id: found a whole number; write text"),
        ({"pair_id": ""}, "pair_id: found text; write text of at most 200"),
        ({"pair_id": f"{SECRET} "}, "pair_id: found text; write text of at most 200"),
        ({"variant": f"{SECRET}\n"}, "variant: found text; write text of at most 200"),
        ({"variant": "\ud800"}, "variant: found text; write text of at most 200"),
        ({"variant": "v" * 201}, "variant: found text; write text of at most 200"),
        ({"dataset": "ten pairs"}, "dataset: found text; write a name"),
        ({"dataset_version": 1}, "dataset_version: found a whole number; write a version in text"),
        ({"policy": None}, "policy: missing; write a version in text"),
        ({"axis": "a b"}, "axis: found text; write the name of what is varied"),
        ({"evidence": ""}, "evidence: found text; write text of at most 200"),
        ({"route": "served"}, "route: found text; write auto_serve, human_review or blocked_by"),
        ({"varies": ["channel"]}, "varies: found a list; write a list of what differs on purpose"),
        ({"varies": "policy"}, "varies: found text; write a list of what differs on purpose"),
        ({"attributes": {}}, "attributes: found an object; write attribute names"),
        ({"attributes": [SECRET]}, "attributes: found a list; write attribute names"),
        ({"attributes": {"channel": 7}}, "attributes.channel: found a whole number; write text"),
        ({"attributes": {"Channel": "x"}}, "attributes.Channel: found text; write an attribute"),
        ({"versions": None}, "versions: missing; write the versions of judge"),
        ({"versions": "j1"}, "versions: found text; write the versions of judge"),
        ({"versions": {"judge": 1}}, "versions.judge: found a whole number; write a version"),
        ({"versions": {"judge": "1"}}, "versions.rubric: missing; write a version in text"),
        ({"versions": VERSIONS | {"jugde": "1"}}, "versions.jugde: unknown field; did you mean ve"),
        ({"request_sha256": "abc"}, "request_sha256: found text; write the SHA-256 of the request"),
        ({"request_sha256": "0" * 64}, "request_sha256: not the hash of the request beside it"),
        ({"request": "\ud800"}, "request: found broken text"),
        ({"judge_scor": 0.5}, "judge_scor: unknown field; did you mean judge_score? known here: d"),
        ({"quite other": 0.5}, "'quite other': unknown field; known here: dataset, synthetic"),
    ],
)
def test_what_does_not_fit_is_named_with_the_fix(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    rows = [result_row(), result_row(**changed)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path = write_text(tmp_path / "results.jsonl", text)
    assert refused(path).startswith(f", line 2, field {said}")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f'{{"pair_id": "{SECRET}"', "line 1: not JSON at character "),
        (f'["{SECRET}"]', "line 1: found a list; write one JSON object a line"),
        ('{"threshold": NaN}', "line 1: not JSON; write one whole JSON text, without NaN"),
        ('{"threshold": 1e999}', "line 1: not JSON; write one whole JSON text, without NaN"),
        ('{"threshold": ' + "1" * 5000 + "}", "line 1: not JSON; write"),
        ('{"variant": "a", "variant": "a"}', "line 1: the key variant stands there twice"),
        ("[" * 100_000, "line 1: nested too deeply"),
        (json.dumps(set_row()), "line 1: a row without results (threshold, evidence_passed"),
        ("", "no rows; write one row for each variant of each pair"),
    ],
)
def test_lines_that_are_no_rows(tmp_path: Path, line: str, said: str) -> None:
    path = write_text(tmp_path / "results.jsonl", line)
    assert said in refused(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{SECRET},0.3\n", "line 1: no known column; the first row names the columns: dataset"),
        ("variant,jugde_score\n", "line 1, field jugde_score: unknown field; did you mean judge_s"),
        ("variant,versions.jugde\n", "did you mean versions.judge?"),
        ("variant,attributes\n", "field attributes: unknown field; did you mean attributes.NAME?"),
        ("variant,attributes.A-B\n", "field 'attributes.A-B': unknown field"),
        ("variant;pair_id\n", "line 1: one column only; separate columns by commas"),
        ("variant,\n", "line 1: a column has no name"),
        ("variant,variant\n", "line 1: column 2 has the name of column 1; rename or remove one"),
        (f"{SECRET},{SECRET}\n", "line 1: column 2 has the name of column 1"),
        (f"{SECRET},0.3,policy\n", "line 1: hardly a known column; the first row names the"),
        (f"variant,pair_id\n\n{SECRET}\n", "line 3: cells: 1, columns: 2; check commas"),
        (f'variant,pair_id\na,"{SECRET}', "line 2: not CSV; check its quotes"),
        ("variant,judge_score,threshold\na,b,c\n", "line 2, field dataset: missing"),
        ("variant,request\na,{\n", "line 2, field request: not JSON at character 2"),
        ("variant\n" + "x" * 140_000, "line 2: not CSV; check its quotes, and that no cell is"),
        ("", "no rows; write one row for each variant of each pair"),
    ],
)
def test_csv_that_is_none(tmp_path: Path, text: str, said: str) -> None:
    path = write_text(tmp_path / "results.csv", text)
    assert said in refused(path)


@pytest.mark.parametrize(
    ("name", "cell", "said"),
    [
        ("threshold", "0,70", "field threshold: found text; write a number from 0 to 1"),
        ("threshold", "nan", "field threshold: found text; write a number from 0 to 1"),
        ("threshold", "1_0", "field threshold: found text; write a number from 0 to 1"),
        ("evidence_passed", "1", "field evidence_passed: found text; write true or false"),
        ("versions.judge", "", "field versions.judge: missing; write a version"),
    ],
)
def test_cells_that_do_not_fit(tmp_path: Path, name: str, cell: str, said: str) -> None:
    row = result_row()
    outer, _, inner = name.partition(".")
    row = row | ({outer: row[outer] | {inner: cell}} if inner else {outer: cell})
    assert said in refused(write_csv(tmp_path / "results.csv", [row]))


@pytest.mark.parametrize(
    ("name", "value"),
    [("dataset", "x"), ("dataset_version", "2"), ("synthetic", False), ("varies", ["policy"])],
)
def test_all_rows_are_of_one_set(tmp_path: Path, name: str, value: Any) -> None:
    rows = [set_row(), set_row(variant="b"), set_row("p2", **{name: value})]
    path = write_json(tmp_path / "set.jsonl", rows)
    said = f", line 3, field {name}: differs from line 1; all rows of a file are of one set"
    assert refused(path, read_set) == said


def test_a_set_has_no_variant_twice(tmp_path: Path) -> None:
    rows: Sequence[dict[str, Any]] = [set_row(), set_row(variant="b"), set_row()]
    said = ", line 3, field variant: line 1 already has this variant of the pair; remove one"
    assert refused(write_json(tmp_path / "set.jsonl", rows), read_set) == said


def test_results_may_have_a_variant_twice(tmp_path: Path) -> None:
    results = read_results(write_json(tmp_path / "results.jsonl", [*PAIR, PAIR[0]]))
    assert [row.item.variant for row in results.rows] == ["formal", "conversational", "formal"]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("set.jsonl", b'{}\n{"a": "\xff"}', ", line 2: not UTF-8; save it as UTF-8"),
        ("set.jsonl.gz", b"plain", ": cannot be read: not a whole gzip file"),
        (
            "set.jsonl.gz",
            gzip.compress(b"x" * 999, mtime=0)[:-9],
            ": cannot be read: not a whole gzip file",
        ),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert refused(path, read_set) == said


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert refused(tmp_path / "no.jsonl") == ": cannot be read: No such file or directory"
    assert refused(tmp_path) == ": cannot be read: Is a directory"


@pytest.mark.parametrize("name", ["set.jsonl", "set.jsonl.gz"])
def test_a_file_that_is_too_long(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_json(tmp_path / name, [set_row()])
    monkeypatch.setattr(record_files, "MAX_BYTES", 100)
    assert "longer than 0 MiB; split it" in refused(path, read_set)


@pytest.mark.parametrize("cell", ["policy,evidence", "policy; evidence", "channel"])
def test_what_varies_is_separated_by_spaces_in_csv(tmp_path: Path, cell: str) -> None:
    def of(varies: str) -> Path:
        path = write_csv(tmp_path / "rows.csv", [result_row(), result_row(variant="b")])
        head, *rest = path.read_text().splitlines()
        return write_text(
            path, "".join([f"{head},varies\n", *(f"{row},{varies}\n" for row in rest)])
        )

    assert read_results(of("policy evidence")).probe_set.varies == {"policy", "evidence"}
    assert refused(of(f'"{cell}"')) == (
        ", line 2, field varies: found text; write a list of what differs on purpose, out of"
        ' expected_ready, policy, evidence, such as ["policy"] (CSV: the names with a space'
        " between them)"
    )
