"""The tests of one group-by: when they bet, on what, and what settings that change leave of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from fleet_cells import MONDAY, Cells, Traffic, coding, contract, limits

from monitor.core.contract import Contract, GroupBy, OwnLimits
from monitor.core.counts.cells import Counter, Counts
from monitor.core.counts.coding import Coding
from monitor.core.metric import Metric
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.group import BATCH, GroupTests
from monitor.detection.pages.page_tests import HourCohort, PageTests
from monitor.detection.pages.stream_group import COHORT_DAYS
from monitor.detection.pages.streams import Stream

CODING = coding(a="uvw")
LEVELS = limits(floor="0.70", ceiling="0.30")
BY_A = GroupBy(("a",))
ALL = Cells(("a=u", "a=v", "a=w"))
TWO = Cells(("a=u", "a=v"))
LABELLED_GAPS = ("gap.tpr", "gap.fpr")
DAY = 24


def start(
    contract_: Contract | None = None, coding_: Coding = CODING, cluster_size: int = 1
) -> PageTests:
    return PageTests.start(
        DetectorSettings([contract_ or contract(BY_A, of=LEVELS)], coding_, cluster_size)
    )


def play(
    fleet: PageTests,
    hours: range,
    traffic: Traffic | None = None,
    cells: Cells = ALL,
    seed: int = 0,
) -> GroupTests:
    """Hours have their own seeds, so that the same hours bring the same decisions."""
    for hour in hours:
        rng = np.random.default_rng((seed, hour))
        counts = cells.hour(rng, traffic or Traffic())
        fleet.advance([HourCohort(MONDAY + hour, counts)], cells.index)
    (group,) = fleet.groups.values()
    return group


def test_a_slice_without_decisions_stays_without_evidence_and_keeps_its_clock() -> None:
    group = play(start(), range(3 * DAY), cells=TWO)
    for name, watch in group.watches.items():
        silent = np.array([one.slice in ("a=w", "a=__other__") for one in watch.streams])
        assert np.isneginf(watch.mixture.statistic()[silent]).all(), name
        assert watch.mixture.pending[silent] == pytest.approx(3), name
        assert np.isfinite(watch.mixture.statistic()[~silent]).all(), name


def test_without_decisions_of_the_reference_no_gap_is_bet_on_and_levels_are() -> None:
    fleet = start(contract(GroupBy(("a",), "a=w"), of=LEVELS))
    group = play(fleet, range(3 * DAY), cells=TWO)
    for name, watch in group.watches.items():
        if name.startswith("gap."):
            assert np.isneginf(watch.mixture.log_r).all(), name
            assert watch.mixture.pending == pytest.approx(3), name
    assert np.isfinite(group.levels[Metric.TPR].mixture.statistic()).sum() == 2


def test_what_was_without_decisions_begins_with_all_its_clock_once_it_has_some() -> None:
    fleet = start()
    play(fleet, range(3 * DAY), cells=TWO)
    group = play(fleet, range(3 * DAY, 5 * DAY + 1))
    for watch in group.watches.values():
        rows = [row for row, one in enumerate(watch.streams) if one.slice == "a=w"]
        assert (watch.mixture.pending[rows] < 1 + 2 * COHORT_DAYS).all()
        assert np.isfinite(watch.mixture.statistic()[rows]).all()


@pytest.mark.parametrize(("hourly", "batched"), [(BATCH / 3 / DAY, False), (BATCH / 3, True)])
def test_gaps_under_sampled_labels_are_bet_on_by_the_thousand_or_at_the_days_end(
    hourly: float, batched: bool
) -> None:
    fleet = start()
    group = play(fleet, range(DAY), Traffic(hourly=hourly))
    rows = slice(2, None)  # without __other__
    for name in LABELLED_GAPS:
        some = np.isfinite(group.watches[name].mixture.statistic()[rows])
        assert some.all() == some.any() == batched, name
    for name in ("gap.blocked", "level.tpr", "level.fpr"):
        assert group.watches[name].mixture.pending[rows] == pytest.approx(0), name
    play(fleet, range(DAY, DAY + 1), Traffic(hourly=hourly))
    for name in LABELLED_GAPS:
        mixture = group.watches[name].mixture
        assert np.isfinite(mixture.statistic()[rows]).all()
        assert mixture.pending[rows] == pytest.approx(COHORT_DAYS), "the new day's first hour"


def test_what_bets_use_is_learnt_once_a_day_from_the_days_before() -> None:
    fleet = start()
    group = play(fleet, range(DAY + 1))
    known = group.ready.to_arrays()
    assert known["labelled"].sum() > 0
    play(fleet, range(DAY + 1, 2 * DAY), Traffic(tpr=0.2, ready=0.1))
    same = group.ready.to_arrays()
    assert all((known[name] == same[name]).all() for name in known)
    play(fleet, range(2 * DAY, 2 * DAY + 1))
    assert group.ready.labelled.sum() > known["labelled"].sum()


@pytest.mark.parametrize("size", [2, 7])
def test_evidence_is_divided_by_the_largest_number_of_decisions_that_hang_together(
    size: int,
) -> None:
    """Seen in the first bet of all: later mixtures add starting times up.

    Only labels that are compared by themselves are bet on before anything was learnt.
    """
    labelled = Traffic(audit=0)
    one, many = (play(start(cluster_size=m), range(DAY + 1), labelled) for m in (1, size))
    for name in LABELLED_GAPS:
        mixtures = [group.watches[name].mixture for group in (one, many)]
        begun = [np.isfinite(mixture.log_r) for mixture in mixtures]
        assert (begun[0] == begun[1]).all()
        assert begun[0].any()
        used = begun[0].any(axis=0)
        mass = np.log(1 / used.sum())  # one day over all alternatives that are bet on
        log_e = [mixture.log_r[begun[0]] - mass for mixture in mixtures]
        assert log_e[1] == pytest.approx(log_e[0] / size, abs=1e-9)
        assert np.abs(log_e[0]).max() > 0.1


CHANGES = {
    "reference": contract(GroupBy(("a",), "a=w"), of=LEVELS),
    "limit": contract(BY_A, of=limits("0.05", "0.70", "0.30")),
}


@pytest.mark.parametrize("change", ["reference", pytest.param("limit", marks=pytest.mark.full)])
def test_a_new_stream_is_not_bet_on_what_came_before_it_was_declared(change: str) -> None:
    """Declared at noon: what the morning brought may differ, the new streams do not."""
    found = []
    for seed, tpr in ((1, 0.95), (2, np.array([0.95, 0.2, 0.6]))):
        fleet = start()
        play(fleet, range(DAY))
        play(fleet, range(DAY, DAY + 12), Traffic(tpr=tpr), seed=seed)
        old = set(fleet.streams)
        fleet = PageTests.start(DetectorSettings([CHANGES[change]], CODING), parts=fleet.parts())
        group = play(fleet, range(DAY + 12, 2 * DAY + 1))
        for name in LABELLED_GAPS:
            watch = group.watches[name]
            assert not old & set(watch.streams)
            assert np.isfinite(watch.mixture.log_r).any()
            found.append(watch.mixture.log_r)
    for first, second in zip(found[:2], found[2:], strict=True):
        assert (first == second).all()


def test_a_value_that_is_listed_later_leaves_the_evidence_of_the_others() -> None:
    fleet = start(coding_=coding(a="uv"))
    group = play(fleet, range(2 * DAY + 12), cells=TWO)
    before = {
        one: watch.mixture.log_r[row]
        for watch in group.watches.values()
        for row, one in enumerate(watch.streams)
    }
    parts = fleet.parts()
    fleet = PageTests.start(fleet.settings, parts=parts)
    (after,) = fleet.groups.values()
    for watch in after.watches.values():
        for row, one in enumerate(watch.streams):
            kept = before.get(one)
            assert (one.slice == "a=w") == (kept is None)
            expected = np.full(watch.mixture.log_r.shape[1], -np.inf) if kept is None else kept
            assert (watch.mixture.log_r[row] == expected).all()
    learnt = dict(zip(group.slices, group.ready.labelled.sum(axis=(1, 2, 3)), strict=True))
    for text, labelled in zip(after.slices, after.ready.labelled.sum(axis=(1, 2, 3)), strict=True):
        assert labelled == learnt.get(text, 0)
    play(fleet, range(2 * DAY + 12, 4 * DAY))


def test_an_hour_without_anything_moves_the_clock_alone() -> None:
    fleet = start()
    group = play(fleet, range(DAY + 12))
    before = {name: watch.mixture.to_arrays() for name, watch in group.watches.items()}
    fleet.advance([HourCohort(MONDAY + DAY + 12, Counts.empty())], ALL.index)
    for name, watch in group.watches.items():
        assert (watch.mixture.log_r == before[name]["log_r"]).all()
        assert watch.mixture.pending == pytest.approx(before[name]["pending"] + COHORT_DAYS)


def test_a_breach_of_a_level_is_found_where_it_is() -> None:
    fleet = start(contract(BY_A, of=replace(LEVELS, max_blocked_gap=None)))
    crossed: list[Stream] = []
    for hour in range(10 * DAY):
        rng = np.random.default_rng((5, hour))
        traffic = Traffic(tpr=np.array([0.75, 0.5, 0.75]), fpr=np.array([0.15, 0.15, 0.5]))
        (advance,) = fleet.advance([HourCohort(MONDAY + hour, ALL.hour(rng, traffic))], ALL.index)
        crossed += advance.crossed
    levels = {(one.metric, one.slice) for one in crossed if one.kind == "level"}
    assert levels == {("tpr", "a=v"), ("fpr", "a=w")}


def test_every_decision_is_bet_on_once() -> None:
    """What waits grows by the hour, and is gone once it is bet on."""
    fleet, waited, bets = start(), np.zeros(5), 0
    for hour in range(2 * DAY):
        counts = ALL.hour(np.random.default_rng(hour), Traffic(hourly=BATCH / 3))
        fleet.advance([HourCohort(MONDAY + hour, counts)], ALL.index)
        (group,) = fleet.groups.values()
        new = group.today.decisions.sum() if group.today else 0
        waits = group.binned.sum(axis=2)
        served = waits[0] > 0
        if hour % DAY == 0:
            assert waits[0].sum() == new, "a new day begins with its first hour"
        else:
            bets += int((waited[~served] > 0).sum())
            assert (waits[0][served] > waited[served]).all()
        assert not (waits >= BATCH).all(axis=0).any()
        waited = waits[0]
    assert bets > 20


@pytest.mark.parametrize("first", [1, 2], ids=["a higher rate first", "a lower rate first"])
def test_a_whole_day_is_learnt_also_if_a_new_audit_rate_came_in_it(first: int) -> None:
    fleet, labelled = start(), 0
    for hour in range(DAY):
        rng = np.random.default_rng(hour)
        counts = ALL.hour(rng, Traffic(audit=first if hour < 12 else 3 - first))
        labelled += int(counts.values[:, Counter.LABELLED].sum())
        fleet.advance([HourCohort(MONDAY + hour, counts)], ALL.index)
    group = play(fleet, range(DAY, DAY + 1))
    assert group.ready.labelled.sum() == pytest.approx(labelled)
    assert group.ready.labelled.sum(axis=(0, 1, 3)).all(), "of every rate"


def test_what_is_known_fades_over_days_without_cohorts() -> None:
    fleet = start()
    group = play(fleet, range(DAY + 1))
    before = group.ready.labelled.sum()
    today = 0 if group.today is None else group.today.labelled.sum()
    play(fleet, range(8 * DAY, 8 * DAY + 1))
    assert group.ready.labelled.sum() == pytest.approx(before / 2 + today)


def test_thinning_does_not_look_at_the_audit_rates_of_its_own_hour() -> None:
    """A lower rate than any before: nothing is taken of its first hour."""
    fleet = start()

    def seen(hour: int, audit: int) -> int:
        counts = ALL.hour(np.random.default_rng(hour), Traffic(audit=audit))
        (advance,) = fleet.advance([HourCohort(MONDAY + hour, counts)], ALL.index)
        thinned = advance.use_cases["c"].thinned
        return 0 if thinned is None else int(thinned.values[:, Counter.LABELLED].sum())

    assert seen(0, 1) == 0, "nothing was known before the first hour"
    assert seen(1, 1) > 0
    assert seen(2, 3) == 0
    assert seen(3, 3) > 0


@pytest.mark.parametrize(
    ("reference", "labelled_all"),
    [
        pytest.param("complement", True, marks=pytest.mark.full),
        ("a=w", False),
        pytest.param("complement", False, marks=pytest.mark.full),
        pytest.param("a=w", True, marks=pytest.mark.full),
    ],
)
def test_a_slice_with_limits_of_its_own_is_tested_as_if_all_had_them(
    reference: str, labelled_all: bool
) -> None:
    """Its streams are those of a contract with these limits, the others those of the contract."""
    group = GroupBy(("a",), reference)
    usual = replace(LEVELS, max_selection_gap=Fraction("0.10"), min_selection_ratio=Fraction("0.8"))
    numbers = {
        "max_tpr_gap": Fraction("0.05"),
        "max_fpr_gap": Fraction("0.20"),
        "max_blocked_gap": Fraction("0.03"),
        "max_selection_gap": Fraction("0.25"),
        "min_selection_ratio": Fraction("0.95"),
        "min_tpr": Fraction("0.85"),
        "max_fpr": Fraction("0.10"),
    }
    own = OwnLimits(group.name, "a=u", tuple(numbers.items()))
    mixed = replace(contract(group, of=usual), own_limits=(own,))
    alike = contract(group, of=replace(usual, **numbers))  # type: ignore[arg-type]
    traffic = Traffic(hourly=60, tpr=[0.7, 0.85, 0.8], audit=0 if labelled_all else 2)
    found, by_usual, by_own = (
        statistics(play(start(one), range(3 * DAY + 1), traffic))
        for one in (mixed, contract(group, of=usual), alike)
    )
    assert len(found) == len(by_usual)
    for key, value in found.items():
        stream = Stream.parse(key)
        wanted = by_own if stream.slice == "a=u" else by_usual
        assert value == pytest.approx(wanted[key], rel=1e-12, abs=1e-12), key
    changed = [Stream.parse(key) for key in found.keys() - by_usual.keys()]
    assert {stream.slice for stream in changed} == {"a=u"}
    assert {(s.metric, s.kind) for s in changed} == {
        (Stream.parse(key).metric, Stream.parse(key).kind) for key in found
    }


def statistics(group: GroupTests) -> dict[str, float]:
    """The statistic of every stream that has evidence."""
    return {
        stream.key: value
        for watch in group.watches.values()
        for stream, value in zip(watch.streams, watch.mixture.statistic().tolist(), strict=True)
        if np.isfinite(value)
    }


def test_limits_of_slices_go_on_after_a_restart() -> None:
    own = OwnLimits("a", "a=u", (("max_tpr_gap", Fraction("0.05")),))
    mixed = replace(contract(BY_A, of=LEVELS), own_limits=(own,))
    whole = play(start(mixed), range(3 * DAY + 1), Traffic(hourly=60))
    first = play(start(mixed), range(DAY + 7), Traffic(hourly=60))
    second = start(mixed)
    (again,) = second.groups.values()
    again.restore(first.to_arrays(), first.facts())
    play(second, range(DAY + 7, 3 * DAY + 1), Traffic(hourly=60))
    assert statistics(again) == pytest.approx(statistics(whole))


# Plans ahead


def planned(fleet: PageTests, day: int) -> int:
    """Number of plans that are made ahead of a day."""
    steps = 0
    while fleet.plan_ahead(MONDAY // DAY + day):
        steps += 1
    return steps


def test_plans_made_ahead_are_those_that_the_day_would_make(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, ahead = start(), start()
    for fleet in (plain, ahead):
        play(fleet, range(2 * DAY))
    before = ahead.parts()
    assert planned(ahead, 2) == 4, "two gaps and two levels, one at a time"
    assert ahead.parts() == before, "nothing is changed by them"
    with monkeypatch.context() as patch:
        patch.delattr(GroupTests, "_plan")  # the day needs no other plans
        play(ahead, range(2 * DAY, 3 * DAY))
    play(plain, range(2 * DAY, 3 * DAY))
    assert ahead.parts() == plain.parts()


@pytest.mark.parametrize("steps", [pytest.param(0, marks=pytest.mark.full), 1, 3])
def test_plans_that_are_not_ready_when_the_day_begins_are_made_then(steps: int) -> None:
    plain, ahead = start(), start()
    for fleet in (plain, ahead):
        play(fleet, range(2 * DAY))
    for _ in range(steps):
        assert ahead.plan_ahead(MONDAY // DAY + 2)
    for fleet in (plain, ahead):
        play(fleet, range(2 * DAY, 3 * DAY))
    assert ahead.parts() == plain.parts()


@pytest.mark.parametrize(
    ("hours", "rates"),
    [
        pytest.param(range(23, 25), (2, 2), id="more of the day came"),
        pytest.param(range(24, 26), (1, 1), id="another audit rate", marks=pytest.mark.full),
        pytest.param(range(3 * DAY, 3 * DAY + 1), (2,), id="another day", marks=pytest.mark.full),
    ],
)
def test_plans_of_what_is_not_known_any_more_are_not_used(
    hours: range, rates: tuple[int, ...]
) -> None:
    plain, ahead = start(), start()
    for fleet in (plain, ahead):
        play(fleet, range(hours[0] if hours[0] < DAY else DAY), Traffic(audit=2))
    assert planned(ahead, 1)
    for fleet in (plain, ahead):
        for hour, rate in zip(hours, rates, strict=True):
            play(fleet, range(hour, hour + 1), Traffic(audit=rate))
    assert ahead.parts() == plain.parts()


def test_of_a_day_that_has_begun_or_without_a_day_before_nothing_is_planned() -> None:
    fleet = start()
    assert not planned(fleet, 1)
    play(fleet, range(DAY + 1))
    assert not planned(fleet, 1)
