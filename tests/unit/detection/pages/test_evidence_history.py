from __future__ import annotations

import numpy as np
import pytest

from monitor.detection import arrays
from monitor.detection.pages.evidence_history import KEPT, EvidenceHistory

KEYS = ("a", "b", "c")


def walked(rng: np.random.Generator, hours: int) -> tuple[EvidenceHistory, np.ndarray]:
    """A history, and the steps after each of its hours."""
    history, all_steps = EvidenceHistory.start(KEYS), np.zeros((hours + 1, len(KEYS)), np.int64)
    for hour in range(hours):
        steps = all_steps[hour].copy()
        moved = rng.random(len(KEYS)) < 0.1
        steps[moved] = rng.integers(0, 4, moved.sum())
        history.note(hour, steps)
        all_steps[hour + 1] = steps
    return history, all_steps


def test_it_says_what_was_known_at_every_hour() -> None:
    history, steps = walked(np.random.default_rng(1), 200)
    for hour in range(201):
        assert history.before(hour).tolist() == steps[hour].tolist()
    assert history.before(10**6).tolist() == steps[-1].tolist()


def test_only_changes_are_kept() -> None:
    history = EvidenceHistory.start(KEYS)
    for hour in range(50):
        history.note(hour, np.array([0, 2, 0]))
    assert (history.hours.tolist(), history.rows.tolist()) == ([0], [1])


def test_what_is_too_old_is_forgotten_but_for_where_it_led() -> None:
    rng = np.random.default_rng(2)
    history, steps = walked(rng, KEPT + 500)
    assert history.hours[0] < 500
    assert np.count_nonzero(history.hours < 499) <= len(KEYS)
    for hour in range(500, KEPT + 501, 97):
        assert history.before(hour).tolist() == steps[hour].tolist()


@pytest.mark.parametrize("cut", [0, 1, 77, 200])
def test_it_goes_on_from_bytes(cut: int) -> None:
    whole, steps = walked(np.random.default_rng(3), 200)
    history = EvidenceHistory.start(KEYS)
    for hour in range(cut):
        history.note(hour, steps[hour + 1])
    again = EvidenceHistory.start(KEYS)
    again.restore(*arrays.decode(arrays.encode(history.to_arrays(), history.facts())))
    for hour in range(cut, 200):
        again.note(hour, steps[hour + 1])
    assert arrays.encode(again.to_arrays(), again.facts()) == arrays.encode(
        whole.to_arrays(), whole.facts()
    )
    assert again.now.tolist() == whole.now.tolist()


def test_streams_that_come_and_go() -> None:
    history = EvidenceHistory.start(KEYS)
    history.note(5, np.array([1, 2, 3]))
    history.note(6, np.array([0, 2, 1]))
    again = EvidenceHistory.start(("c", "d", "a"))
    again.restore(history.to_arrays(), history.facts())
    assert again.before(6).tolist() == [3, 0, 1]
    assert again.before(7).tolist() == again.now.tolist() == [1, 0, 0]
