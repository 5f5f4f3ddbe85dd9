"""Whether two slices became worse at one time, by worlds in which they did, and did not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import islice

import pytest
from cause_worlds import HOURS, TWO_BY_THREE, CauseWorld, Fault

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import Counts
from monitor.core.metric import Metric
from monitor.detection.diagnosis.explain import began_together, share_value
from monitor.detection.pages.streams import Direction, Stream, StreamKind

CHAT, EMAIL, VOICE = (f"channel={channel},variety=a" for channel in ("chat", "email", "voice"))
PLANTED = CauseWorld(TWO_BY_THREE, 3000.0, 0.05, Fault.THRESHOLD, (CHAT,), 7 * HOURS, (0,))
ONSET, DAYS = 7, 18
CROSSED = Stream(
    "c", "channel+variety", Metric.TPR, StreamKind.GAP, CHAT, COMPLEMENT, Direction.SLICE_WORSE,
    Fraction(1, 10),
)  # fmt: skip


def together(seed: int, later: int, other: str = EMAIL, days: int = DAYS) -> bool:
    """The second slice becomes worse so many days after the first."""
    first = replace(PLANTED, seed=(seed,))
    both = replace(first, planted=(CHAT, EMAIL))
    panes: list[Counts] = [
        after if day >= ONSET + later else before
        for day, (before, after) in enumerate(
            zip(islice(first.cohorts(HOURS), days), both.cohorts(HOURS), strict=False)
        )
    ]
    evidence = first.contract, first.coding, panes, first.index
    return began_together(CROSSED, *evidence, slices=(CHAT, other))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("days", [DAYS, ONSET + 7])
def test_of_one_onset_they_are_together_however_long_it_is_ago(seed: int, days: int) -> None:
    assert together(seed, 0, days=days)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("later", [3, 5])
def test_of_two_onsets_they_are_not(seed: int, later: int) -> None:
    assert not together(seed, later)


@pytest.mark.parametrize("seed", range(5))
def test_a_slice_that_is_no_worse_is_together_with_none(seed: int) -> None:
    assert not together(seed, 0, VOICE)
    assert not together(seed, 0, "channel=chat,variety=b")


def test_a_slice_without_decisions_is_together_with_none() -> None:
    assert not together(0, 0, "channel=chat,variety=unseen")


def test_slices_share_a_value_of_an_attribute() -> None:
    assert share_value(CHAT, EMAIL)
    assert share_value(CHAT, "channel=chat")
    assert not share_value("channel=chat", "variety=a")
    assert not share_value("", CHAT)
