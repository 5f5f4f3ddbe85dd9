"""Response: which slices are bet on while labels are missing, and which go on as before."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from fleet_cells import MONDAY, Cells, Traffic, coding, contract, limits
from scipy.stats import poisson

from monitor.core.contract import GroupBy
from monitor.core.counts.cells import Counter, Counts, Route, decode_strata
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.gap_tests import ALTERNATIVES
from monitor.detection.pages.group import GroupTests
from monitor.detection.pages.label_responses import FEW, Requests, Responses
from monitor.detection.pages.page_tests import HourCohort, PageTests

CODING = coding(a="uvw")
CELLS = Cells(("a=u", "a=v", "a=w"))
DAY = 24
LABELLED = ("gap.tpr", "gap.fpr", "level.tpr", "level.fpr")


def responses(*rows: tuple[int, int, int, int]) -> Responses:
    """Requested and received of auto_serve, then of human_review."""
    table = np.array(rows)
    return Responses(table[:, [0, 2]], table[:, [1, 3]])


def test_every_route_must_come_where_it_can_be_judged() -> None:
    one = responses(
        (100, 80, 50, 50), (100, 79, 50, 50), (100, 100, 50, 39), (9, 0, 50, 50), (0, 0, 0, 0)
    )
    assert one.enough.tolist() == [True, False, False, True, True]
    assert one.whole.tolist() == [False, False, False, False, True]
    assert FEW == 10


def test_references_are_the_others_or_one_of_them() -> None:
    one = responses((100, 100, 50, 50), (100, 0, 50, 50), (800, 800, 50, 50))
    assert one.references(None).enough.tolist() == [True, True, False]
    assert one.references(1).enough.tolist() == [False, False, False]
    assert one.references(2).enough.tolist() == [True, True, True]


def asked(counts: Counts, share: float, hour: int) -> Counts:
    """All labels were requested; of auto_serve in ``a=u`` only a share has come."""
    values = counts.values.copy()
    values[:, Counter.Q] = values[:, Counter.LABELLED]
    at = np.searchsorted(CELLS.index.cells, counts.keys)
    mine = np.array([CELLS.index.atom_texts[atom] == "a=u" for atom in CELLS.index.atoms[at]])
    rows = mine & (decode_strata(CELLS.index.strata[at]).route == Route.AUTO_SERVE)
    rng = np.random.default_rng((7, hour))
    ready = rng.binomial(values[rows, Counter.READY], share)
    others = rng.binomial(values[rows, Counter.LABELLED] - values[rows, Counter.READY], share)
    values[rows, Counter.READY], values[rows, Counter.LABELLED] = ready, ready + others
    return Counts(counts.keys, values)


@cache
def play(
    share: float, since: int, days: int, reference: str = "complement", *, sampled: bool = True
) -> GroupTests:
    """From a day on a share of the labels of one slice is missing; all slices are alike."""
    coded = CODING if sampled else replace(CODING, audit_rates=(1.0,))
    group = GroupBy(("a",), reference)
    of = contract(group, of=limits(floor="0.70", ceiling="0.30"))
    fleet = PageTests.start(DetectorSettings([of], coded))
    for hour in range(days * DAY):
        counts = CELLS.hour(np.random.default_rng(hour), Traffic(hourly=60, audit=int(sampled)))
        lost = share if hour >= since * DAY else 1.0
        fleet.advance([HourCohort(MONDAY + hour, asked(counts, lost, hour))], CELLS.index)
    (tests,) = fleet.groups.values()
    return tests


def waiting(tests: GroupTests, name: str) -> dict[str, float]:
    """Days since each slice was last bet on."""
    watch = tests.watches[name]
    days: dict[str, float] = {}
    for stream, pending in zip(watch.streams, watch.mixture.pending.tolist(), strict=True):
        days[stream.slice] = max(days.get(stream.slice, 0.0), pending)
    return {text: days[text] for text in days if text != "a=__other__"}


@pytest.mark.parametrize("name", LABELLED)
def test_a_slice_whose_labels_do_not_come_is_not_bet_on_after_two_days(name: str) -> None:
    days = waiting(play(0.0, since=10, days=20), name)
    assert 5 <= days.pop("a=u") <= 9.1
    assert max(days.values()) <= 1.1, "the others are compared with the labelled rest"


def test_a_slice_whose_labels_lack_from_the_first_day_on_is_not_bet_on() -> None:
    """What was asked for today counts: no label of another day is needed to find it out."""
    tests = play(0.5, since=0, days=3)
    for name in LABELLED:
        days = waiting(tests, name)
        assert days.pop("a=u") > 2.9, "an hour or two ask for too few to judge"
        assert max(days.values()) <= 1.1, "the others are compared with the labelled rest"


def test_blocked_requests_need_no_labels() -> None:
    assert max(waiting(play(0.0, since=10, days=14), "gap.blocked").values()) < 1


@pytest.mark.parametrize("name", LABELLED)
def test_a_reference_whose_labels_do_not_come_stops_what_is_compared_with_it(name: str) -> None:
    days = waiting(play(0.0, since=10, days=16, reference="a=u"), name)
    stopped = {text for text, pending in days.items() if pending > 2}
    expected = {"a=v", "a=w"} if name.startswith("gap.") else {"a=u"}
    assert stopped == expected


@pytest.mark.parametrize("name", LABELLED)
def test_a_slice_that_lacks_a_tenth_of_its_labels_is_bet_on_as_before(name: str) -> None:
    assert max(waiting(play(0.9, since=3, days=12), name).values()) <= 1.1


@pytest.mark.parametrize("name", ["gap.tpr", "gap.fpr"])
def test_labels_of_which_a_tenth_is_missing_are_not_compared_by_themselves(name: str) -> None:
    """Where all are to be labelled they would be: that evidence is of the days that have run."""
    watch = play(0.9, since=0, days=3, sampled=False).watches[name]
    rows = [row for row, stream in enumerate(watch.streams) if stream.slice == "a=u"]
    found = np.exp(watch.mixture.log_r[rows, ALTERNATIVES:])
    days = 3 - watch.mixture.pending[rows]
    assert days.min() > 2
    assert found.sum(axis=1) == pytest.approx(days / 2), "half of the alternatives"


def test_labels_that_are_missing_are_no_evidence() -> None:
    """They used to look like replies that were not served: 8 false pages in 45 days."""
    lost, whole = (play(share, since=3, days=30) for share in (0.0, 1.0))
    for name in LABELLED:
        for tests in (lost, whole):
            assert tests.watches[name].mixture.statistic().max() < 6
    row = lost.slices.index("a=u")
    assert lost.ready.received[row, 0] < 0.1 * lost.ready.requested[row, 0]


# Requests


def stated(asked: float, expected: float) -> bool:
    """Of one slice whose other route is as it says."""
    found = Requests(np.array([[asked, 500.0]]), np.array([[expected, 500.0]])).as_stated
    return bool(found[0])


@pytest.mark.parametrize(
    ("asked", "expected", "kept"),
    [
        *((0, 0, True), (0, 20, True), (0, 56, True), (0, 57, False)),
        *((100, 100, True), (80, 100, True), (21, 100, True), (19, 100, False)),
        *((184, 100, True), (186, 100, False), (7_500, 10_000, True), (7_300, 10_000, False)),
        *((13_000, 10_000, True), (13_200, 10_000, False)),
    ],
)
def test_requests_that_are_off_for_certain_are_not_bet_on(
    asked: float, expected: float, kept: bool
) -> None:
    assert stated(asked, expected) is kept


def test_the_reference_of_requests_is_all_others_or_one() -> None:
    requests = Requests(np.array([[1.0, 2], [30, 40], [500, 600]]), np.full((3, 2), 90.0))

    rest, named = requests.references(None), requests.references(2)

    assert rest.asked.tolist() == [[530, 640], [501, 602], [31, 42]]
    assert named.asked.tolist() == [[500, 600]] * 3
    assert rest.expected.tolist() == [[180, 180]] * 3


@pytest.mark.parametrize("expected", [30.0, 100.0, 1_000.0])
def test_a_sampler_that_does_as_it_says_is_hardly_ever_passed_over(expected: float) -> None:
    """By the Poisson distribution, which is wider than the binomial one."""
    room = 6 * np.sqrt(expected)
    below = poisson.cdf(np.ceil(0.8 * expected - room) - 1, expected)
    above = poisson.sf(np.floor(expected / 0.8 + room), expected)
    assert below + above < 1e-7
