from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from probe_rows import set_row, write_json

from monitor.audit.inputs import ProbeSet, digest
from monitor.audit.set_files import promote, read_set, write_set
from monitor.errors import AuditError


@pytest.fixture
def source(tmp_path: Path) -> ProbeSet:
    rows = [
        set_row(pair, variant, varies=["evidence"], held_out=pair == "h1")
        for pair in ("p1", "p2", "h1")
        for variant in ("formal", "conversational")
    ]
    return read_set(write_json(tmp_path / "source.jsonl", rows))


def test_flips_become_a_set_of_their_own(source: ProbeSet, tmp_path: Path) -> None:
    promoted = promote(source, ["p2", "p2"], name="pairs", version="2")
    assert promoted is not None
    assert [(item.pair, item.variant) for item in promoted.items] == [
        ("p2", "conversational"),
        ("p2", "formal"),
    ]
    assert (promoted.name, promoted.version, promoted.synthetic) == ("pairs", "2", True)
    assert promoted.varies == source.varies
    assert all(item.request for item in promoted.items)
    assert digest(promoted) != digest(source)
    write_set(tmp_path / "new.jsonl", promoted)
    assert digest(read_set(tmp_path / "new.jsonl")) == digest(promoted)


def test_held_out_pairs_are_never_promoted(source: ProbeSet) -> None:
    promoted = promote(source, ["h1", "p1"], name="flips", version="1")
    assert promoted is not None
    assert {item.pair for item in promoted.items} == {"p1"}
    assert promote(source, ["h1"], name="flips", version="1") is None


def test_without_flips_there_is_nothing_to_promote(source: ProbeSet) -> None:
    assert promote(source, [], name="flips", version="1") is None


def test_real_people_are_no_fixture(source: ProbeSet) -> None:
    with pytest.raises(AuditError, match="only synthetic pairs are promoted"):
        promote(replace(source, synthetic=False), ["p1"], name="flips", version="1")


def test_another_content_is_another_set(source: ProbeSet) -> None:
    with pytest.raises(AuditError, match="a name or a version of its own"):
        promote(source, ["p1"], name="pairs", version="1")


def test_flips_are_of_the_set(source: ProbeSet) -> None:
    with pytest.raises(AuditError, match="of a pair that this set has not"):
        promote(source, ["p1", "p9"], name="flips", version="1")
