"""What watches beside the pages, by its laws: when it begins anew, what it finds, what it keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from fleet_cells import AUDITS, MONDAY, Cells, Traffic, coding, contract

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.cells import Counter, Counts, Route, StratumColumns, decode_strata
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import roll_up
from monitor.core.metric import Metric
from monitor.core.time import Grain, pane_start
from monitor.detection.advisory.advisors import Advisors
from monitor.detection.advisory.finding_log import (
    AnySubject,
    Drift,
    FindingLog,
    LabelDelay,
    ListedGap,
    MixShift,
    RateChange,
    VersionChange,
)
from monitor.detection.advisory.label_delays import Timing
from monitor.detection.advisory.mix_labels import RATES, CellLabels, Places
from monitor.detection.advisory.river_advisory import FindingCount
from monitor.detection.advisory.river_detectors import ChangeDirection, Detector
from monitor.detection.pages.cohort import Layout, SliceCohort
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.page_tests import HourCohort, PageAdvance, PageTests
from monitor.detection.pages.projection import trials
from monitor.detection.pages.streams import Direction, Stream
from monitor.detection.pages.watched import WatchedUseCase

DAY, WEEK = 24, 168
CODING = coding(a="uv", b="xy")
BY_A, BY_BOTH = GroupBy(("a",)), GroupBy(("a", "b"))
ALL = Cells(("a=u,b=x", "a=u,b=y", "a=v,b=x", "a=v,b=y"))
CALM = Traffic(hourly=400, tpr=[0.95, 0.6, 0.95, 0.6], audit=1)

Changed = Callable[[int, Counts], Counts]


def strata(counts: Counts) -> StratumColumns:
    return decode_strata(ALL.index.strata[np.searchsorted(ALL.index.cells, counts.keys)])


def asked(hour: int, counts: Counts) -> Counts:
    """As many requests as the audit rates say; half of the labels come within the first hour."""
    values = counts.values.copy()
    labelled = values[:, Counter.LABELLED]
    blocked = strata(counts).route == Route.BLOCKED_BY_EVIDENCE
    values[:, Counter.Q] = np.where(blocked, values[:, Counter.N], labelled)
    values[:, Counter.DELAY_0] = np.random.default_rng(hour).binomial(labelled, 0.5)
    values[:, Counter.DELAY_3] = labelled - values[:, Counter.DELAY_0]
    return Counts(counts.keys, values)


@dataclass
class Site:
    """A fleet and what advises beside it, fed hour by hour."""

    contracts: list[Contract] = field(default_factory=lambda: [contract(BY_A)])
    coding: Coding = CODING
    findings: list[FindingLog] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fleet = PageTests.start(self.settings)
        self.advice = Advisors.start(self.settings)

    @property
    def settings(self) -> DetectorSettings:
        return DetectorSettings(self.contracts, self.coding)

    def see(
        self, hour: int, traffic: Traffic, change: Changed = asked, cells: Cells = ALL
    ) -> dict[str, WatchedUseCase]:
        """An hour's cohort."""
        return dict(self.cohort(hour, traffic, change, cells).use_cases)

    def cohort(self, hour: int, traffic: Traffic, change: Changed, cells: Cells) -> PageAdvance:
        """What an hour brings the fleet; hours have their own seeds."""
        rng = np.random.default_rng((7, hour))
        counts = change(hour, cells.hour(rng, traffic))
        (one,) = self.fleet.advance([HourCohort(MONDAY + hour, counts)], cells.index)
        return one

    def play(
        self, hours: range, traffic: Traffic = CALM, change: Changed = asked, cells: Cells = ALL
    ) -> None:
        for hour in hours:
            one = self.cohort(hour, traffic, change, cells)
            found = self.advice.advance(MONDAY + hour, one.use_cases, cells.index, one.listed)
            self.findings.append(found)

    def restart(self, **parts: bytes) -> None:
        self.advice = Advisors.start(self.settings, parts=self.advice.parts() | parts)

    @property
    def found(self) -> set[AnySubject]:
        return {subject for findings in self.findings for subject in findings.subjects}


def fallen(tpr: float) -> Traffic:
    """Calm, but that the TPR of ``a=u`` has fallen in all mixes."""
    return replace(CALM, tpr=[0.95 - tpr, 0.6 - tpr, 0.95, 0.6])


@pytest.fixture(scope="module")
def settled() -> Site:
    """Four calm days: the references are finished."""
    site = Site()
    site.play(range(4 * DAY))
    return site


def copy_of(site: Site) -> Site:
    other = Site(site.contracts, site.coding)
    other.fleet = PageTests.start(site.settings, parts=site.fleet.parts())
    other.advice = Advisors.start(site.settings, parts=site.advice.parts())
    return other


# What is kept.


def test_a_stop_after_any_hour_is_seen_in_nothing() -> None:
    """Through a week's end, a mix and a version that are new, and a drop."""
    contracts = [contract(BY_A, BY_BOTH), contract(BY_BOTH, where="a=u")]
    few = Cells(ALL.atoms[:3])
    plan = [
        (range(5 * DAY, 5 * DAY + 12), replace(CALM, tpr=0.9), asked, few),
        (range(5 * DAY + 12, 6 * DAY + 6), CALM, asked, ALL),
        (range(6 * DAY + 6, WEEK + 1), fallen(0.4), asked, ALL),
        (range(WEEK + 1, WEEK + 5), CALM, lambda h, c: ALL.renewed(asked(h, c)), ALL),
        (range(WEEK + 5, WEEK + 8), fallen(0.4), asked, ALL),
    ]
    straight, stopped = Site(contracts), Site(contracts)
    for hours, traffic, change, cells in plan:
        straight.play(hours, traffic, change, cells)
        for hour in hours:
            stopped.play(range(hour, hour + 1), traffic, change, cells)
            stopped.restart()
            assert not stopped.advice.renewed
    assert stopped.findings == straight.findings
    assert stopped.advice.parts() == straight.advice.parts()
    kinds = {type(subject) for subject in straight.found}
    assert kinds >= {Drift, ListedGap, RateChange, VersionChange}


def test_the_fleet_and_what_advises_share_one_table(settled: Site) -> None:
    fleet, advice = settled.fleet.parts(), settled.advice.parts()
    assert not fleet.keys() & advice.keys()
    again = PageTests.start(settled.settings, parts=fleet | advice)
    assert again.parts() == fleet
    assert Advisors.start(settled.settings, parts=fleet | advice).parts() == advice


PARTS = ("~found", "~drift/c/a", "~delays/c/a", "~labels/c/a", "~requests/c", "~river/c")


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("damage", ["cut", "other"])
def test_a_part_that_cannot_be_read_begins_anew_alone(
    settled: Site, name: str, damage: str
) -> None:
    kept = settled.advice.parts()
    assert sorted(kept) == sorted(PARTS)
    other = kept["~delays/c/a" if name != "~delays/c/a" else "~requests/c"]
    body = kept[name][:-5] if damage == "cut" else other
    again = Advisors.start(settled.settings, parts=kept | {name: body})
    assert again.renewed == 1
    empty = Advisors.start(settled.settings).parts()
    assert again.parts() == kept | {name: empty[name]}


def test_a_new_value_begins_and_the_others_go_on(settled: Site) -> None:
    wider = coding(a="uvw", b="xy")
    again = Advisors.start(DetectorSettings(settled.contracts, wider), parts=settled.advice.parts())
    assert not again.renewed
    (watch,) = again.watches
    reference = watch.drifts["a"].baselines[Metric.TPR].reference
    named = dict(zip(watch.drifts["a"].places.slices, reference.frozen.tolist(), strict=True))
    assert named == {"a=__other__": False, "a=u": True, "a=v": True, "a=w": False}
    assert watch.river.slices == {"a=u", "a=v"}


def test_other_attributes_of_the_mixes_begin_the_baselines_anew(settled: Site) -> None:
    wider = coding(a="uv", b="xy", c="z")
    again = Advisors.start(DetectorSettings(settled.contracts, wider), parts=settled.advice.parts())
    assert again.renewed == 1
    assert not again.watches[0].drifts["a"].baselines[Metric.TPR].reference.frozen.any()


def test_what_is_no_longer_watched_is_forgotten() -> None:
    site = Site()
    site.play(range(12))
    site.play(range(12, 36), fallen(0.6))
    assert {subject.slice for subject in site.advice.tallies} == {"a=u"}
    left = coding(a="v", b="xy")
    again = Advisors.start(DetectorSettings(site.contracts, left), parts=site.advice.parts())
    assert not again.tallies
    assert again.watches[0].river.slices == {"a=v"}


# What is found.


def test_a_drop_inside_every_mix_is_drift_and_other_requests_are_not(settled: Site) -> None:
    site = copy_of(settled)
    site.play(range(4 * DAY, WEEK))
    assert not site.found, "nothing has happened"
    shifted = replace(fallen(0.15), hourly=[400, 400, 80, 720])
    site.play(range(WEEK, 2 * WEEK + 1), shifted)
    last = site.findings[-1]
    assert last.at == pane_start(MONDAY + 2 * WEEK, Grain.HOUR)
    assert last.drifted == (Drift("c", "a", "a=u", Metric.TPR),)
    assert last.mix_shifted == (MixShift("c", "a", "a=v", Metric.TPR),)
    assert not any(one.drifted or one.mix_shifted for one in site.findings[:-1])
    assert not last.listed, "of the two together about as many are served"
    tally = site.advice.tallies[last.drifted[0]]
    assert (tally.count, tally.last) == (1, last.at)


def listed_by(site: Site, direction: Direction, *slices: str) -> list[Stream]:
    streams = (s for s in site.fleet.streams if s.metric is not Metric.FPR)
    return [s for s in streams if s.slice in slices and s.direction is direction]


def test_a_harm_on_the_weekly_list_is_one_finding_of_the_slice_that_is_worse_off(
    settled: Site,
) -> None:
    site, hour = copy_of(settled), 4 * DAY
    mirrors = listed_by(site, Direction.REFERENCE_WORSE, "a=v", "a=w")
    listed = [*mirrors, *listed_by(site, Direction.SLICE_WORSE, "a=u")]
    assert mirrors
    found = site.advice.advance(MONDAY + hour, site.see(hour, CALM), ALL.index, listed)
    gaps = {ListedGap("c", "a", "a=u", metric) for metric in (Metric.TPR, Metric.BLOCKED)}
    assert len(found.listed) == 2
    assert set(found.listed) == set(found.subjects) == gaps
    assert all(site.advice.tallies[gap] == FindingCount(1, found.at) for gap in gaps)


def test_a_slice_that_all_others_are_worse_off_than_is_on_the_weekly_list_itself(
    settled: Site,
) -> None:
    site, hour = copy_of(settled), 4 * DAY
    listed = listed_by(site, Direction.REFERENCE_WORSE, "a=u")
    found = site.advice.advance(MONDAY + hour, site.see(hour, CALM), ALL.index, listed)
    gaps = {ListedGap("c", "a", "a=u", metric) for metric in (Metric.TPR, Metric.BLOCKED)}
    assert set(found.listed) == gaps


def test_river_finds_the_drop_and_it_is_counted_with_its_time(settled: Site) -> None:
    site = copy_of(settled)
    site.play(range(4 * DAY, 5 * DAY), fallen(0.2))
    changes = [one for findings in site.findings for one in findings.changed]
    fall = RateChange("c", "a", "a=u", Metric.TPR, Detector.PAGE_HINKLEY, ChangeDirection.DOWN)
    assert fall in changes
    assert {one.slice for one in changes} == {"a=u"}
    for one in set(changes):
        tally = site.advice.tallies[one]
        assert tally.count == changes.count(one)
        assert tally.last == max(f.at for f in site.findings if one in f.changed)


def test_labels_of_one_slice_that_come_later_are_told_at_the_end_of_the_week() -> None:
    site = Site([contract(GroupBy(("a",), "a=v"))])

    def later(hour: int, counts: Counts) -> Counts:
        counts = asked(hour, counts)
        rows = np.searchsorted(ALL.index.cells, counts.keys)
        atoms = [ALL.index.atom_texts[atom] for atom in ALL.index.atoms[rows].tolist()]
        slow = np.array([atom.startswith("a=u") for atom in atoms])
        counts.values[slow, Counter.DELAY_3] += counts.values[slow, Counter.DELAY_0]
        counts.values[slow, Counter.DELAY_0] = 0
        return counts

    site.play(range(WEEK - DAY, WEEK + 1), change=later)
    told = [(one.at, one.delayed) for one in site.findings if one.delayed]
    later_by_three_for_half = LabelDelay("c", "a", "a=u", Timing.LATER, 2)
    assert told == [(pane_start(MONDAY + WEEK, Grain.HOUR), (later_by_three_for_half,))]


def test_a_release_restarts_the_baselines_and_nothing_else(settled: Site) -> None:
    old, new = copy_of(settled), copy_of(settled)
    hour = 4 * DAY
    seen = old.see(hour, CALM)["c"]
    assert seen.thinned is not None
    released = replace(seen, counts=ALL.renewed(seen.counts), thinned=ALL.renewed(seen.thinned))
    found = [
        site.advice.advance(MONDAY + hour, {"c": cohort}, ALL.index)
        for site, cohort in ((old, seen), (new, released))
    ]
    changes = tuple(VersionChange("c", "a", text) for text in ("a=u", "a=v"))
    assert [one.versions for one in found] == [(), changes]
    assert [one.advice.changed_at("c", "a", "a=u") for one in (old, new)] == [None, found[1].at]
    assert new.advice.changed_at("c", "a", "a=__other__") is None
    before, after = old.advice.parts(), new.advice.parts()
    assert {name for name in before if before[name] != after[name]} == {"~drift/c/a", "~found"}
    for site, finished in ((old, True), (new, False)):
        drift = site.advice.watches[0].drifts["a"]
        for rate in RATES:
            baseline = drift.baselines[rate]
            assert baseline.reference.frozen.tolist() == [False, finished, finished], rate
            evidence = drift.weeks[rate].mixture.log_r[1:]
            assert np.isfinite(evidence).all() == finished, rate


def test_without_a_rate_that_all_labels_can_be_thinned_to_they_are_not_fed() -> None:
    site = Site()
    seen = site.see(0, CALM)
    assert seen["c"].thinned is None, "no rate is known before the first hour"
    site.advice.advance(MONDAY, seen, ALL.index)
    (watch,) = site.advice.watches
    assert not watch.river.slices
    assert watch.delays["a"].tally.pairs.any(), "what needs no thinned labels goes on"


# How cells become slices and mixes.


@pytest.mark.parametrize("group", [BY_A, GroupBy(("b",)), BY_BOTH, GroupBy(())], ids=str)
def test_labels_over_all_mixes_are_those_of_the_projection(group: GroupBy) -> None:
    site = Site()
    site.see(0, CALM)
    thinned = site.see(1, CALM)["c"].thinned
    assert thinned is not None
    places = Places.for_group(group, CODING)
    table = places.table(CellLabels.from_counts(thinned, ALL.index))
    layout = Layout.for_rates(range(len(AUDITS)), CODING)
    rolled = roll_up(thinned, ALL.index, group.attributes)
    cohort = SliceCohort.from_counts(rolled, places.slices, layout)
    for rate in RATES:
        for mine, theirs in zip(table.of_slices(rate), trials(cohort, rate), strict=True):
            assert mine.tolist() == theirs.tolist()
            assert mine.any()
    assert len(places.mixes) == {(): 4, ("a", "b"): 1}.get(group.attributes, 2)
    assert table.decided.sum() == cohort.decisions.sum()


def test_a_version_is_no_part_of_a_mix_and_a_missing_value_no_slice() -> None:
    judged = replace(CODING.attributes[1], version_of="judge")
    cells = Cells((*ALL.atoms, "b=x"))
    rng = np.random.default_rng(0)
    labels = CellLabels.from_counts(cells.hour(rng, CALM_ALIKE), cells.index)
    places = Places.for_group(BY_A, replace(CODING, attributes=(CODING.attributes[0], judged)))
    table = places.table(labels)
    assert places.mixes == ("",)
    assert places.slices == ("a=__other__", "a=u", "a=v")
    assert 0 < table.n.sum() < labels.n.sum(), "those without a value are in no slice"


CALM_ALIKE = replace(CALM, tpr=0.9)

# What it costs to begin.


def test_the_command_line_never_waits_for_river() -> None:
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "import monitor.cli, monitor.evaluate.evaluator\n"
        "for arguments in (['--help'], ['check', '--settings', sys.argv[1]]):\n"
        "    result = CliRunner().invoke(monitor.cli.cli, arguments)\n"
        "    assert result.exit_code == 0, result.output\n"
        "assert 'monitor.detection.advisory.advisors' in sys.modules\n"
        "assert 'river' not in sys.modules\n"
    )
    settings = Path(__file__).parents[4] / "deploy" / "examples" / "ten_pairs.toml"
    environment = {**os.environ, "SLICEWATCH__PRIVACY__ID_KEY": "a-key-of-thirty-two-characters-00"}
    command = [sys.executable, "-c", code, str(settings)]
    subprocess.run(command, check=True, timeout=300, env=environment)
