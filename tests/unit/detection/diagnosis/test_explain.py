"""What crossings are explained by: laws, small worlds by hand, and all sets of causes tried."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from fleet_cells import Cells, Traffic, coding, contract, limits

from monitor.core.contract import Contract, GroupBy, OwnLimits
from monitor.core.counts.cells import Counts, merge
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import roll_up
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Share
from monitor.core.rates.estimates import estimate
from monitor.detection.diagnosis.atom_rates import AtomRates, AtomTrials
from monitor.detection.diagnosis.cause_search import AtomHarm, Candidates, Fit, Search
from monitor.detection.diagnosis.explain import EVERYTHING, BreachCause, Explanation, _Gap, explain
from monitor.detection.pages.declared import all_streams
from monitor.detection.pages.streams import Direction, Stream, StreamKind

WORSE, BETTER = Direction.SLICE_WORSE, Direction.REFERENCE_WORSE
CODING = coding(a="uvw", b="xyz", c="pq")
ATOMS = tuple(f"a={a},b={b}" for a in "uvw" for b in "xyz")
CELLS = Cells(ATOMS)
FOUR = Cells(tuple(f"a={a},b={b}" for a in "uv" for b in "xy"))
BY_A, BY_B, BOTH = GroupBy(("a",)), GroupBy(("b",)), GroupBy(("a", "b"))
ALL = contract(BY_A, BY_B, BOTH)
USUAL, BAD, WORST = 0.85, 0.62, 0.4


def within(slice_: str, atoms: Sequence[str] = ATOMS) -> npt.NDArray[np.bool_]:
    """Which atoms are in a slice."""
    wanted = set(slice_.split(","))
    return np.array([wanted <= set(atom.split(",")) for atom in atoms])


def tpr(*bad: str, rate: float = BAD, atoms: Sequence[str] = ATOMS) -> npt.NDArray[np.float64]:
    """The TPR of every atom, where some slices are treated otherwise."""
    inside = np.any([np.zeros(len(atoms), bool), *(within(text, atoms) for text in bad)], axis=0)
    return np.where(inside, rate, USUAL)


def day(traffic: Traffic, seed: int = 0, cells: Cells = CELLS) -> Counts:
    return cells.hour(np.random.default_rng(seed), traffic)


def days(rates: npt.ArrayLike, seed: int = 0, n: int = 3, cells: Cells = CELLS) -> list[Counts]:
    return [day(Traffic(hourly=150, tpr=rates), seed + 100 * i, cells) for i in range(n)]


def stream(
    text: str, direction: Direction = WORSE, *, of: Contract = ALL, level: bool = False
) -> Stream:
    """The TPR stream of a slice."""
    kind = StreamKind.LEVEL if level else StreamKind.GAP
    (found,) = (
        one
        for one in all_streams([of], CODING)
        if (one.slice, one.direction, one.metric, one.kind) == (text, direction, Metric.TPR, kind)
    )
    return found


def explained(
    crossed: Collection[Stream],
    panes: Sequence[Counts],
    of: Contract = ALL,
    cells: Cells = CELLS,
    coded: Coding = CODING,
) -> Explanation:
    return explain(crossed, of, coded, panes, cells.index)


def named(found: Explanation) -> list[tuple[str, Direction]]:
    return [(cause.slice, cause.direction) for cause in found.causes]


INHERITED = [stream("a=u"), stream("b=x"), stream("a=v", BETTER), stream("a=w,b=z", BETTER)]


@pytest.mark.parametrize("seed", range(10))
def test_what_contains_a_bad_slice_or_is_compared_with_it_only_inherits_it(seed: int) -> None:
    crossed = [stream("a=u,b=x"), *INHERITED]
    found = explained(crossed, days(tpr("a=u,b=x", rate=WORST), seed))
    assert found.causes == (
        BreachCause("a+b", "a=u,b=x", WORSE, Share.MOST, tuple(sorted(crossed))),
    )


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("crossed", [["a=u"], ["a=u,b=y"], ["a=u", "a=u,b=x", "a=u,b=z"]])
def test_a_slice_whose_children_are_alike_is_named_whatever_crossed(
    crossed: list[str], seed: int
) -> None:
    """Though its biggest child holds most of the excess."""
    big = np.where(within("b=x"), 400, 60)
    panes = [day(Traffic(hourly=big, tpr=tpr("a=u")), seed + i) for i in range(3)]
    found = explained([stream(text) for text in crossed], panes)
    assert named(found) == [("a=u", WORSE)]
    assert found.causes[0].share is Share.MOST


@pytest.mark.parametrize("seed", range(10))
def test_the_smallest_slice_is_named_though_it_has_not_crossed(seed: int) -> None:
    panes = days(tpr("a=u,b=x", atoms=FOUR.atoms), seed, n=6, cells=FOUR)
    found = explained([stream("a=v", BETTER)], panes, cells=FOUR)
    assert named(found) == [("a=u,b=x", WORSE)]


@pytest.mark.parametrize("seed", range(10))
def test_two_causes_come_out_as_two_and_share_their_marginals(seed: int) -> None:
    crossed = [stream(text) for text in ("a=u,b=x", "a=v,b=y", "a=u", "b=y", "a=v")]
    found = explained(crossed, days(tpr("a=u,b=x", "a=v,b=y"), seed))
    assert named(found) == [("a=u,b=x", WORSE), ("a=v,b=y", WORSE)]
    first, second = found.causes
    assert {one.slice for one in first.streams} == {"a=u,b=x", "a=u"}
    assert {one.slice for one in second.streams} == {"a=v,b=y", "a=v", "b=y"}
    assert sorted(first.streams + second.streams) == sorted(crossed)


@pytest.mark.parametrize("seed", range(10))
def test_a_cause_that_has_not_crossed_is_not_named(seed: int) -> None:
    found = explained([stream("a=u,b=x")], days(tpr("a=u,b=x", "a=v,b=y"), seed))
    assert named(found) == [("a=u,b=x", WORSE)]


@pytest.mark.parametrize("seed", range(5))
def test_two_of_three_children_are_not_their_parent(seed: int) -> None:
    crossed = [stream("a=u"), stream("a=u,b=x"), stream("a=u,b=y")]
    found = explained(crossed, days(tpr("a=u,b=x", "a=u,b=y"), seed, n=20))
    assert named(found) == [("a=u,b=x", WORSE), ("a=u,b=y", WORSE)]


@pytest.mark.parametrize("seed", range(5))
def test_a_slice_that_is_better_off_is_the_cause_if_all_others_are_alike(seed: int) -> None:
    rates = np.where(within("a=u"), 0.95, 0.72)
    crossed = [stream("a=u", BETTER), stream("a=v"), stream("a=w,b=x")]
    found = explained(crossed, days(rates, seed))
    assert named(found) == [("a=u", BETTER)]
    assert found.causes[0].share is Share.MOST


@pytest.mark.parametrize("seed", range(5))
def test_of_two_slices_the_worse_one_is_named(seed: int) -> None:
    panes = days(tpr("a=u", atoms=FOUR.atoms), seed, cells=FOUR)
    found = explained([stream("a=v", BETTER)], panes, cells=FOUR)
    assert named(found) == [("a=u", WORSE)]


@pytest.mark.parametrize("seed", range(5))
def test_a_reference_that_is_badly_served_itself_is_named(seed: int) -> None:
    """It has no stream of its own: all others are better off than it."""
    of = contract(BY_A, GroupBy(("b",), "b=x"))
    crossed = [stream("b=y", BETTER, of=of), stream("b=z", BETTER, of=of)]
    found = explained(crossed, days(tpr("b=x"), seed), of)
    assert found.causes == (BreachCause("b", "b=x", WORSE, Share.MOST, tuple(crossed)),)


@pytest.mark.parametrize("seed", range(5))
def test_other_requests_in_a_slice_are_explained_by_those_requests(seed: int) -> None:
    """What is badly served is b=x; a=u only has more of it."""
    hourly = np.where(within("a=u"), np.where(within("b=x"), 400, 20), 150)
    panes = [day(Traffic(hourly=hourly, tpr=tpr("b=x")), seed + i) for i in range(3)]
    of = contract(BY_A, BY_B)
    found = explained([stream("a=u", of=of), stream("b=x", of=of)], panes, of)
    assert named(found) == [("b=x", WORSE)]


@pytest.mark.parametrize("seed", range(5))
def test_without_smaller_slices_declared_the_crossed_one_is_its_own_cause(seed: int) -> None:
    of = contract(BY_A)
    found = explained([stream("a=u", of=of)], days(tpr("a=u,b=x"), seed), of)
    assert named(found) == [("a=u", WORSE)]


@pytest.mark.parametrize("seed", range(5))
def test_what_nothing_explains_is_its_own_cause_each_for_itself(seed: int) -> None:
    crossed = [stream("a=u"), stream("b=z", BETTER), stream("a=v,b=y")]
    found = explained(crossed, days(tpr(), seed))
    assert named(found) == [("a=u", WORSE), ("a=v,b=y", WORSE), ("b=z", BETTER)]
    assert all(len(cause.streams) == 1 for cause in found.causes)


@pytest.mark.parametrize("of", [ALL, contract(GroupBy(("a",), "a=u"))], ids=["two", "named"])
def test_what_nothing_explains_names_the_worse_side_if_that_is_one_slice(of: Contract) -> None:
    cells = FOUR if of is ALL else CELLS
    found = explained(
        [stream("a=v", BETTER, of=of)], days(tpr(atoms=cells.atoms), cells=cells), of, cells
    )
    assert named(found) == [("a=u", WORSE)]


def test_a_slice_without_decisions_is_its_own_cause() -> None:
    cells = Cells(ATOMS[:6])
    crossed = [stream("a=w"), stream("a=u,b=x")]
    panes = days(tpr("a=u,b=x", atoms=cells.atoms), cells=cells)
    found = explained(crossed, panes, cells=cells)
    assert named(found) == [("a=w", WORSE), ("a=u,b=x", WORSE)]


@pytest.mark.parametrize("panes", [[Counts.empty()], [Counts.empty()] * 3])
def test_without_any_decision_every_crossing_is_its_own_cause(panes: list[Counts]) -> None:
    crossed = [stream("a=u"), stream("a=v"), stream("a=v", BETTER)]
    found = explained(crossed, panes)
    assert named(found) == [("a=u", WORSE), ("a=v", BETTER), ("a=v", WORSE)]


LEVELS = contract(BY_A, BY_B, BOTH, of=limits(floor="0.75"))


@pytest.mark.parametrize("seed", range(5))
def test_levels_that_all_are_below_have_one_cause_that_lies_in_no_slice(seed: int) -> None:
    crossed = [stream(text, of=LEVELS, level=True) for text in ("a=u", "b=x", "a=w,b=z")]
    found = explained(crossed, days(np.full(9, BAD), seed), LEVELS)
    everything = BreachCause(EVERYTHING, EVERYTHING, WORSE, Share.MOST, tuple(sorted(crossed)))
    assert found.causes == (everything,)


@pytest.mark.parametrize("seed", range(5))
def test_a_level_of_one_slice_alone_is_never_said_of_all_decisions(seed: int) -> None:
    own = OwnLimits("a", "a=u", (("min_tpr", Fraction("0.75")),))
    of = replace(contract(BY_A, BY_B, BOTH), own_limits=(own,))
    crossed = [stream("a=u", of=of, level=True)]
    assert named(explained(crossed, days(np.full(9, BAD), seed), of)) == [("a=u", WORSE)]


@pytest.mark.parametrize("seed", range(5))
def test_a_level_and_a_gap_of_one_slice_have_one_cause(seed: int) -> None:
    crossed = [
        stream("a=u,b=x", of=LEVELS),
        stream("a=u,b=x", of=LEVELS, level=True),
        stream("a=u", of=LEVELS, level=True),
    ]
    found = explained(crossed, days(tpr("a=u,b=x", rate=WORST), seed), LEVELS)
    assert named(found) == [("a=u,b=x", WORSE)]
    assert len(found.causes[0].streams) == 3


@pytest.mark.parametrize("seed", range(5))
def test_a_level_that_only_one_slice_is_below_is_its_own(seed: int) -> None:
    """Within the limit of the gap, so that no slice is treated otherwise."""
    of = replace(LEVELS, limits=replace(LEVELS.limits, min_tpr=Fraction("0.82")))
    rates = np.where(within("a=u"), 0.81, USUAL)
    found = explained([stream("a=u", of=of, level=True)], days(rates, seed), of)
    assert named(found) == [("a=u", WORSE)]


@pytest.mark.parametrize("metric", [Metric.FPR, Metric.BLOCKED])
@pytest.mark.parametrize("seed", range(5))
def test_other_metrics_are_harmed_by_more(metric: Metric, seed: int) -> None:
    usual, bad = (0.15, 0.40) if metric is Metric.FPR else (0.05, 0.25)
    rates = np.where(within("a=u,b=x"), bad, usual)
    usual_traffic = Traffic(hourly=400)
    fpr = metric is Metric.FPR
    traffic = replace(usual_traffic, fpr=rates) if fpr else replace(usual_traffic, blocked=rates)
    panes = [day(traffic, seed + 10 * i) for i in range(4)]
    crossed = [
        replace(stream(text, way), metric=metric)
        for text, way in (("a=u,b=x", WORSE), ("b=x", WORSE), ("b=y", BETTER))
    ]
    assert named(explained(crossed, panes)) == [("a=u,b=x", WORSE)]


@pytest.mark.parametrize("seed", range(5))
def test_a_slice_of_which_more_is_served_unready_is_named_for_its_precision(seed: int) -> None:
    traffic = Traffic(hourly=400, fpr=np.where(within("a=u,b=x"), 0.6, 0.1))
    panes = [day(traffic, seed + 10 * i) for i in range(4)]
    of = replace(ALL, limits=replace(ALL.limits, max_precision_gap=Fraction(1, 20)))
    crossed = [
        replace(stream(text, way), metric=Metric.PRECISION)
        for text, way in (("a=u,b=x", WORSE), ("b=x", WORSE), ("b=y", BETTER))
    ]
    assert named(explained(crossed, panes, of)) == [("a=u,b=x", WORSE)]


@pytest.mark.parametrize("seed", range(5))
def test_only_what_was_decided_since_the_gap_arose_is_looked_at(seed: int) -> None:
    """Another slice had been badly served before."""
    panes = days(tpr("a=v", "b=z"), seed, n=5) + days(tpr("a=u,b=x"), seed + 50, n=2)
    found = explained([stream("a=u,b=x")], panes)
    assert found.since == 5
    assert named(found) == [("a=u,b=x", WORSE)]


@pytest.mark.parametrize("seed", range(5))
def test_order_and_filing_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    panes = days(tpr("a=u,b=x", "b=z"), seed)
    crossed = [stream("a=u,b=x"), stream("b=z"), *INHERITED]
    found = explained(crossed, panes)
    turned = [crossed[i] for i in rng.permutation(len(crossed))]
    assert explained([*turned, crossed[0]], panes) == found
    cut = [_cut(pane, rng) for pane in panes]
    assert any(len(pane.keys) > len(whole.keys) for pane, whole in zip(cut, panes, strict=True))
    assert explained(crossed, cut) == found


def _cut(pane: Counts, rng: np.random.Generator) -> Counts:
    """Whole cells by another version."""
    moved = rng.random(len(pane.keys)) < 0.5
    part = pane.values // 2 * moved[:, None]
    return merge([CELLS.renewed(Counts(pane.keys, part)), Counts(pane.keys, pane.values - part)])


@pytest.mark.parametrize("seed", range(5))
def test_names_are_only_names(seed: int) -> None:
    """Values in another order, and atoms with them."""
    order = np.random.default_rng(seed).permutation(3)
    swap = dict(zip("uvw", np.array(list("uvw"))[order], strict=True))
    cells = Cells(tuple(f"a={swap[text[2]]}{text[3:]}" for text in ATOMS))
    crossed = [stream("a=u,b=x"), *INHERITED]
    there = [stream(_renamed(one.slice, swap), one.direction) for one in crossed]
    rates = tpr("a=u,b=x", rate=WORST)
    (here,) = explained(crossed, days(rates, seed)).causes
    (other,) = explained(there, days(rates, seed, cells=cells), cells=cells).causes
    assert other.slice == _renamed(here.slice, swap)
    assert other.share is here.share


def _renamed(text: str, swap: dict[str, str]) -> str:
    return f"a={swap[text[2]]}{text[3:]}" if text.startswith("a=") else text


@pytest.mark.parametrize("times", [2, 10])
@pytest.mark.parametrize("seed", range(3))
def test_more_of_the_same_names_the_same(times: int, seed: int) -> None:
    panes = days(tpr("a=u,b=x", "b=z"), seed)
    crossed = [stream("a=u,b=x"), stream("b=z"), *INHERITED]
    larger = [Counts(pane.keys, times * pane.values) for pane in panes]
    assert explained(crossed, larger) == explained(crossed, panes)


@pytest.mark.parametrize("seed", range(3))
def test_atoms_without_decisions_change_nothing(seed: int) -> None:
    panes = days(tpr("a=u,b=x"), seed)
    more = Cells((*ATOMS, "a=u,b=x,c=q", "c=p"))
    padded = [
        Counts(
            more.index.cells,
            np.array([_row(pane, cell) for cell in more.index.cells.tolist()], np.int64),
        )
        for pane in panes
    ]
    crossed = [stream("a=u,b=x"), *INHERITED]
    found = explain(crossed, ALL, CODING, padded, more.index)
    assert found == explained(crossed, panes)


def _row(pane: Counts, cell: int) -> npt.NDArray[np.int64]:
    at = np.flatnonzero(pane.keys == cell)
    return pane.values[at[0]] if len(at) else np.zeros(pane.values.shape[1], np.int64)


def test_nothing_crossed_needs_no_explanation() -> None:
    assert explained([], days(tpr())) == Explanation(0, ())


def test_crossings_are_of_one_contract_and_metric() -> None:
    mine = stream("a=u")
    with pytest.raises(ValueError, match="of one metric"):
        explained([mine, replace(mine, metric=Metric.FPR)], days(tpr()))
    with pytest.raises(ValueError, match="of the contract that is given"):
        explained([mine, replace(mine, contract="other")], days(tpr()))


def searched(rates: npt.NDArray[np.float64], seed: int) -> Search:
    found = AtomRates.from_panes(days(rates, seed), CELLS.index, ("a", "b"), CODING, Metric.TPR)
    candidates = Candidates.for_group_bys(found.atoms, [("a",), ("b",), ("a", "b")])
    return Search(AtomHarm.from_trials(found.trials.since(0), 0.1), candidates, 0.1)


@pytest.mark.parametrize("seed", range(12))
def test_the_search_finds_the_best_of_all_sets_of_two(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bad = rng.choice([*ATOMS, "a=u", "a=v", "b=x", "b=z"], int(rng.integers(3)), replace=False)
    search = searched(tpr(*bad) + rng.uniform(-0.03, 0.03, 9), seed)
    best = max(
        (search.fit(rows) for n in range(3) for rows in combinations(range(15), n)),
        key=lambda fit: fit.value,
    )
    found = search.run()
    assert found.value >= best.value - 1e-6 or not _does_much(best)


def _does_much(fit: Fit) -> bool:
    """Every cause does what the contract minds."""
    harm = [np.abs(fit.harm_of(i)[fit.design[i] > 0]).mean() for i in range(len(fit.causes))]
    return min(harm, default=1) >= 0.05


@pytest.mark.parametrize("seed", range(5))
def test_effects_are_the_likeliest(seed: int) -> None:
    """Of no other effects nearby is the likelihood, with its prior, larger."""
    rng = np.random.default_rng(seed)
    found = AtomRates.from_panes(
        days(tpr("a=u"), seed), CELLS.index, ("a", "b"), CODING, Metric.TPR
    )
    evidence = AtomHarm.from_trials(found.trials.since(0), 0.1)
    candidates = Candidates.for_group_bys(found.atoms, [("a",), ("b",), ("a", "b")])
    fit = Search(evidence, candidates, 0.1).fit((0, 4, 10))

    def likelihood(base: float, effects: npt.NDArray[np.float64]) -> float:
        odds = base + effects @ fit.design
        own = evidence.harmed @ odds - evidence.trials @ np.log1p(np.exp(odds))
        return float(own - (effects**2).sum() / 8)

    best = likelihood(fit.base, fit.effects)
    for _ in range(50):
        step = rng.normal(0, 0.05, 4)
        assert likelihood(fit.base + step[0], fit.effects + step[1:]) <= best + 1e-9


@pytest.mark.parametrize(
    "metric", [Metric.TPR, Metric.FPR, Metric.BLOCKED, Metric.SELECTION, Metric.PRECISION]
)
def test_with_every_decision_labelled_atoms_are_counted(metric: Metric) -> None:
    pane = _all_labelled(day(Traffic(hourly=200)))
    rates = AtomRates.from_panes([pane], CELLS.index, ("a", "b"), CODING, metric).trials.since(0)
    plain = estimate(roll_up(pane, CELLS.index, ("a", "b")), CODING, metric)
    harmed = plain.misses if metric.harmed_by_less else plain.hits
    assert rates.harmed == pytest.approx(harmed)
    assert rates.total == pytest.approx(plain.hits + plain.misses)
    assert rates.support == pytest.approx(plain.support)


def _all_labelled(pane: Counts) -> Counts:
    values = pane.values.copy()
    values[:, 2] = values[:, 0]
    values[:, 3] = values[:, 0] * 7 // 10
    return Counts(pane.keys, values)


@pytest.mark.parametrize("metric", [Metric.TPR, Metric.FPR, Metric.PRECISION])
def test_with_many_audits_atoms_have_the_published_rates(metric: Metric) -> None:
    """What is borrowed from other atoms is then nothing, and as sure as theirs."""
    pane = day(Traffic(hourly=300_000, audit=1))
    rates = AtomRates.from_panes([pane], CELLS.index, ("a", "b"), CODING, metric).trials.since(0)
    plain = estimate(roll_up(pane, CELLS.index, ("a", "b")), CODING, metric)
    shown = 1 - rates.rate if metric.harmed_by_less else rates.rate
    assert shown == pytest.approx(plain.value, abs=0.001)
    assert rates.support == pytest.approx(plain.support, rel=0.02)


@pytest.mark.parametrize("metric", [Metric.TPR, Metric.FPR])
def test_the_variance_of_an_atoms_rate_is_that_of_chance(metric: Metric) -> None:
    """With few audits and rates that are alike; what an atom borrows makes it no less sure."""
    cells = Cells(ATOMS)
    found = [
        AtomRates.from_panes(
            [day(Traffic(hourly=400), seed, cells)], cells.index, ("a", "b"), CODING, metric
        ).trials.since(0)
        for seed in range(150)
    ]
    spread = np.std([trials.rate for trials in found], axis=0).mean()
    told = np.sqrt(np.mean([trials.variance for trials in found]))
    assert spread <= told * 1.05
    assert spread >= told * (0.7 if metric is Metric.TPR else 0.35)


def test_panes_are_counted_from_each_on() -> None:
    panes = days(tpr("a=u"), n=4)
    since = AtomRates.from_panes(panes, CELLS.index, ("a", "b"), CODING, Metric.TPR)
    for first in range(4):
        alone = AtomRates.from_panes(panes[first:], CELLS.index, ("a", "b"), CODING, Metric.TPR)
        assert since.trials.since(first).rate == pytest.approx(alone.trials.since(0).rate)


RATIO = contract(BY_A, BY_B, BOTH, of=replace(limits(), min_selection_ratio=Fraction(4, 5)))


def ratio_stream(text: str, direction: Direction = WORSE) -> Stream:
    (found,) = (
        one
        for one in all_streams([RATIO], CODING)
        if (one.slice, one.direction, one.kind) == (text, direction, StreamKind.RATIO)
    )
    return found


@pytest.mark.parametrize("seed", range(5))
def test_crossings_of_a_ratio_are_explained_by_the_slice_that_is_served_less(seed: int) -> None:
    crossed = [ratio_stream("a=u"), ratio_stream("a=u,b=x"), ratio_stream("a=v", BETTER)]
    rates = np.where(within("a=u,b=x"), 0.1, USUAL)
    panes = [
        day(
            Traffic(hourly=400, tpr=rates, fpr=np.where(within("a=u,b=x"), 0.02, 0.1)),
            seed + 10 * i,
        )
        for i in range(3)
    ]
    found = explained(crossed, panes, RATIO)
    assert named(found) == [("a=u,b=x", WORSE)]
    assert found.causes[0].streams == tuple(sorted(crossed))


def test_the_excess_of_a_ratio_is_what_is_beyond_it() -> None:
    """Served .4 against .8, a limit of .8: of harm .6 are beyond .2 and .8 of the others' .2."""
    counts = np.array([1_000.0, 1_000.0])
    harmed = counts * [0.6, 0.2]
    trials = AtomTrials(harmed, counts - harmed, harmed, counts - harmed)
    gap = _Gap(ratio_stream("a=u"), None, np.array([True, False]), np.array([False, True]))
    excess, variance = gap.excess(trials)
    assert excess == pytest.approx(0.6 - 0.8 * 0.2 - 0.2)
    worse, better = trials.within(gap.worse), trials.within(gap.better)
    assert variance == pytest.approx(worse.variance + 0.64 * better.variance)
    assert gap.mean(np.array([0.4, 0.0]), counts) == pytest.approx(0.4)
    assert gap.mean(np.array([0.0, 0.4]), counts) == pytest.approx(-0.32)
