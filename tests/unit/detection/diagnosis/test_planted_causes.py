"""Planted causes are named, with the stage of the router: a short form of ``make bench-incidents``.

In the long run (``known onset``, 200 seeds a world) what is named is wrong in at most 2 of 200, so
of 20 seeds at most one may be; the worlds are the same in every run.
"""

from __future__ import annotations

from functools import cache

import pytest
from cause_play import STAGES, Judgement, judge, play, play_known_onset
from cause_worlds import Planted, planted_world

pytestmark = pytest.mark.full

SEEDS = range(20)
WRONG = 1
BUSY = 2
"""A seed with 2,000 decisions a day: its pages come within days."""


@cache
def judged(kind: Planted) -> list[Judgement]:
    """Of the seeds that page."""
    found = [judge(play_known_onset(planted_world(kind, seed))) for seed in SEEDS]
    return [one for one in found if one.days is not None]


@pytest.mark.parametrize("kind", list(Planted))
def test_planted_causes_and_stages_are_named(kind: Planted) -> None:
    assert len(judged(kind)) >= 15
    for right in ("page", "day", "both", "stage", "stage_day"):
        assert sum(getattr(one, right) is False for one in judged(kind)) <= WRONG
    staged = planted_world(kind, 0).fault in STAGES
    assert all((one.stage is not None) is staged for one in judged(kind))


@pytest.mark.parametrize("kind", list(Planted))
def test_pages_of_the_shipped_tests_are_explained(kind: Planted) -> None:
    found = judge(play(planted_world(kind, BUSY)))
    assert found.days is not None
    assert False not in (found.page, found.day, found.both, found.stage, found.stage_day)


def test_two_causes_are_both_named_once_both_have_crossed() -> None:
    assert sum(one.both is True for one in judged(Planted.TWO)) >= 5
