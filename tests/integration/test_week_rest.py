"""What a closed week shows of labels that no release block could take, on a real data set."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import pytest
from adversary.service import settings_text
from adversary.week_sums import Known, Rows
from adversary.worlds import AUTO, DAY, HOUR, MINUTE, REVIEW, START, Shape, World, make_world
from recidivism import COUNTS, PEOPLE, recidivism_week
from releasing import K, Releasing, Row, released
from weekly import revisions

from monitor import composition
from monitor.core.counts.cells import Counts
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.linear_audit import LpAudit
from monitor.core.privacy.release_blocks import Span
from monitor.core.publish.snapshot import decode, tables_of
from monitor.core.time import WEEK, IsoWeek
from monitor.evaluate import evaluator
from monitor.evaluate.blocks import week_rests
from monitor.evaluate.blocks.family_state import FamilyState
from monitor.evaluate.blocks.late_counts import LateCounts
from monitor.evaluate.blocks.release_blocks import ReleaseBlocks
from monitor.evaluate.blocks.week_rests import rest_pane
from monitor.evaluate.publish import weeks
from monitor.evaluate.publish.publisher import TableInputs
from monitor.ports import PaneCounts
from monitor.reports.frames import weekly
from monitor.store.upkeep import retention

pytestmark = pytest.mark.full

ENOUGH = {"tpr": 50, "fpr": 30}
Resting = dict[int, set[str]]
AT_ONCE = [START + 8 * DAY + 2 * MINUTE]
ALONE, TOGETHER = ("race", "sex"), ("race", "sex", "race+sex")


@dataclass(frozen=True)
class Followed:
    """A store whose evaluator was followed.

    Attributes:
        site: the store.
        resting: by the pane of a week, the families whose tables had its rest.
        known: what an attacker learned who looked each time.
    """

    site: Releasing
    resting: Resting
    known: Known

    @property
    def rates(self) -> pd.DataFrame:
        """Those of the newest revision of the first week."""
        return weekly(revisions(self.site)[-1].release)["rates"]

    @property
    def rest(self) -> list[Row]:
        """Labels in panes of weeks."""
        return [row for row in released(self.site.engine, WEEK) if row.labels]


def settings_of(world: World, group_bys: Sequence[str]) -> str:
    text = settings_text(world, exact=False)
    every, some = (
        ", ".join(f"{{ attributes = {list(names)} }}" for names in all_names)
        for all_names in (world.group_bys, [name.split("+") for name in group_bys])
    )
    assert every in text
    return text.replace(every, some) if group_bys else text


@contextmanager
def followed(world: World, looks: Sequence[int], *group_bys: str) -> Iterator[Followed]:
    """A world that the evaluator works on at these instants, and an attacker looks at then."""
    plain = weeks._WeekMaker._inputs
    resting: Resting = defaultdict(set)

    def seen(
        maker: weeks._WeekMaker, attributes: tuple[str, ...]
    ) -> tuple[FamilyState, TableInputs]:
        state, inputs = plain(maker, attributes)
        if inputs.rest:
            resting[rest_pane(maker.week)].add(state.family.name)
        return state, inputs

    known = Known([tuple(sorted(zip(world.names, a, strict=True))) for a in world.atoms])
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as name,
        Releasing(world, Path(name), settings_of(world, group_bys), tested=False) as site,
    ):
        patch.setattr(weeks._WeekMaker, "_inputs", seen)
        for now in looks:
            site.until(now)
            known.look(site, resting)
        yield Followed(site, resting, known)


@pytest.fixture(scope="module")
def alone() -> Iterator[Followed]:
    """The real week, read at once, by each attribute."""
    with followed(recidivism_week(), AT_ONCE, *ALONE) as made:
        yield made


@pytest.fixture(scope="module")
def together() -> Iterator[Followed]:
    """In another order, and by both attributes together, too."""
    with followed(recidivism_week(3), AT_ONCE, *TOGETHER) as made:
        yield made


Slices = Mapping[str, list[tuple[int, int, int, int]]]


def sums(rows: list[tuple[int, int, int, int]]) -> tuple[int, ...]:
    return tuple(sum(column) for column in zip(*rows, strict=True))


def enough(slices: Slices) -> set[tuple[str, str]]:
    """Slices and rates with 50 that were ready and 30 that were not."""
    found = {text: sums(rows) for text, rows in slices.items()}
    return {
        (text, metric)
        for text, (served, wrongly, missed, rightly) in found.items()
        for metric in ENOUGH
        if served + missed >= ENOUGH["tpr"] and wrongly + rightly >= ENOUGH["fpr"]
    }


def by_one_attribute() -> Slices:
    found: dict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
    for (race, sex), counts in COUNTS.items():
        found[f"race={race}"].append(counts)
        found[f"sex={sex}"].append(counts)
    return found


@pytest.mark.parametrize("which", ["alone", "together"])
def test_every_slice_with_enough_of_each_outcome_has_its_rates(
    which: str, request: pytest.FixtureRequest
) -> None:
    assert sum(sum(counts) for counts in COUNTS.values()) == PEOPLE
    frame: pd.DataFrame = request.getfixturevalue(which).rates
    expected = enough(by_one_attribute())
    known = frame[frame["metric"].isin(ENOUGH) & frame["value"].notna()]
    shown = {*zip(known["slice"], known["metric"], strict=True)}
    assert {(text, metric) for text, metric in shown if text and "," not in text} == expected
    assert len(expected) == 12
    few = [text for text in by_one_attribute() if (text, "tpr") not in expected]
    assert few == ["race=Asian", "race=Native American"]
    assert frame[frame["slice"].isin(few)][["value", "at_least", "at_most"]].isna().all(axis=None)


def test_the_rates_are_those_of_the_people(alone: Followed) -> None:
    frame = alone.rates.set_index(["slice", "metric"])["value"]
    for text, metric in enough(by_one_attribute()):
        served, wrongly, missed, rightly = sums(by_one_attribute()[text])
        tpr, fpr = served / (served + missed), wrongly / (wrongly + rightly)
        assert frame[text, metric] == pytest.approx({"tpr": tpr, "fpr": fpr}[metric], abs=0.051)


def test_without_the_rest_one_of_them_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "release_rests", lambda *_: ([], []))
    with followed(recidivism_week(), AT_ONCE, *ALONE) as made:
        frame = made.rates
    hidden = frame[frame["metric"].isin(ENOUGH) & frame["value"].isna()]["slice"]
    assert {*hidden} == {"race=Asian", "race=Native American", "race=Other"}


def test_no_block_and_no_window_has_the_rest(alone: Followed) -> None:
    others = [r for r in released(alone.site.engine, HOUR) if r.atom["race"] == "Other"]
    (table,) = decode(alone.site.snapshots()[-1]).contracts
    shown = [
        row
        for window in table.windows
        for part in tables_of(window)
        for row in getattr(part, "rows", ())
        if row.slice == "race=Other" and {"tpr", "fpr"} & {*row.rates}
    ]
    assert {(row.atom["race"], row.route) for row in alone.rest} == {("Other", REVIEW)}
    assert sum(row.labels for row in others if row.route == REVIEW) == 0
    assert sum(row.labels for row in others if row.route == AUTO) > 200
    assert shown == []


def test_a_rest_of_excluded_data_is_not_shown(alone: Followed) -> None:
    memory = alone.site.evaluator._memory
    assert memory is not None
    sources = weeks.WeekSources(
        closed=alone.site.evaluator.store.closed,
        release=memory.release,
        index=memory.dictionary.index,
        snapshot=decode(alone.site.snapshots()[-1]),
        incidents=lambda _: (),
        newest=lambda _: None,
    )
    found = []
    for excluded in ((), (Span(START + 30 * HOUR, START + 31 * HOUR),)):
        memory.publisher.excluded = excluded
        release = memory.weeks.release(IsoWeek.of(START), sources, None)
        assert release is not None
        rates = weekly(release)["rates"].set_index(["slice", "metric"])["value"]
        found.append((release.excluded, bool(pd.isna(rates["race=Other", "tpr"]))))
    memory.publisher.excluded = ()
    assert found == [(False, False), (True, True)]


def test_a_restart_changes_nothing(alone: Followed) -> None:
    before = [one.body for one in revisions(alone.site)]
    alone.site.restart()
    alone.site.until(AT_ONCE[0] + 20 * MINUTE)
    assert [one.body for one in revisions(alone.site)] == before


# Attacks: the exact sum of every row in every block, and of each rest in each table that has it.


def late_world() -> World:
    """Labels come two and a half days late on average, and are held back."""
    return make_world(2, Shape((3, 2), days=10, busy=120, delay=60, late=0, audit=0))


LOOKS = [START + day * DAY + 2 * MINUTE for day in (9, 12, 14, 15)]


@pytest.mark.parametrize("which", ["alone", "together"])
def test_the_rest_of_the_real_week_gives_no_small_count_away(
    which: str, request: pytest.FixtureRequest
) -> None:
    made: Followed = request.getfixturevalue(which)
    assert made.resting[rest_pane(IsoWeek.of(START))] >= {"replies/", "replies/race"}
    assert sum(row.labels for row in made.rest) > K
    assert made.known.leaks() == []
    assert revisions(made.site)[-1].release.audit is LpAudit.HELD


def test_nor_do_late_labels() -> None:
    with followed(late_world(), LOOKS) as made:
        assert made.resting
        assert made.known.hidden() > 0, "or nothing could be given away"
        assert made.known.leaks() == []
        assert {one.release.audit for one in revisions(made.site)} == {LpAudit.HELD}
        assert made.rest
        policy = composition.retention_policy(made.site.settings)
        retention._drop_closed(made.site.engine, policy, START + 100 * DAY)
        assert made.rest == [], "retention deletes it with the panes of its week"


def test_intersections_that_cross_have_it_as_long_as_they_form_no_ring() -> None:
    """Of three pairs two; the attacker asks for every combination of the three attributes."""
    shape = Shape((2, 2, 2), days=10, busy=60, delay=60, late=0, audit=0, strays=0, skew=0.3)
    with followed(make_world(1, shape), [START + 12 * DAY + 2 * MINUTE]) as made:
        (resting,) = made.resting.values()
        assert resting >= {"replies/a+b", "replies/a+c"}
        assert "replies/b+c" not in resting
        combinations = sorted(made.site.feed._world.attributes.items())
        made.known.rows.add(Rows("each", tuple(combinations)))
        assert made.known.leaks(40) == []
        assert {one.release.audit for one in revisions(made.site)} == {LpAudit.HELD}
        assert revisions(made.site)[-1].rests == frozenset(resting)


def test_a_rest_in_tables_that_have_too_little_of_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same attacker, where one family with enough of it is thought to be enough."""
    plain = week_rests.families_with

    def every(
        release: ReleaseBlocks, index: CellIndex, counts: Counts, shown: Iterable[str] = ()
    ) -> frozenset[str]:
        found = plain(release, index, counts, shown)
        return frozenset(release.families) if found else found

    monkeypatch.setattr(week_rests, "families_with", every)
    with followed(late_world(), LOOKS) as made:
        assert made.known.leaks()
        assert revisions(made.site)[-1].release.audit is LpAudit.BROKEN


def test_a_rest_that_joined_the_blocks_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same labels, released by the hour: windows that cut the week show parts of them."""
    plain = week_rests.release_rests

    def by_the_hour(
        release: ReleaseBlocks, index: CellIndex, held: LateCounts, some: Iterable[IsoWeek]
    ) -> tuple[list[PaneCounts], list[PaneCounts]]:
        _, away = plain(release, index, held, some)
        return [replace(pane, counts=-pane.counts) for pane in away], away

    monkeypatch.setattr(evaluator, "release_rests", by_the_hour)
    with followed(late_world(), LOOKS) as made:
        assert made.known.leaks()
