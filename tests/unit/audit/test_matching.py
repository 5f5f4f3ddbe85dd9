from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from probe_rows import VERSIONS, ProbeRow, result_row, write_json

from monitor.audit.inputs import Excluded, Pair
from monitor.audit.matching import matched
from monitor.audit.set_files import read_results

VARIANTS = ("formal", "conversational")


def pair(name: str, variants: tuple[str, ...] = VARIANTS, **changed: Any) -> list[ProbeRow]:
    return [result_row(name, variant, **changed) for variant in variants]


def split(
    folder: Path, rows: list[ProbeRow], **common: Any
) -> tuple[tuple[Pair, ...], tuple[Excluded, ...]]:
    path = write_json(folder / "results.jsonl", [row | common for row in rows])
    return matched(read_results(path))


def reason(folder: Path, *rows: ProbeRow, **common: Any) -> str:
    """Why the pair p1 is left out; p0 is a whole pair beside it."""
    pairs, excluded = split(folder, [*pair("p0"), *rows], **common)
    assert [one.id for one in pairs] == ["p0"]
    (one,) = excluded
    assert one.pair == "p1"
    assert "\n" not in one.reason
    return one.reason


def test_whole_pairs_are_sorted(tmp_path: Path) -> None:
    rows = [*pair("p2", axis="dialect", held_out=True), *reversed(pair("p1", axis="dialect"))]
    pairs, excluded = split(tmp_path, rows)
    assert excluded == ()
    assert [(one.id, one.axis, one.held_out) for one in pairs] == [
        ("p1", "dialect", False),
        ("p2", "dialect", True),
    ]
    assert [row.item.variant for row in pairs[0].rows] == ["conversational", "formal"]
    assert [row.line for row in pairs[0].rows] == [3, 4]


def test_more_than_two_variants(tmp_path: Path) -> None:
    names = ("formal", "dialect", "code_switched")
    pairs, excluded = split(tmp_path, [*pair("p1", names), *pair("p2", names)])
    assert [len(one.rows) for one in pairs] == [3, 3]
    assert excluded == ()


def test_each_axis_has_its_own_variants(tmp_path: Path) -> None:
    rows = [*pair("p1", axis="formality"), *pair("p2", ("german", "english"), axis="language")]
    pairs, excluded = split(tmp_path, rows)
    assert [one.axis for one in pairs] == ["formality", "language"]
    assert excluded == ()


def test_a_variant_that_other_pairs_of_the_axis_have_is_missing(tmp_path: Path) -> None:
    said = "variant missing (conversational): add it, as other pairs have it"
    assert reason(tmp_path, result_row("p1", "formal")) == said


def test_a_single_variant_is_no_pair(tmp_path: Path) -> None:
    row = result_row("p1", "alone", axis="persona")
    assert reason(tmp_path, row) == "variant is one only: a pair needs two"


def test_a_doubled_variant(tmp_path: Path) -> None:
    rows = [*pair("p1"), result_row("p1", "formal", judge_score=0.2)]
    assert reason(tmp_path, *rows) == "variant doubled (formal): keep one row of it"


def test_variants_of_real_people_are_not_named(tmp_path: Path) -> None:
    rows = [result_row("p1", "formal"), result_row("p1", "formal")]
    assert reason(tmp_path, *rows, synthetic=False) == (
        "variant missing: add it, as other pairs have it; variant doubled: keep one row of it"
    )


def test_a_pair_keeps_to_one_axis(tmp_path: Path) -> None:
    rows = [result_row("p1", "formal"), result_row("p1", "sudden", axis="language")]
    assert reason(tmp_path, *rows) == "axis differs between variants: a pair varies along one axis"


def test_something_must_be_varied(tmp_path: Path) -> None:
    rows = pair("p1", attributes={"channel": "email"})
    said = "attributes are the same in two variants: name the attribute that is varied"
    assert reason(tmp_path, *rows) == said


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"expected_ready": False}, "expected_ready differs between variants: make it equal, or "),
        ({"evidence": "kb-2"}, "evidence differs between variants: make it equal, or list it in"),
        ({"evidence": None}, "evidence differs between variants: make it equal, or list it in"),
        ({"policy": "p2", "versions": VERSIONS | {"policy": "p2"}}, "policy differs between var"),
        ({"held_out": True}, "held_out differs between variants: hold out the whole pair or none"),
        ({"reviewers_agree": None}, "reviewers_agree is missing: have two reviewers judge the"),
        ({"reviewers_agree": False}, "reviewers_agree is false: settle it, or take the pair out"),
        ({"versions": VERSIONS | {"policy": "p2"}}, "versions.policy is not the policy that rev"),
        ({"versions": VERSIONS | {"judge": "j2"}}, "versions.judge differs between variants: run "),
        ({"versions": VERSIONS | {"rubric": "r2"}}, "versions.rubric differs between variants: "),
        ({"versions": VERSIONS | {"router": "t2"}}, "versions.router differs between variants: "),
    ],
)
def test_what_is_held_fixed_may_not_differ(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    rows = [result_row("p1", "formal"), result_row("p1", "conversational", **changed)]
    assert reason(tmp_path, *rows).startswith(said)
    assert ";" not in reason(tmp_path, *rows)


def test_an_outcome_that_is_missing_is_said_beside_the_difference(tmp_path: Path) -> None:
    rows = pair("p1", expected_ready=None, reviewers_agree=None)
    assert reason(tmp_path, *rows) == (
        "expected_ready is missing: have reviewers state it; "
        "reviewers_agree is missing: have two reviewers judge the pair"
    )


@pytest.mark.parametrize(
    ("name", "value"), [("expected_ready", False), ("evidence", "kb-2"), ("policy", "p2")]
)
def test_what_a_set_varies_on_purpose_may_differ(tmp_path: Path, name: str, value: object) -> None:
    rows = pair("p1")
    rows[1][name] = value
    if name == "policy":
        rows[1]["versions"] = VERSIONS | {"policy": value}
    pairs, excluded = split(tmp_path, rows, varies=[name])
    assert (len(pairs), excluded) == (1, ())


def test_pairs_may_be_decided_by_several_routers_and_variants_by_several_thresholds(
    tmp_path: Path,
) -> None:
    rows = [*pair("p1"), *pair("p2", versions=VERSIONS | {"router": "t2"})]
    rows[1]["threshold"] = 0.8
    pairs, excluded = split(tmp_path, rows)
    assert [{row.versions.router for row in one.rows} for one in pairs] == [{"t1"}, {"t2"}]
    assert excluded == ()
