"""What a limit on precision adds to the pages, by an attacker who has nothing but what he fetched.

A product that rounds precision from its own counts is attacked in the same way, and falls.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from adversary import service
from adversary.precision import Found, Rule, attack, by_its_own_counts, by_the_manual
from adversary.service import running
from adversary.worlds import AUTO, DAY, HOUR, REVIEW, START, World
from guarded import Given, world_of

from monitor.core.contract import Metric
from monitor.core.publish import rows
from monitor.core.publish.suppression import ShownColumns, show

pytestmark = pytest.mark.full

VALUES = ("u", "v", "w", "x", "y", "z")
DAYS, DAILY = 2, 100
READY, SERVED = 0.62, {True: 0.97, False: 0.6}
"""Few ready replies wait for a person: one to three of a day and value."""


def everything_labelled() -> World:
    rng = np.random.default_rng(2)
    size = DAYS * DAILY * len(VALUES)
    at = START + np.sort(rng.integers(0, DAYS * DAY, size))
    ready = rng.random(size) < READY
    served = rng.random(size) < np.where(ready, SERVED[True], SERVED[False])
    each, none = np.arange(size), np.zeros(size, np.int64)
    labels = Given(each, at + 600_000_000, none + 1, ready.astype(np.int64))
    decisions = (at, rng.integers(0, len(VALUES), size), np.where(served, AUTO, REVIEW), none)
    world = world_of(
        {"a": VALUES}, tuple((v,) for v in VALUES), DAYS, (*decisions, none + 1), labels
    )
    return replace(world, rate=none)


def attacked(monkeypatch: pytest.MonkeyPatch, rule: Rule) -> list[Found]:
    """Fetch the pages of two days and try all tables."""
    plain = service.settings_text
    monkeypatch.setattr(
        service, "settings_text", lambda *a, **b: plain(*a, **b) + "max_precision_gap = 0.05\n"
    )
    world = everything_labelled()
    with running(world) as site:
        instants = range(START + DAY + HOUR, world.end + 8 * HOUR, 6 * HOUR)
        bodies = [body for now in instants if (body := site.step(now)) is not None]
    return list(attack(bodies, rule))


def test_precision_on_a_page_gives_nothing_more_away(monkeypatch: pytest.MonkeyPatch) -> None:
    found = attacked(monkeypatch, by_the_manual)
    assert len(found) >= 5
    assert all(one.numbers for one in found)
    assert [one for one in found if one.numbers != one.without] == []


def naive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish what precision would be by its own counts."""
    made: list[ShownColumns] = []

    def noting(*arguments: object) -> ShownColumns:
        made.append(show(*arguments))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(rows, "show", noting)
    monkeypatch.setattr(
        rows,
        "shown_precision",
        lambda *_: next(one for one in reversed(made) if one.metric is Metric.PRECISION),
    )


def test_a_precision_by_its_own_counts_would(monkeypatch: pytest.MonkeyPatch) -> None:
    naive(monkeypatch)
    found = attacked(monkeypatch, by_its_own_counts)
    waiting = [(one.without[2], one.numbers[2]) for one in found]
    assert (11, 11) in waiting, "0 to 10 ready replies waited for a person"
    assert any(could == 11 and left < 6 for could, left in waiting), waiting
