"""Worlds in which labels come late, stop or are chosen: no page is false, and faults are reported.

A seed each, and small; ``make bench-labels`` plays all of them twenty times.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from label_play import play
from label_worlds import LabelWorld, Sizes, catalogue

from monitor.core.metric import Metric
from monitor.core.publish.snapshot import LimitKind

pytestmark = pytest.mark.full

SMALL = Sizes(slices=4, a_day=4_000, days=12, breaks=5)
WORLDS = {
    "long": "reviewers skip 30 % of a slice's long requests; gap .10",
    "reviewers": "a language's reviewers stop; gap .10",
    "late": "a slice's labels take 2 days more, another's 4; gap .10",
    "partition": "one of four partitions of labels stalls for 6 days; gap .10",
    "in turn": "two slices lose all audits in turn, 4 days each; gap .10",
}


EIGHT = Sizes(slices=8, a_day=6_000, days=18, breaks=5)
"""With four slices, a gap in one of the two labelled ones is one of the other's reference."""

FOUND = {
    "nothing is lost; gap .30 from day 5": (SMALL, 3),
    "8 % of all audits never come; gap .30 from day 5": (SMALL, 4),
    "a quarter of the traffic loses all its audits; another's gap .30 from day 13": (EIGHT, 4),
    "a fiftieth of the traffic is hardly served from day 5 on": (SMALL, 4),
}
"""Days until a page, the wait for labels included."""


def world(name: str, sizes: Sizes = SMALL) -> LabelWorld:
    (found,) = (one for one in catalogue(sizes) if one.name == name)
    return found


@pytest.mark.parametrize("name", WORLDS)
def test_no_page_is_false_and_what_is_missing_is_reported(tmp_path: Path, name: str) -> None:
    played = play(world(WORLDS[name]), tmp_path)
    assert played.false == []
    assert played.wrongly_told == []
    assert (played.told is not None) == bool(world(WORLDS[name]).faulty)


@pytest.mark.parametrize("name", FOUND)
def test_a_gap_is_paged_although_labels_of_others_are_missing(tmp_path: Path, name: str) -> None:
    sizes, days = FOUND[name]
    played = play(world(name, sizes), tmp_path)
    assert played.false == []
    assert played.found is not None
    assert played.off is not None
    assert played.found <= days
    assert abs(played.off) <= 1, "the day on which it began is estimated"


UNLABELLED = replace(SMALL.labelling(gap=0.27), lost=(lambda drawn: np.ones_like(drawn.auto),))
"""The first slice is served .395 of the time, the others .550; no label ever comes."""
OFTEN_WRONG = replace(
    replace(SMALL, a_day=6_000).labelling(share=0.5), fprs={0: 0.38, 1: 0.12, 2: 0.12, 3: 0.12}
)
"""Few unready replies are served, and of these a twentieth is labelled: it takes 3,000 a day."""


@pytest.mark.parametrize(
    ("world", "broken"),
    [
        (
            LabelWorld(
                "four fifths, without labels",
                UNLABELLED,
                limits='min_selection_ratio = 0.80\npage_on = ["min_selection_ratio"]\n',
            ),
            (Metric.SELECTION, "a=s00", LimitKind.MIN_RATIO),
        ),
        (
            LabelWorld("FPR .38 against .12", OFTEN_WRONG, limits='page_on = ["max_fpr_gap"]\n'),
            (Metric.FPR, "a=s00", LimitKind.MAX_GAP),
        ),
    ],
    ids=lambda value: value.name if isinstance(value, LabelWorld) else "",
)
def test_whoever_the_contract_names_is_woken_and_for_nothing_else(
    tmp_path: Path, world: LabelWorld, broken: tuple[Metric, str, LimitKind]
) -> None:
    woken = play(world, tmp_path).woken
    assert broken in woken
    assert {metric for metric, _, _ in woken} == {broken[0]}
