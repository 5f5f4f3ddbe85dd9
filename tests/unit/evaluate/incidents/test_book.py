"""Incidents over time: crossings join the incident of their cause, and end it with the last one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import atom_text, parse_atom
from monitor.core.metric import Metric
from monitor.core.publish.annotations import IncidentKind, Outcome, Share
from monitor.core.publish.incidents import Act, Action, Incident, Stand
from monitor.core.time import DAY, HOUR
from monitor.detection.diagnosis.explain import BreachCause, share_value
from monitor.detection.pages.streams import Direction, Stream, StreamKind
from monitor.evaluate.incidents.book import IncidentBook, IncidentStep, RowExtras
from monitor.store.evaluator.stored_detection import Crossing

BOTH = atom_text({"channel": "voice", "variety": "a"})


def stream(slice_: str, metric: Metric = Metric.TPR) -> Stream:
    group_by = "+".join(parse_atom(slice_))
    worse = Direction.SLICE_WORSE
    limit = Fraction("0.10")
    return Stream("replies", group_by, metric, StreamKind.GAP, slice_, COMPLEMENT, worse, limit)


VOICE, A, CELL, CHAT = map(stream, ("channel=voice", "variety=a", BOTH, "channel=chat"))
OTHER = stream(atom_text({"channel": "chat", "variety": "a"}))
"""A sibling of the cell: it has the same variety."""
FAULT = {BOTH, OTHER.slice}


@dataclass
class World:
    """Crossings as the detectors tell of them, and causes as they are at the time."""

    causes: Mapping[Stream, Stream] = field(default_factory=dict)
    book: IncidentBook = field(default_factory=IncidentBook)
    standing: dict[str, Crossing] = field(default_factory=dict)
    versions_changed_at: int | None = None
    settings_changed_at: int | None = None
    began: int | None = None
    at: int = 10 * DAY
    crossed: int = 0
    repaired: Collection[str] = ()
    firsts: list[int] = field(default_factory=list)
    one_fault: Collection[str] = ()

    def explain(self, crossed: Collection[Stream], first: int, until: int) -> Sequence[BreachCause]:
        assert until <= self.at, "never by what is yet to come"
        self.firsts.append(first)
        found: dict[Stream, list[Stream]] = {}
        for one in sorted(crossed):
            found.setdefault(self.causes.get(one, one), []).append(one)
        return [
            BreachCause(of.group_by, of.slice, Direction.SLICE_WORSE, Share.MOST, tuple(streams))
            for of, streams in found.items()
        ]

    def together(self, slices: tuple[str, str], stream: Stream, until: int) -> bool:
        """Whether both became worse at one time: asked only where it matters."""
        assert until <= self.at, "never by what is yet to come"
        assert share_value(*slices)
        return {*slices} <= {*self.one_fault}

    def step(
        self,
        *crossed: Stream,
        resolved: Sequence[Stream] = (),
        listed: tuple[Stream, ...] | None = None,
        new_day: bool = False,
    ) -> tuple[list[Incident], list[Incident]]:
        """An hour passes; what was opened, and what was changed."""
        self.at += HOUR
        ended = {self.standing.pop(one.key).id: self.at - HOUR for one in resolved}
        opened = []
        for one in crossed:
            self.crossed += 1
            hour = self.at // HOUR - 1
            opened.append(
                Crossing(self.crossed, one.key, hour, True, self.at, self.at, began=self.began)
            )
            self.standing[one.key] = opened[-1]
        step = IncidentStep(opened, ended, listed, self.repaired, self.at - HOUR, new_day)
        settings = [] if self.settings_changed_at is None else [self.settings_changed_at]
        changed_at = self.versions_changed_at
        around = RowExtras(self.explain, self.together, lambda *_: changed_at, settings, 77)
        change = self.book.follow(step, around)
        return list(change.opened), list(change.changed)


def test_crossings_of_one_cause_are_one_incident_that_names_it() -> None:
    world = World({VOICE: CELL, A: CELL})
    (first,), changed = world.step(VOICE)
    assert (first.id, first.kind, first.slice, first.share) == (
        1,
        IncidentKind.BREACH,
        BOTH,
        Share.MOST,
    )
    assert (first.opened_at, first.opened_wall, first.crossings) == (world.at, 77, (1,))
    assert changed == []

    opened, (grown,) = world.step(CELL, A)
    assert opened == []
    assert grown == replace(first, crossings=(1, 2, 3))
    assert world.book.standing == {1: grown}
    assert {one.slice for one in world.book.streams(grown)} == {"channel=voice", BOTH, "variety=a"}


def test_two_causes_are_two_incidents_at_once_and_one_after_the_other() -> None:
    at_once, later = World(), World()
    opened, _ = at_once.step(VOICE, A)
    assert [(one.id, one.slice) for one in opened] == [(1, "channel=voice"), (2, "variety=a")]
    later.step(VOICE)
    opened, changed = later.step(A)
    assert [(one.id, one.slice) for one in opened] == [(2, "variety=a")]
    assert changed == []


def test_metrics_and_contracts_are_never_mixed() -> None:
    world = World()
    other = replace(VOICE, contract="other")
    opened, _ = world.step(VOICE, stream("channel=voice", Metric.FPR), other)
    assert len(opened) == 3


def test_a_crossing_stays_where_it_was_put_when_it_is_explained_otherwise() -> None:
    world = World()
    world.step(VOICE)
    world.step(A)
    world.causes = {VOICE: CELL, A: CELL}
    opened, changed = world.step(CELL)
    assert opened == []
    assert [(one.id, one.crossings) for one in changed] == [(1, (1, 3))]
    assert world.book.standing[2].crossings == (2,)


def test_the_name_is_refined_once_a_day_and_what_was_first_shown_goes_with_it() -> None:
    world = World()
    (first,), _ = world.step(VOICE)
    world.causes = {VOICE: CELL}
    assert world.step() == ([], [])
    _, (renamed,) = world.step(new_day=True)
    assert renamed == replace(first, group_by="channel+variety", slice=BOTH)
    assert world.step(new_day=True) == ([], []), "it is named so already"


def test_it_ends_with_its_last_crossing_and_what_crosses_again_is_another() -> None:
    world = World({VOICE: CELL})
    world.step(CELL, VOICE)
    assert world.step(resolved=[VOICE]) == ([], [])
    _, (ended,) = world.step(resolved=[CELL])
    assert (ended.id, ended.resolved_at) == (1, world.at - HOUR)
    assert world.book.standing == {}
    (again,), _ = world.step(CELL)
    assert again.id == 2


def test_a_crossing_of_before_there_were_incidents_gets_one() -> None:
    world = World()
    old = Crossing(4, VOICE.key, 5, True, world.at - DAY, world.at - DAY)
    world.book.crossings[old.id] = world.standing[VOICE.key] = old
    (first,), _ = world.step()
    assert (first.slice, first.opened_at, first.crossings) == (
        "channel=voice",
        old.crossed_at,
        (4,),
    )
    assert world.step() == ([], [])


def act(number: int, action: Action, **more: object) -> Act:
    return Act(number, 5, action, "triage", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("outcome", [Outcome.FIXED, Outcome.NOT_REAL, Outcome.BAD_DATA])
def test_people_end_it_and_its_crossings(outcome: Outcome) -> None:
    world = World({VOICE: CELL})
    world.step(CELL, VOICE)
    world.step(A)
    world.book.set_acts({1: (act(1, Action.ACK), act(2, Action.CLOSE, outcome=outcome))})
    change, gone = world.book.close(lambda metric: world.at, 99)
    assert gone == {1, 2}
    assert [(one.id, one.resolved_at) for one in change.changed] == [(1, world.at)]
    assert list(world.book.standing) == [2]
    assert world.book.close(lambda metric: world.at, 99) == (type(change)(changed=[]), set())


def test_what_is_accepted_goes_on() -> None:
    world = World()
    (first,), _ = world.step(VOICE)
    accepted = act(1, Action.CLOSE, outcome=Outcome.ACCEPTED, until=200)
    world.book.set_acts({1: (accepted,)})
    assert world.book.close(lambda metric: world.at, 99)[1] == set()
    assert world.book.standing_of(first, 199).state is Stand.ACCEPTED
    assert world.book.standing_of(first, 200).state is Stand.OPEN


def test_what_changed_shortly_before_is_kept_and_what_changed_long_before_or_after_is_not() -> None:
    """Counted from when it began, which may be days before it crossed."""
    at = World().at + HOUR
    for days, began, kept in (
        *((1, at, True), (2, at, True), (3, at, False), (-1, at, False)),
        *((5, at - 3 * DAY, True), (6, at - 3 * DAY, False), (2, None, True), (3, None, False)),
    ):
        world = World(began=began)
        changed_at = world.at + HOUR - days * DAY
        world.versions_changed_at = world.settings_changed_at = changed_at
        (first,), _ = world.step(VOICE)
        expected = changed_at if kept else None
        assert (first.versions_changed_at, first.settings_changed_at) == (expected, expected)


def test_a_change_of_versions_that_is_found_later_is_learned() -> None:
    """Where an incident waited for no labels."""
    world = World()
    (first,), _ = world.step(VOICE)
    assert first.versions_changed_at is None
    world.versions_changed_at = first.opened_at - HOUR
    assert world.step() == ([], [])
    _, (learned,) = world.step(new_day=True)
    assert learned == replace(first, versions_changed_at=first.opened_at - HOUR)
    world.versions_changed_at = first.opened_at + DAY
    assert world.step(new_day=True) == ([], [])


def test_tickets_are_of_the_weekly_list_and_last_until_one_without_them() -> None:
    world = World({VOICE: CELL, CHAT: CHAT})
    world.step(A)
    opened, _ = world.step(listed=(VOICE, CELL, A))
    assert [(one.kind, one.slice, one.streams) for one in opened] == [
        (IncidentKind.LISTED, BOTH, tuple(sorted((VOICE.key, CELL.key))))
    ]
    opened, (kept,) = world.step(listed=(VOICE, CHAT))
    assert [one.slice for one in opened] == ["channel=chat"]
    assert (kept.id, kept.streams) == (2, (VOICE.key,))
    opened, ended = world.step(listed=())
    assert opened == []
    assert {one.id for one in ended if one.resolved_at == world.at - HOUR} == {2, 3}


def test_a_page_takes_the_place_of_a_ticket() -> None:
    world = World({VOICE: CELL})
    (ticket,), _ = world.step(listed=(VOICE, CELL))
    (page,), (over,) = world.step(VOICE)
    assert page.kind is IncidentKind.BREACH
    assert over == replace(ticket, resolved_at=world.at)
    opened, changed = world.step(CELL)
    assert opened == []
    assert [one.id for one in changed] == [page.id]
    assert world.step(listed=(VOICE, CELL)) == ([], [])


def test_what_crosses_in_the_hour_after_the_list_has_no_ticket() -> None:
    world = World({VOICE: CELL})
    (page,), changed = world.step(CELL, listed=(CELL, VOICE))
    assert (page.kind, page.resolved_at, changed) == (IncidentKind.BREACH, None, [])


def test_a_page_that_is_renamed_to_the_slice_of_a_ticket_takes_its_place() -> None:
    world = World()
    (page,), _ = world.step(VOICE)
    (ticket,), _ = world.step(listed=(CELL,))
    world.causes = {VOICE: CELL}
    _, (renamed, over) = world.step(new_day=True)
    assert (renamed.id, renamed.slice) == (page.id, ticket.slice)
    assert over == replace(ticket, resolved_at=world.at - HOUR)
    assert world.book.standing == {page.id: renamed}


def test_a_ticket_without_the_streams_that_are_paged_is_over_with_the_last_of_them() -> None:
    world = World({VOICE: CELL, A: CELL})
    (ticket,), _ = world.step(listed=(VOICE, A))
    world.causes = {}
    _, (smaller,) = world.step(VOICE)
    assert smaller == replace(ticket, streams=(A.key,))
    _, (over,) = world.step(A)
    assert over == replace(smaller, resolved_at=world.at)


def test_what_was_repaired_in_the_week_of_a_list_has_no_ticket() -> None:
    world = World(repaired={VOICE.key})
    opened, _ = world.step(listed=(VOICE, A))
    assert [one.slice for one in opened] == ["variety=a"]


def test_a_harm_has_one_ticket_whichever_side_of_it_is_listed_when() -> None:
    """Chat is ahead of voice: its stream tells of the same harm, and may be listed later."""
    ahead = replace(CHAT, direction=Direction.REFERENCE_WORSE)
    world = World({ahead: VOICE})
    (ticket,), _ = world.step(listed=(VOICE,))
    opened, (grown,) = world.step(listed=(VOICE, ahead))
    assert opened == []
    assert grown == replace(ticket, streams=tuple(sorted((VOICE.key, ahead.key))))


def test_the_other_side_of_what_was_repaired_has_no_ticket_either() -> None:
    ahead = replace(CHAT, direction=Direction.REFERENCE_WORSE)
    world = World({ahead: VOICE}, repaired={VOICE.key, ""})
    assert world.step(listed=(ahead,)) == ([], [])


def test_a_sibling_that_became_worse_at_the_same_time_joins_and_is_named() -> None:
    world = World({A: CELL}, one_fault=FAULT)
    (first,), _ = world.step(A)
    opened, (grown,) = world.step(OTHER)
    assert opened == []
    assert grown == replace(first, crossings=(1, 2), further=(OTHER.slice,))
    assert grown.slices == (BOTH, OTHER.slice)
    assert world.step(CELL, new_day=True)[0] == []
    assert world.book.standing[1] == replace(grown, crossings=(1, 2, 3)), "both are named still"


def test_siblings_that_cross_at_once_are_one_incident() -> None:
    world = World(one_fault=FAULT)
    (only,), changed = world.step(CELL, OTHER)
    assert (only.slices, only.crossings, changed) == ((OTHER.slice, BOTH), (1, 2), [])


def test_a_sibling_that_became_worse_later_is_an_incident_at_once() -> None:
    world = World()
    (first,), _ = world.step(CELL)
    (second,), changed = world.step(OTHER)
    assert (first.slices, second.slices, changed) == ((BOTH,), (OTHER.slice,), [])


def test_a_slice_without_a_common_value_is_an_incident_at_once() -> None:
    """Whether it began together is not asked."""
    world = World(one_fault={"channel=voice", "variety=a"})
    world.step(VOICE)
    (second,), changed = world.step(A)
    assert (second.slices, changed) == (("variety=a",), [])


def test_nothing_joins_what_is_accepted_and_a_sibling_pages() -> None:
    world = World(one_fault=FAULT)
    world.step(CELL)
    accepted = act(1, Action.CLOSE, outcome=Outcome.ACCEPTED, until=200)
    world.book.set_acts({1: (accepted,)})
    (second,), changed = world.step(OTHER)
    assert (second.id, second.slices, changed) == (2, (OTHER.slice,), [])


def test_it_ends_when_all_its_slices_are_within_their_limits() -> None:
    world = World(one_fault=FAULT)
    world.step(CELL)
    world.step(OTHER)
    assert world.step(resolved=[CELL]) == ([], [])
    _, (renamed,) = world.step(new_day=True)
    assert (renamed.slices, renamed.resolved_at) == ((OTHER.slice,), None)
    _, (ended,) = world.step(resolved=[OTHER])
    assert ended.resolved_at == world.at - HOUR


def test_several_causes_of_one_incident_are_all_named() -> None:
    """Whichever slice was named first stays the main one."""
    world = World({VOICE: CELL, A: CELL})
    (first,), _ = world.step(VOICE, A)
    world.causes = {VOICE: CELL, A: OTHER}
    _, (renamed,) = world.step(new_day=True)
    assert renamed == replace(first, further=(OTHER.slice,))


def test_a_listed_sibling_is_named_by_the_page_and_has_a_ticket_once_that_is_over() -> None:
    world = World(one_fault=FAULT)
    (page,), _ = world.step(CELL)
    opened, (grown,) = world.step(listed=(CELL, OTHER))
    assert opened == []
    assert grown == replace(page, further=(OTHER.slice,), streams=(OTHER.key,))
    assert world.step(new_day=True) == ([], [])
    assert world.book.streams(grown) == [CELL], "a list wakes nobody"
    (ticket,), (over,) = world.step(resolved=[CELL])
    assert over == replace(grown, resolved_at=world.at - HOUR)
    assert (ticket.kind, ticket.slice) == (IncidentKind.LISTED, OTHER.slice)


def test_a_listed_sibling_leaves_the_page_with_the_list_or_by_crossing() -> None:
    world = World(one_fault=FAULT)
    world.step(CELL)
    world.step(listed=(OTHER,))
    _, (without,) = world.step(listed=())
    assert without.streams == ()
    world.step(listed=(OTHER,))
    opened, (crossed,) = world.step(OTHER)
    assert (opened, crossed.streams, crossed.crossings) == ([], (), (1, 2))


def test_listed_siblings_are_one_ticket_and_the_page_that_takes_its_place_names_both() -> None:
    world = World(one_fault=FAULT)
    (ticket,), _ = world.step(listed=(CELL, OTHER))
    assert (ticket.kind, ticket.slices) == (IncidentKind.LISTED, (OTHER.slice, BOTH))
    (page,), (over,) = world.step(CELL)
    assert over == replace(ticket, resolved_at=world.at)
    assert (page.kind, page.slices, page.streams) == (
        IncidentKind.BREACH,
        (BOTH, OTHER.slice),
        (OTHER.key,),
    )


def test_a_page_takes_the_place_of_the_ticket_of_a_sibling() -> None:
    world = World(one_fault=FAULT)
    (ticket,), _ = world.step(listed=(OTHER,))
    (page,), (over,) = world.step(CELL)
    assert over == replace(ticket, resolved_at=world.at)
    assert (page.slices, page.streams) == ((BOTH, OTHER.slice), (OTHER.key,))


@given(st.data())
def test_joining_loses_no_crossing_and_adds_no_page(data: st.DataObject) -> None:
    """Whatever crosses when, by whichever causes, and whatever began together."""
    streams = [VOICE, A, CELL, CHAT, OTHER]
    some = st.lists(st.sampled_from(streams), unique=True)
    apart, joining = World(), World(one_fault=data.draw(some.map(lambda s: {x.slice for x in s})))
    pages = {id(world): 0 for world in (apart, joining)}
    for _ in range(data.draw(st.integers(1, 6))):
        causes = {x: data.draw(st.sampled_from([x, CELL, OTHER])) for x in streams}
        crossed = [x for x in data.draw(some) if x.key not in joining.standing]
        over = [x for x in data.draw(some) if x.key in joining.standing]
        listed = data.draw(st.none() | some.map(tuple))
        new_day = data.draw(st.booleans())
        for world in (apart, joining):
            world.causes = causes
            opened, _ = world.step(*crossed, resolved=over, listed=listed, new_day=new_day)
            pages[id(world)] += sum(incident.kind is IncidentKind.BREACH for incident in opened)
            open_pages = [
                incident
                for incident in world.book.standing.values()
                if incident.kind is IncidentKind.BREACH
            ]
            kept = [number for incident in open_pages for number in incident.crossings]
            standing = [crossing.id for crossing in world.standing.values()]
            assert set(standing) <= set(kept), "each has an incident"
            assert len(kept) == len(set(kept)), "and only one"
            assert all(not {*standing}.isdisjoint(page.crossings) for page in open_pages)
    assert pages[id(joining)] <= pages[id(apart)]
