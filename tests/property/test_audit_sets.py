"""A probe set is what it says, not the file it stands in."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from example_counts import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from probe_rows import VERSIONS, ProbeRow, write_csv, write_json

from monitor.audit.inputs import ProbeSet, digest
from monitor.audit.set_files import read_results, read_set, write_rows, write_set

# Files are written: a busy machine may take its time.
FILED = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
LETTERS = st.characters(exclude_categories=["C", "Z"])
WORDS = st.text(LETTERS, min_size=1, max_size=4)
VERSION = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:+/-]{0,5}", fullmatch=True)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,4}", fullmatch=True)
TRUTHS = st.booleans()
JSON = st.recursive(
    st.none() | TRUTHS | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)


def rows_of(common: ProbeRow) -> st.SearchStrategy[list[ProbeRow]]:
    row = st.fixed_dictionaries(
        {
            "pair_id": WORDS,
            "variant": WORDS,
            "attributes": st.dictionaries(NAMES, WORDS, min_size=1, max_size=2),
            "policy": VERSION,
            "threshold": st.floats(0, 1),
            "evidence_passed": TRUTHS,
            "versions": st.just(VERSIONS),
        },
        optional={
            "axis": NAMES,
            "expected_ready": TRUTHS,
            "evidence": WORDS,
            "reviewers_agree": TRUTHS,
            "held_out": TRUTHS,
            "request": JSON.filter(lambda value: value is not None),
            "judge_score": st.floats(0, 1),
            "route": st.sampled_from(["auto_serve", "human_review", "blocked_by_evidence"]),
        },
    )
    whole = row.map(lambda drawn: common | drawn)
    return st.lists(
        whole, min_size=1, max_size=5, unique_by=lambda drawn: (drawn["pair_id"], drawn["variant"])
    )


FILES = st.fixed_dictionaries(
    {
        "dataset": VERSION.filter(lambda text: not set(text) & set("+/")),
        "dataset_version": VERSION,
        "synthetic": TRUTHS,
        "varies": st.lists(st.sampled_from(["expected_ready", "policy", "evidence"]), unique=True),
    }
).flatmap(rows_of)
RESULTS = ("threshold", "evidence_passed", "versions", "judge_score", "route")


@FILED
@given(FILES, st.randoms(use_true_random=False))
def test_a_set_has_one_hash_in_any_file_and_order(rows: list[ProbeRow], random: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, "a.jsonl")
        hashes = {digest(read_results(write_json(plain, rows)).probe_set), digest(read_set(plain))}
        random.shuffle(rows)
        table = write_csv(Path(folder, "b.csv.gz"), rows)
        hashes |= {digest(read_results(table).probe_set), digest(read_set(table))}
        bare = [{k: v for k, v in row.items() if k not in RESULTS} for row in rows]
        hashes |= {
            digest(read_set(write_json(Path(folder, "c.jsonl.gz"), bare))),
            digest(read_set(write_csv(Path(folder, "d.csv"), bare))),
        }
        assert len(hashes) == 1


@FILED
@given(FILES)
def test_what_is_written_comes_back(rows: list[ProbeRow]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = write_json(Path(folder, "a.jsonl"), rows)
        probe_set, results = read_set(source), read_results(source)
        write_set(Path(folder, "set.jsonl"), probe_set)
        write_rows(Path(folder, "results.jsonl"), probe_set, results.rows)
        assert read_set(Path(folder, "set.jsonl")) == probe_set
        assert read_results(Path(folder, "results.jsonl")) == results


def changes(probe_set: ProbeSet) -> list[ProbeSet]:
    """The set with one thing in it changed, in every way."""
    first, *others = probe_set.items
    items = [
        replace(first, pair=first.pair + "x"),
        replace(first, variant=first.variant + "x"),
        replace(first, attributes=dict(first.attributes) | {"another_name": "x"}),
        replace(first, attributes=dict.fromkeys(first.attributes, "another value")),
        replace(first, policy=first.policy + "x"),
        replace(first, axis=first.axis + "x"),
        replace(first, evidence=(first.evidence or "") + "x"),
        replace(first, held_out=not first.held_out),
        replace(first, request_digest="0" * 64),
        *(replace(first, expected_ready=x) for x in {None, True, False} - {first.expected_ready}),
        *(replace(first, reviewers_agree=x) for x in {None, True, False} - {first.reviewers_agree}),
    ]
    return [
        replace(probe_set, name=probe_set.name + "x"),
        replace(probe_set, version=probe_set.version + "x"),
        replace(probe_set, synthetic=not probe_set.synthetic),
        replace(probe_set, varies=probe_set.varies ^ {"policy"}),
        replace(probe_set, items=tuple(others)),
        replace(probe_set, items=(first, *probe_set.items)),
        *(replace(probe_set, items=(item, *others)) for item in items),
    ]


@FILED
@given(FILES)
def test_another_content_has_another_hash(rows: list[ProbeRow]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        probe_set = read_set(write_json(Path(folder, "a.jsonl"), rows))
    changed = changes(probe_set)
    assert len({digest(probe_set), *map(digest, changed)}) == len(changed) + 1


@FILED
@given(FILES.filter(lambda rows: "request" in rows[0]), JSON)
def test_another_request_is_another_content(rows: list[ProbeRow], request: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        before = read_set(write_json(Path(folder, "a.jsonl"), rows))
        rows[0] = rows[0] | {"request": request}
        after = read_set(write_json(Path(folder, "b.jsonl"), rows))
    assert (digest(before) == digest(after)) is (requests(before) == requests(after))


def requests(probe_set: ProbeSet) -> str:
    """As text: 1, 1.0 and true are three requests."""
    return json.dumps([item.request for item in probe_set.items], sort_keys=True)
