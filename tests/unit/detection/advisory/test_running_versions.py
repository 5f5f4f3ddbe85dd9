"""When other versions answer a slice, and when it only seems so."""

from __future__ import annotations

import numpy as np

from monitor.detection.advisory.versions import ENOUGH, RunningVersions

OLD, NEW, OTHER = 70, 50, 60
EVERY = np.ones(1, bool)


def look(running: RunningVersions, collecting: bool = True, **decided: int) -> bool:
    """One hour of one slice, decisions by version; whether the slice begins anew."""
    ids = {"old": OLD, "new": NEW, "other": OTHER}
    versions = np.array(sorted(ids[name] for name in decided))
    row = [next(n for name, n in decided.items() if ids[name] == v) for v in versions.tolist()]
    return bool(len(running.changed(versions, np.array([row]), collecting & EVERY)))


def test_a_release_is_seen_in_the_first_decisions_that_are_enough() -> None:
    running = RunningVersions.empty(1)
    assert not look(running, old=500)
    assert not look(running, new=ENOUGH - 1), "they wait"
    assert look(running, new=1)
    assert not look(running, new=300), "it is what is known now"
    assert running.versions.tolist() == [NEW], "nobody is compared with the old one"
    assert look(running, old=ENOUGH), "back again is a change too"


def test_nothing_is_a_change_from_nothing() -> None:
    assert not look(RunningVersions.empty(1), new=ENOUGH)


def test_two_versions_side_by_side_do_not_begin_anew_every_hour() -> None:
    rng = np.random.default_rng(1)
    for hourly, share in ((ENOUGH, 0.5), (ENOUGH, 0.02), (300, 0.3), (7, 0.1)):
        running = RunningVersions.empty(200)
        restarts = 0
        for _ in range(300):
            new = rng.binomial(hourly, share, 200)
            decided = np.stack([new, hourly - new], axis=1)
            changed = running.changed(np.array([NEW, OLD]), decided, np.ones(200, bool))
            restarts += len(changed)
        assert restarts <= 20, (hourly, share, restarts)


def test_a_finished_reference_knows_only_who_answered_while_it_was_collected() -> None:
    running = RunningVersions.empty(1)
    look(running, old=400)
    for _ in range(50):
        assert not look(running, collecting=False, old=96, new=4)
    assert running.collected.sum() == 400
    assert look(running, collecting=False, old=60, new=40)


def test_a_slice_that_another_version_answers_leaves_the_others_alone() -> None:
    running = RunningVersions.empty(2)
    versions, both = np.array([NEW, OLD]), np.ones(2, bool)
    assert not len(running.changed(versions, np.array([[0, 90], [0, 90]]), both))
    assert running.changed(versions, np.array([[90, 0], [0, 90]]), both).tolist() == [0]
    assert running.collected.tolist() == [[90, 0], [0, 180]]


def test_rows_are_picked_with_their_counts_and_new_ones_are_empty() -> None:
    running = RunningVersions.empty(2)
    running.changed(np.array([NEW, OLD]), np.array([[0, 90], [5, 0]]), np.ones(2, bool))
    picked = running.picked(np.array([1, -1, 0]))
    assert picked.collected.tolist() == [[0, 0], [0, 0], [0, 90]]
    assert picked.recent.tolist() == [[5, 0], [0, 0], [0, 0]]
    again = RunningVersions.from_arrays(picked.to_arrays())
    assert again.versions.tolist() == [NEW, OLD]
    assert again.recent.tolist() == picked.recent.tolist()
