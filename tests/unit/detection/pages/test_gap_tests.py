"""Gap streams hour by hour: which arm is which, what waits, and what is taken."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from answered import answered
from fleet_cells import coding, contract, limits

from monitor.core.contract import GroupBy
from monitor.core.counts.cells import Route
from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.detection.pages.cohort import SliceCohort
from monitor.detection.pages.declared import Comparisons, comparisons, declared_slices
from monitor.detection.pages.gap_tests import ALTERNATIVES, DIRECTIONS, HourlyGaps, add_hour
from monitor.detection.pages.projection import PairCounts, gap_log_e, pair_log_e, ratio_alternatives
from monitor.detection.pages.streams import Direction, StreamKind

CODING = coding(a="uvw")
METRICS = (Metric.TPR, Metric.FPR, Metric.BLOCKED, Metric.SELECTION)
RATIO = Fraction(4, 5)
LIMITED = replace(limits(), max_selection_gap=limits().max_blocked_gap, min_selection_ratio=RATIO)
LIMIT = 0.10
AUTO, REVIEW = 0, 1
SHAPE = (2, 2, 3)


def declared(
    metric: Metric, reference: str = "complement", kind: StreamKind = StreamKind.GAP
) -> tuple[HourlyGaps, Comparisons, list[str]]:
    group = GroupBy(("a",), reference)
    slices = declared_slices(group, CODING)
    found = comparisons(contract(group, of=LIMITED), group, metric, kind, CODING)
    return HourlyGaps.start(metric, found, slices), found, list(slices)


def cohort(seed: int, slices: int, mean: float = 3) -> SliceCohort:
    rng = np.random.default_rng(seed)
    ready = rng.poisson(mean, (slices, *SHAPE))
    labelled = ready + rng.poisson(mean, ready.shape)
    decisions = labelled + rng.poisson(mean, ready.shape)
    return answered(decisions, labelled, ready, rng.poisson(20, (slices, len(Route))))


def tally(one: SliceCohort, metric: Metric, rows: list[int]) -> tuple[int, int]:
    """Trials and hits of some slices, read one number at a time."""
    n = k = 0
    for row in rows:
        if metric in (Metric.BLOCKED, Metric.SELECTION):
            n += sum(int(one.routed[row, route]) for route in Route)
            blocked = metric is Metric.BLOCKED
            hit = Route.BLOCKED_BY_EVIDENCE if blocked else Route.AUTO_SERVE
            k += int(one.routed[row, hit])
            continue
        for route, rate, band in np.ndindex(SHAPE):
            ready = int(one.ready[row, route, rate, band])
            labelled = int(one.labelled[row, route, rate, band])
            found = ready if metric is Metric.TPR else labelled - ready
            n += found
            k += found if route == AUTO else 0
    return n, k


def expected(
    hours: list[SliceCohort], metric: Metric, row: int, others: list[int], direction: Direction
) -> Floats:
    """Hour by hour of a day; arm a has the higher rate if the breach is as the direction says."""
    trials, hits, total = 20.0, 20.0 * metric.row.usual, np.zeros(ALTERNATIVES)
    for one in hours:
        mine, theirs = tally(one, metric, [row]), tally(one, metric, others)
        slice_is_higher = (metric not in (Metric.TPR, Metric.SELECTION)) == (
            direction is Direction.SLICE_WORSE
        )
        a, b = (mine, theirs) if slice_is_higher else (theirs, mine)
        counts = PairCounts(*(np.array([x]) for x in (*a, *b)))
        total += gap_log_e(counts, np.array([hits / trials]), LIMIT)[0]
        if not metric.labelled:
            continue  # of one level a day
        new = mine[0] + theirs[0]
        old = 0.5 ** (new / 1000)
        trials, hits = trials * old + new, hits * old + mine[1] + theirs[1]
    return total


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("reference", ["complement", "a=v"])
def test_every_stream_is_bet_on_with_its_own_arms(metric: Metric, reference: str) -> None:
    gaps, found, slices = declared(metric, reference)
    hours = [cohort(seed, len(slices)) for seed in range(3)]
    for one in hours:
        assert add_hour([(gaps, one)])[0].all()
    taken = gaps.take(np.ones(len(gaps.rows), bool)).reshape(-1, ALTERNATIVES)
    assert len(taken) == len(found.streams)
    for stream, log_e in zip(found.streams, taken, strict=True):
        row = slices.index(stream.slice)
        named = reference != "complement"
        others = [slices.index(reference)] if named else [r for r in range(len(slices)) if r != row]
        assert log_e == pytest.approx(expected(hours, metric, row, others, stream.direction))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("direction", Direction)
def test_the_side_that_is_worse_off_is_told(metric: Metric, direction: Direction) -> None:
    """A lower TPR, a higher FPR, more that is blocked: in the slice, or in its reference."""
    gaps, found, slices = declared(metric)
    harmed, row = direction is Direction.SLICE_WORSE, slices.index("a=v")
    low = np.zeros(len(slices), bool)
    low[row] = True
    low = low == (harmed == (metric is Metric.TPR))  # whose rate is the low one
    hits = np.where(low, 20, 80)
    counts = np.zeros((len(slices), *SHAPE), np.int64)
    counts[:, AUTO, 0, 0], counts[:, REVIEW, 0, 0] = hits, 100 - hits
    nothing = np.zeros_like(counts)
    routed = np.stack([100 - hits, np.zeros_like(hits), hits], axis=1)
    add_hour(
        [(gaps, answered(counts, counts, counts if metric is Metric.TPR else nothing, routed))]
    )
    taken = gaps.take(np.arange(len(gaps.rows))).reshape(-1, ALTERNATIVES).max(axis=1)
    loudest = found.streams[int(taken.argmax())]
    assert (loudest.slice, loudest.direction) == ("a=v", direction)
    assert taken.max() > 20
    opposite = [
        log_e
        for stream, log_e in zip(found.streams, taken, strict=True)
        if stream.slice == "a=v" and stream.direction is not direction
    ]
    assert opposite[0] < 0


def test_slices_with_nothing_to_compare_wait() -> None:
    gaps, _, slices = declared(Metric.TPR)
    full = cohort(1, len(slices))
    empty = np.array([text in ("a=u", "a=__other__") for text in slices])
    for values in (full.labelled, full.ready):
        values[empty] = 0
    before = gaps.level.trials.copy()
    (found,) = add_hour([(gaps, full)])
    assert (found == ~empty[gaps.rows]).all()
    assert not gaps.waiting[~found].any()
    assert (gaps.level.trials[~found] == before[~found]).all()
    assert (gaps.level.trials[found] != before[found]).all()


def test_what_is_taken_waits_no_longer() -> None:
    gaps, _, slices = declared(Metric.BLOCKED)
    add_hour([(gaps, cohort(1, len(slices)))])
    all_of_it = gaps.waiting.copy()
    taken = gaps.take(np.array([0, 2]))
    assert taken.shape == (2, DIRECTIONS, ALTERNATIVES)
    assert (taken == all_of_it[[0, 2]]).all()
    assert not gaps.waiting[[0, 2]].any()
    assert (gaps.waiting[[1, 3]] == all_of_it[[1, 3]]).all()
    assert not gaps.take(np.array([0])).any()


def test_revived_for_other_slices_it_goes_on_for_those_it_knows() -> None:
    gaps, _, slices = declared(Metric.TPR)
    for seed in range(3):
        add_hour([(gaps, cohort(seed, len(slices)))])
    revived = declared(Metric.TPR)[0]
    new, old = np.array([3, 1]), np.array([0, 2])
    revived.restore("p", gaps.to_arrays("p"), (new, old))
    untouched = declared(Metric.TPR)[0]
    for mine, theirs in (
        (revived.waiting, gaps.waiting),
        (revived.level.trials, gaps.level.trials),
        (revived.level.hits, gaps.level.hits),
    ):
        assert (mine[new] == theirs[old]).all()
    assert not revived.waiting[[0, 2]].any()
    assert (revived.level.trials[[0, 2]] == untouched.level.trials[[0, 2]]).all()
    revived.restore("another", gaps.to_arrays("p"), (new, old))
    assert (revived.waiting[new] == gaps.waiting[old]).all()


def test_several_metrics_at_once_are_as_each_of_them_alone() -> None:
    """To the bit, also where of some slices or of a whole metric nothing can be compared."""
    together, alone = ([declared(metric)[0] for metric in METRICS] for _ in range(2))
    for seed in range(4):
        one = cohort(seed, 5)
        one.ready[: 2 * seed] = 0
        found = add_hour([(gaps, one) for gaps in together])
        for gaps, other, rows in zip(together, alone, found, strict=True):
            assert (rows == add_hour([(other, one)])[0]).all()
            assert gaps.waiting.tobytes() == other.waiting.tobytes()
            assert gaps.level.rate.tobytes() == other.level.rate.tobytes()
    assert found[0].sum() == 0 < found[1].sum()


@pytest.mark.parametrize("reference", ["complement", "a=v"])
def test_ratios_are_bet_on_with_the_arms_of_their_direction(reference: str) -> None:
    """Arm a is the side that is served more, where the other one is worse off."""
    ratios, found, slices = declared(Metric.SELECTION, reference, StreamKind.RATIO)
    one = cohort(1, len(slices))
    assert add_hour([(ratios, one)])[0].all()
    taken = ratios.take(np.ones(len(ratios.rows), bool)).reshape(-1, ALTERNATIVES)
    assert len(taken) == len(found.streams)
    for stream, log_e in zip(found.streams, taken, strict=True):
        row = slices.index(stream.slice)
        named = reference != "complement"
        others = [slices.index(reference)] if named else [r for r in range(len(slices)) if r != row]
        mine, theirs = (tally(one, Metric.SELECTION, rows) for rows in ([row], others))
        a, b = (theirs, mine) if stream.direction is Direction.SLICE_WORSE else (mine, theirs)
        counts = PairCounts(*(np.array([x]) for x in (*a, *b)))
        rates = ratio_alternatives(counts, np.array([Metric.SELECTION.row.usual]), float(RATIO))
        wanted = pair_log_e(counts, rates, 0.0, 1 / float(RATIO))
        assert log_e == pytest.approx(wanted[0])


def test_gaps_and_ratios_at_once_are_as_each_alone() -> None:
    made = [(Metric.SELECTION, kind) for kind in (StreamKind.GAP, StreamKind.RATIO)]
    together, alone = ([declared(m, kind=kind)[0] for m, kind in made] for _ in range(2))
    for seed in range(4):
        one = cohort(seed, 5)
        add_hour([(gaps, one) for gaps in together])
        for gaps, other in zip(together, alone, strict=True):
            add_hour([(other, one)])
            assert gaps.waiting.tobytes() == other.waiting.tobytes()
    assert together[0].waiting.tobytes() != together[1].waiting.tobytes()
