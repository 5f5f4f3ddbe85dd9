"""Rows of the same labels, after others: what is kept of them is what they would be made of."""

from __future__ import annotations

import numpy as np
from cubes import LIMITS
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import COUNTERS, Counter, Route, Stratum
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.privacy.bands import Precision
from monitor.core.privacy.guards import opened
from monitor.core.publish.rows import BuiltRows, LabelledRows, Policy, Rolled, build_rows

SLICES = ("channel=a", "channel=b", "channel=c")
STRATA = np.array(
    sorted(Stratum(route, 0, rate).code for route in Route for rate in (0, 1)), np.int64
)
POLICY = Policy(LIMITS, Coding((), (), (1.0, 0.1)), Precision(11))
cells = st.lists(
    st.integers(0, 400), min_size=len(SLICES) * len(STRATA), max_size=len(SLICES) * len(STRATA)
)


def counted(decisions: list[int], share: float) -> SliceCounts:
    n = np.array(decisions, np.int64).reshape(len(SLICES), len(STRATA))
    values = np.zeros((*n.shape, COUNTERS), np.int64)
    values[..., Counter.N] = values[..., Counter.Q] = n
    values[..., Counter.LABELLED] = (n * share).astype(np.int64)
    values[..., Counter.READY] = values[..., Counter.LABELLED] // 2
    return SliceCounts(SLICES, STRATA, values)


@settings(max_examples=examples(60), deadline=None)
@given(
    cells,
    cells,
    cells,
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([COMPLEMENT, SLICES[0], None]),
    st.booleans(),
)
def test_decisions_that_come_later_change_nothing_of_kept_labels(  # noqa: PLR0917
    before: list[int],
    now: list[int],
    labels: list[int],
    share: float,
    reference: str | None,
    decides: bool,
) -> None:
    labelled = counted(labels, share)

    def built(decisions: list[int], known: LabelledRows | None, *, deciding: bool) -> BuiltRows:
        rolled = Rolled(counted(decisions, 1.0), labelled)
        guard = opened(rolled.decisions, labelled, POLICY.precision.k)
        return build_rows(POLICY, rolled, guard, reference, decides=deciding, before=known)

    known = built(before, None, deciding=True).labelled
    alone, after = (built(now, kept, deciding=decides) for kept in (None, known))
    assert (after.rows, after.spreads) == (alone.rows, alone.spreads)
