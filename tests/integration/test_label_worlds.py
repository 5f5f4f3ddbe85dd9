"""Worlds in which labels come late, stop or are chosen: no page is false, and faults are reported.

A seed each, and small; ``make bench-labels`` plays all of them twenty times.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from label_play import play
from label_worlds import LabelWorld, Sizes, catalogue

pytestmark = pytest.mark.full

SMALL = Sizes(slices=4, a_day=4_000, days=12, breaks=5)
WORLDS = {
    "long": "reviewers skip 30 % of a slice's long requests; gap .10",
    "reviewers": "a language's reviewers stop; gap .10",
    "late": "a slice's labels take 2 days more, another's 4; gap .10",
    "partition": "one of four partitions of labels stalls for 6 days; gap .10",
    "in turn": "two slices lose all audits in turn, 4 days each; gap .10",
}


def world(name: str) -> LabelWorld:
    (found,) = (one for one in catalogue(SMALL) if one.name == WORLDS[name])
    return found


@pytest.mark.parametrize("name", WORLDS)
def test_no_page_is_false_and_what_is_missing_is_reported(tmp_path: Path, name: str) -> None:
    played = play(world(name), tmp_path)
    assert played.false == []
    assert played.wrongly_told == []
    assert (played.told is not None) == bool(world(name).faulty)


def test_a_gap_is_paged_in_a_world_of_this_size(tmp_path: Path) -> None:
    """Or the worlds above would show nothing."""
    (opened,) = (one for one in catalogue(SMALL) if one.name.startswith("nothing is lost; gap .30"))
    played = play(opened, tmp_path)
    assert played.false == []
    assert played.found is not None
    assert played.found <= 4
