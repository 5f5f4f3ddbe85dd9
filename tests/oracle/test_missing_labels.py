"""Verdicts while labels are missing: at random, or only those that tell of a broken limit."""

from __future__ import annotations

from collections import Counter as Tally

import numpy as np
import pytest
from released_rows import rows_of

from monitor.core.counts.cells import COUNTERS, Counter, Int64s, Route, Stratum
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.metric import Metric
from monitor.core.state import State

READY, TPR, FPR, SLICES, WORLDS = 0.6, 0.85, 0.10, 6, 40
COLUMNS = [Counter.N, Counter.Q, Counter.LABELLED, Counter.READY]


def states(decisions: int, audits: float, *, gap: float, hidden: float) -> list[Tally[State]]:
    """States of the FPR of the first slice, and of all others, in some weeks.

    Args:
        decisions: of each slice.
        audits: share of served replies that a label is requested for.
        gap: by how much the first slice's FPR is higher.
        hidden: share of its wrong replies whose audit does not come; of all other labels, 1 %.
    """
    coding = Coding((), (), (1.0, audits))
    first, others = Tally[State](), Tally[State]()
    for seed in range(WORLDS):
        rng = np.random.default_rng(seed)
        values = np.array(
            [_slice(rng, decisions, audits, *((gap, hidden) if row == 0 else (0, 0.01)))
             for row in range(SLICES)]
        )  # fmt: skip
        strata = Stratum(Route.AUTO_SERVE, 0, 1), Stratum(Route.HUMAN_REVIEW, 0, 0)
        codes = np.array([stratum.code for stratum in strata])
        order, names = np.argsort(codes), tuple(f"a=s{row}" for row in range(SLICES))
        rows = rows_of(SliceCounts(names, codes[order], values[:, order]), coding)
        first[rows[0].states[Metric.FPR]] += 1
        others.update(row.states[Metric.FPR] for row in rows[1:])
    return [first, others]


def _slice(
    rng: np.random.Generator, decisions: int, audits: float, gap: float, hidden: float
) -> Int64s:
    """Counters of a slice, shape (routes, counters)."""
    ready = rng.binomial(decisions, READY)
    every = np.array([ready, decisions - ready])
    served = rng.binomial(every, [TPR, FPR + gap])
    values = np.zeros((2, COUNTERS), np.int64)
    for route, (replies, rate) in enumerate(((served, audits), (every - served, 1.0))):
        asked = rng.binomial(replies, rate)
        come = asked - rng.binomial(asked, [0.01, 0.01 if route else hidden])
        values[route, COLUMNS] = replies.sum(), asked.sum(), come.sum(), come[0]
    return values


@pytest.mark.parametrize(("decisions", "audits"), [(400, 1.0), (7_000, 0.05), (20_000, 0.05)])
def test_a_few_labels_missing_at_random_cost_hardly_a_green_cell(
    decisions: int, audits: float
) -> None:
    total = sum(states(decisions, audits, gap=0, hidden=0.01), Tally[State]())
    green = total[State.WITHIN_CONTRACT]
    assert green >= SLICES * WORLDS / 8
    assert green >= 0.9 * (green + total[State.MATURING])


@pytest.mark.parametrize("decisions", [7_000, 14_000, 40_000])
def test_labels_that_are_missing_only_where_replies_are_wrong_leave_nothing_green(
    decisions: int,
) -> None:
    hidden, others = states(decisions, 0.05, gap=0.2, hidden=0.6)
    assert hidden[State.WITHIN_CONTRACT] == 0
    assert hidden[State.MATURING] >= WORLDS / 3
    assert others[State.WITHIN_CONTRACT] > others[State.MATURING]
