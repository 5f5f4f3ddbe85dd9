"""All streams together: stops, settings and the way decisions are filed change no evidence."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from fleet_cells import (
    MONDAY,
    STRATA,
    Cells,
    Traffic,
    coding,
    contract,
    join,
    limits,
    with_odd_hours,
)

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.cells import COUNTERS, Counter, Counts, Int64s, Route, Stratum, merge
from monitor.core.counts.rollup import CellIndex
from monitor.detection import arrays
from monitor.detection.pages.budget import RESERVE
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.page_tests import HourCohort, PageAdvance, PageTests

CODING = coding(a="uvw", b="xy")
CELLS = Cells(tuple(f"a={a},b={b}" for a in "uvw" for b in "xy"))
BY_A, BY_B, BOTH = GroupBy(("a",)), GroupBy(("b",), "b=x"), GroupBy(("a", "b"))
WATCHED = contract(BY_A, BOTH, of=limits(floor="0.80", ceiling="0.20"))
SATURDAY = MONDAY - 48
HOURS = range(SATURDAY, SATURDAY + 60)
ONE_DAY = HOURS[:30]


def hour_of(hour: int, audit: int | None = None) -> Counts:
    """The slice a=u is badly served; audit rates come and go, and some hours are odd."""
    rng, since = np.random.default_rng(hour), hour - SATURDAY
    served = np.where([atom.startswith("a=u") for atom in CELLS.atoms], 0.4, 0.9)
    traffic = Traffic(hourly=12, tpr=served, audit=audit or (2 if since < 30 else since % 3 + 1))
    return with_odd_hours(CELLS.hour(rng, traffic), since)


def alike(hour: int) -> Counts:
    """The same, with one audit rate and a label for all that it asked for: nothing is thinned."""
    counts = hour_of(hour, audit=1)
    review = np.isin(
        CELLS.index.strata[np.searchsorted(CELLS.index.cells, counts.keys)], STRATA[8:]
    )
    return Counts(counts.keys[~review], counts.values[~review])


Feed = Callable[[int], Counts]


def play(
    feed: Feed = hour_of,
    stops: Collection[int] = (),
    contracts: Sequence[Contract] = (WATCHED,),
    index: CellIndex = CELLS.index,
    hours: Sequence[int] = HOURS,
) -> tuple[list[PageAdvance], list[Mapping[str, bytes]]]:
    """What every hour brought, and the state after it; stopped and revived after some of them."""
    fleet = PageTests.start(DetectorSettings(contracts, CODING))
    brought: list[PageAdvance] = []
    states: list[Mapping[str, bytes]] = []
    for hour in hours:
        brought += fleet.advance([HourCohort(hour, feed(hour))], index)
        states.append(fleet.parts())
        if hour in stops:
            fleet = PageTests.start(DetectorSettings(contracts, CODING), parts=states[-1])
    return brought, states


def opened(parts: Mapping[str, bytes]) -> dict[str, Int64s]:
    return {
        f"{name}/{array}": values
        for name, body in parts.items()
        for array, values in arrays.decode(body)[0].items()
    }


@pytest.fixture(scope="module")
def alone() -> tuple[list[PageAdvance], list[Mapping[str, bytes]]]:
    return play()


def test_the_world_of_these_tests_pages_and_lists(
    alone: tuple[list[PageAdvance], list[Mapping[str, bytes]]],
) -> None:
    brought, _ = alone
    assert sum(len(one.crossed) for one in brought) > 2
    assert [i for i, one in enumerate(brought) if one.listed is not None] == [48]
    assert brought[48].listed


@pytest.mark.parametrize(
    "stops",
    [
        pytest.param(HOURS[25:51], marks=pytest.mark.full),
        random.Random(1).sample(HOURS, 5),
        pytest.param(random.Random(2).sample(HOURS, 5), marks=pytest.mark.full),
    ],
)
def test_stops_are_seen_in_nothing(
    stops: Sequence[int], alone: tuple[list[PageAdvance], list[Mapping[str, bytes]]]
) -> None:
    """After every hour around two midnights, new audit rates and hours without anything."""
    brought, states = play(stops=stops)
    assert brought == alone[0]
    assert states == alone[1]


def test_a_fleet_that_has_consumed_nothing_is_revived_as_it_is() -> None:
    parts = PageTests.start(DetectorSettings([WATCHED], CODING)).parts()
    revived = PageTests.start(DetectorSettings([WATCHED], CODING), parts=parts)
    assert revived.parts() == parts


def test_where_no_label_is_left_out_the_filing_of_decisions_changes_nothing() -> None:
    """Other cells in another order, as after a release, and cells cut in two."""
    brought, states = play(alike, hours=ONE_DAY)

    def renewed(hour: int) -> Counts:
        return CELLS.renewed(alike(hour)) if hour > SATURDAY + 20 else alike(hour)

    for feed in (renewed, lambda hour: cut(alike(hour), hour)):
        assert play(feed, hours=ONE_DAY) == (brought, states)


def test_under_sampled_labels_the_filing_of_decisions_changes_nothing_either(
    alone: tuple[list[PageAdvance], list[Mapping[str, bytes]]],
) -> None:
    _, states = play(lambda hour: cut(hour_of(hour), hour), hours=ONE_DAY)
    first, second = opened(alone[1][29]), opened(states[29])
    assert first.keys() == second.keys()
    assert not [name for name, values in first.items() if (values != second[name]).any()]


def cut(counts: Counts, seed: int) -> Counts:
    """A part of every cell's decisions by another version."""
    n, labelled, ready = counts.values[:, [Counter.N, Counter.LABELLED, Counter.READY]].T
    rng = np.random.default_rng(seed)
    unlabelled, rest, part_ready = (
        rng.binomial(np.maximum(x, 0), 0.3) for x in (n - labelled, labelled - ready, ready)
    )
    part = np.zeros_like(counts.values)
    part[:, Counter.N] = unlabelled + (rest + part_ready) * (n > 0)
    part[:, Counter.LABELLED], part[:, Counter.READY] = rest + part_ready, part_ready
    others = Counts(counts.keys, counts.values - part)
    return merge([CELLS.renewed(Counts(counts.keys, part)), others])


@pytest.mark.parametrize("probe", [True, False])
def test_what_is_no_production_decision_with_evidence_moves_no_labelled_stream(
    probe: bool, alone: tuple[list[PageAdvance], list[Mapping[str, bytes]]]
) -> None:
    """Probes move nothing; a decision without evidence still was blocked or not."""
    strata = [Stratum(route, 1, 1, False, probe).code for route in Route]
    if probe:
        strata += [Stratum(route, 1, 3, True, True).code for route in Route]
    strange = Cells(CELLS.atoms, tuple(strata))
    index = join(CELLS.index, strange.index)

    def feed(hour: int) -> Counts:
        values = np.random.default_rng(-hour % 999).integers(
            1, 30, (len(CELLS.atoms), len(strata), COUNTERS)
        )
        values.sort(axis=2)
        return merge([hour_of(hour), strange.counts(values[:, :, ::-1])])

    _, states = play(feed, index=index, hours=ONE_DAY)
    if probe:
        assert states == alone[1][:30]
    one, other = opened(alone[1][29]), opened(states[29])
    differing = {name for name, values in one.items() if (values != other[name]).any()}
    assert bool(differing) != probe
    assert all("blocked" in name or name.endswith("today.routed") for name in differing)


def test_a_use_case_sees_only_its_own_decisions() -> None:
    """As if the decisions of the others were not there."""
    scope = replace(WATCHED, where=(("b", "x"),), group_bys=(BY_A, BOTH))
    index = CELLS.index
    mine = [atom for atom, text in index.atom_texts.items() if "b=x" in text]

    def only_mine(hour: int) -> Counts:
        counts = hour_of(hour)
        rows = np.isin(index.atoms[np.searchsorted(index.cells, counts.keys)], mine)
        return Counts(counts.keys[rows], counts.values[rows])

    found = play(contracts=[scope], hours=ONE_DAY)
    assert found == play(only_mine, contracts=[scope], hours=ONE_DAY)
    assert found == play(only_mine, contracts=[replace(scope, where=())], hours=ONE_DAY)
    nobody = replace(WATCHED, where=(("b", "z"),))
    states = play(contracts=[nobody], hours=ONE_DAY)[1]
    assert all(
        np.isneginf(values).all()
        for name, values in opened(states[-1]).items()
        if name.endswith("log_r")
    )


def test_the_sampling_of_labels_is_known_by_route() -> None:
    """As far as k decisions have shown it: a stray one with an odd rate is not told of."""
    fleet = PageTests.start(DetectorSettings([WATCHED], CODING))
    assert fleet.sampling(WATCHED) == [(), ()]
    for hour in HOURS[:3]:
        fleet.advance([HourCohort(hour, hour_of(hour))], CELLS.index)
    assert fleet.sampling(WATCHED) == [(CODING.audit_rates[2],), (1.0,)]
    assert fleet.sampling(replace(WATCHED, k=10**6)) == [(), ()]
    revived = PageTests.start(DetectorSettings([WATCHED], CODING), parts=fleet.parts())
    assert revived.sampling(WATCHED) == fleet.sampling(WATCHED)


SETTINGS = {
    "a group-by": replace(WATCHED, group_bys=(BY_A, BY_B, BOTH)),
    "a limit": replace(WATCHED, limits=limits("0.10", "0.85", "0.20")),
    "another contract": contract(BY_A, where="b=x"),
}


@pytest.mark.parametrize("added", SETTINGS)
def test_later_streams_get_later_weights_and_leave_the_others_alone(
    added: str, alone: tuple[list[PageAdvance], list[Mapping[str, bytes]]]
) -> None:
    parts = alone[1][40]
    old = PageTests.start(DetectorSettings([WATCHED], CODING), parts=parts)
    second = SETTINGS[added]
    contracts = [WATCHED, second] if second.name != WATCHED.name else [second]
    new = PageTests.start(DetectorSettings(contracts, CODING), parts=parts)
    later = [one for one in new.streams if one not in set(old.streams)]
    assert later
    assert sum(new.budget.weights.values()) <= 1
    assert {key: new.budget.weights[key] for key in old.budget.weights} == old.budget.weights
    assert sum(new.budget.weights[one.key] for one in later) == pytest.approx(RESERVE / 2)
    kept = {stream: step for stream, step in old.evidence().items() if stream in set(new.streams)}
    assert kept.items() <= new.evidence().items()
    assert all(new.evidence()[one] == 0 for one in later)
    for hour in HOURS[41:50]:
        old.advance([HourCohort(hour, hour_of(hour))], CELLS.index)
        new.advance([HourCohort(hour, hour_of(hour))], CELLS.index)
    one, other = evidence_by_stream(old), evidence_by_stream(new)
    shared = one.keys() & other.keys()
    assert len(shared) >= len(one) - 16  # every floor, where it changed
    assert all((one[key] == other[key]).all() for key in shared)


def evidence_by_stream(fleet: PageTests) -> dict[str, Int64s]:
    return {
        stream.key: watch.mixture.log_r[row]
        for group in fleet.groups.values()
        for watch in group.watches.values()
        for row, stream in enumerate(watch.streams)
    }
