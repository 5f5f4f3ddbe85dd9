"""Which windows a loss touches, against every instant of a small time line."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from monitor.evaluate.publish.losses import LostSpan, LostSpans
from monitor.store.exclusions import Loss

LATENESS, HORIZON = 2, 9
TIMES = st.none() | st.integers(-5, 25)


def possible(loss: Loss, at: int) -> bool:
    """Whether an event of this instant may be among the lost, said in words, not by spans."""
    before = LATENESS if loss.topic == "decisions" else HORIZON
    if loss.after is not None and at < loss.after - before:
        return False
    ends = [t for t in (loss.after, loss.before) if t is not None]
    return loss.before is None or at <= max(ends) + LATENESS


@example([Loss("decisions", 0, -1)], 2, 1)
@given(
    st.lists(st.builds(Loss, st.sampled_from(["decisions", "labels"]), TIMES, TIMES), max_size=3),
    st.integers(-10, 30),
    st.integers(1, 12),
)
def test_a_window_is_touched_when_any_of_its_instants_is(
    losses: list[Loss], start: int, length: int
) -> None:
    spans = LostSpans.from_losses(losses, "decisions", LATENESS, HORIZON)
    inside = range(start, start + length)
    decisions = [loss for loss in losses if loss.topic == "decisions"]
    for touched, concerned in (
        (spans.touch_decisions(start, start + length), decisions),
        (spans.touch_labelled(start, start + length), losses),
    ):
        assert touched == any(possible(loss, at) for loss in concerned for at in inside)


@pytest.mark.parametrize(("start", "end"), [(None, None), (0, None), (None, 5)])
def test_a_window_without_time_is_never_touched(start: int | None, end: int | None) -> None:
    assert not LostSpan(-(1 << 62), 1 << 62).touches(start, end)


def test_without_losses_nothing_is_touched() -> None:
    assert LostSpans.from_losses((), "decisions", LATENESS, HORIZON) == LostSpans()
    assert not LostSpans().touch_labelled(0, 1)
