"""Who is worse off in an incident, which limit is broken, and who hears of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from cubes import CODING, build_contract, contract

from monitor.core.contract import DEFAULT_PAGE_ON, GroupBy, Severity
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Annotation, Behind, IncidentKind
from monitor.core.publish.incidents import Incident, Stand, Standing
from monitor.core.publish.snapshot import (
    WITHHELD,
    ComponentChange,
    GroupTable,
    LimitKind,
    Noted,
    Period,
    PublishedValue,
    ShownGap,
    ShownLimit,
    SliceRow,
    WindowTable,
)
from monitor.core.state import State
from monitor.detection.pages.streams import Direction, Stream, StreamKind
from monitor.evaluate.incidents.shown import (
    IncidentView,
    ShownIncidents,
    TableContext,
    _behind,
    _limit,
)

CHAT, EMAIL = "channel=chat", "channel=email"
SLICE, REFERENCE = Direction.SLICE_WORSE, Direction.REFERENCE_WORSE
GAP, LEVEL, RATIO = StreamKind.GAP, StreamKind.LEVEL, StreamKind.RATIO


def stream(direction: Direction, text: str = CHAT, kind: StreamKind = GAP) -> Stream:
    reference = "" if kind is LEVEL else "complement"
    limit = Fraction(1, 10)
    return Stream("replies", "channel", Metric.FPR, kind, text, reference, direction, limit)


def always(_: str) -> bool:
    """Whether a slice may be named: always."""
    return True


def view(*streams: Stream) -> IncidentView:
    incident = Incident(1, IncidentKind.BREACH, "replies", Metric.FPR, 0, 0, "channel", CHAT)
    return IncidentView(incident, Standing(Stand.OPEN), streams, contract(GroupBy(("channel",))))


def behind(*streams: Stream, gap: float | None) -> Behind | None:
    return _behind(view(*streams), ShownGap("complement", gap, -1.0, 1.0))


TICKET, PAGE = Severity.TICKET, Severity.PAGE


@pytest.mark.parametrize(
    ("page_on", "severity", "limit"),
    [
        (("max_fpr_gap",), PAGE, LimitKind.MAX_GAP),
        (("max_tpr_gap", "max_fpr_gap"), PAGE, LimitKind.MAX_GAP),
        (("max_fpr",), PAGE, LimitKind.MAX_LEVEL),  # the gap alone is a ticket
        (DEFAULT_PAGE_ON, TICKET, LimitKind.MAX_GAP),
        ((), TICKET, LimitKind.MAX_GAP),
    ],
)
def test_a_breach_wakes_somebody_where_its_limit_pages_and_tells_of_that_limit(
    page_on: tuple[str, ...], severity: Severity, limit: LimitKind
) -> None:
    of_fpr = replace(contract(GroupBy(("channel",))), page_on=page_on)
    row = SliceRow(CHAT, {Metric.FPR: State.BREACH})
    window = WindowTable("7d", SliceRow("", {}), (GroupTable("channel", (row,)),))
    table = replace(build_contract(of_fpr, CODING, []), windows=(window,))
    incidents = ShownIncidents(table, TableContext(of_fpr, "", 0, None, lambda *_: None, always))
    crossed = view(stream(SLICE), stream(SLICE, kind=LEVEL))
    (shown,) = incidents.shown([replace(crossed, contract=of_fpr)])
    assert shown.severity is severity
    assert shown.limit is not None
    assert shown.limit.kind is limit
    listed = replace(crossed.incident, kind=IncidentKind.LISTED)
    (ticket,) = incidents.shown([replace(crossed, contract=of_fpr, incident=listed)])
    assert ticket.severity is TICKET


CHANGED, REPORTED = 40, 60
POLICY = (ComponentChange("policy", "p1", "p2"),)


@pytest.mark.parametrize(
    ("changed_at", "noted", "last", "expected"),
    [
        (None, False, None, (None, ())),  # none changed
        (None, True, CHANGED, (None, ())),  # only after it
        (CHANGED, True, CHANGED, (REPORTED, POLICY)),
        (CHANGED, False, CHANGED, (None, ())),  # not published yet: not that none changed
        (CHANGED, True, CHANGED + 1, (None, ())),  # the row tells of a later one
    ],
)
def test_an_incident_tells_of_the_versions_that_changed_before_it_alone(
    changed_at: int | None, noted: bool, last: int | None, expected: tuple[object, ...]
) -> None:
    of_fpr = contract(GroupBy(("channel",)))
    note = (Noted(Annotation.VERSION_CHANGE, None, 1, REPORTED),) if noted else ()
    row = SliceRow(CHAT, {Metric.FPR: State.BREACH}, noted=note, versions_changed=POLICY)
    window = WindowTable("7d", SliceRow("", {}), (GroupTable("channel", (row,)),))
    table = replace(build_contract(of_fpr, CODING, []), windows=(window,))
    pages = ShownIncidents(table, TableContext(of_fpr, "", 0, None, lambda *_: last, always))
    incident = Incident(
        *(1, IncidentKind.BREACH, "replies", Metric.FPR, 50, 0, "channel", CHAT),
        versions_changed_at=changed_at,
    )
    seen = IncidentView(incident, Standing(Stand.OPEN), (stream(SLICE),), of_fpr)
    (shown,) = pages.shown([seen])
    told = shown.versions_changed_at, shown.versions_changed
    assert told == expected


@pytest.mark.parametrize(("shown_of", "expected"), [(CHAT, CHAT), (EMAIL, WITHHELD)])
def test_a_slice_that_an_older_table_shows_is_named_before_the_window_does(
    shown_of: str, expected: str
) -> None:
    of_fpr = contract(GroupBy(("channel",)))
    row = SliceRow(CHAT, {Metric.FPR: State.SUPPRESSED})
    window = WindowTable("7d", SliceRow("", {}), (GroupTable("channel", (row,)),))
    table = replace(build_contract(of_fpr, CODING, []), windows=(window,))
    beside = TableContext(of_fpr, "", 0, None, lambda *_: None, lambda text: text == shown_of)
    (shown,) = ShownIncidents(table, beside).shown([view(stream(SLICE))])
    assert (shown.slice, shown.latest) == (expected, None)


@pytest.mark.parametrize(
    ("streams", "gap", "expected"),
    [
        ((stream(SLICE),), 0.2, Behind.SLICE),
        ((stream(REFERENCE),), -0.2, Behind.REFERENCE),
        # The window may show the contrary for a while: what crossed was tested.
        ((stream(SLICE),), -0.01, Behind.SLICE),
        ((stream(SLICE), stream(SLICE, kind=LEVEL)), 0.2, Behind.SLICE),
        ((stream(SLICE, kind=LEVEL),), 0.2, Behind.LEVEL),
        # Only others crossed: this slice explains them, and its gap says how.
        ((stream(REFERENCE, EMAIL),), 0.2, Behind.SLICE),
        ((stream(SLICE, EMAIL),), -0.2, Behind.REFERENCE),
        ((stream(SLICE, EMAIL),), None, None),
        ((stream(SLICE), stream(REFERENCE)), 0.0, None),
        # Chat is the named reference, and email is ahead of it.
        ((replace(stream(REFERENCE, EMAIL), reference=CHAT),), None, Behind.SLICE),
    ],
)
def test_who_is_behind(
    streams: tuple[Stream, ...], gap: float | None, expected: Behind | None
) -> None:
    assert behind(*streams, gap=gap) is expected


def test_the_limit_of_an_incident_is_that_of_the_stream_that_crossed() -> None:
    """The slice that is named may have a looser one: the other side of its comparison crossed."""
    crossed = replace(stream(REFERENCE, EMAIL), limit=Fraction(1, 20))
    assert _limit(view(crossed)) == ShownLimit(LimitKind.MAX_GAP, 0.05)


def test_an_incident_of_a_named_reference_has_the_gap_to_the_slice_that_is_ahead() -> None:
    of_fpr = contract(GroupBy(("channel",), CHAT))
    ahead = SliceRow(
        EMAIL, {Metric.FPR: State.BETTER_OFF}, gaps={Metric.FPR: ShownGap(CHAT, -0.2, -0.3, -0.15)}
    )
    named = SliceRow(CHAT, {Metric.FPR: State.BREACH})
    group = GroupTable("channel", (named, ahead), labelled=Period(0, 40))
    window = WindowTable("7d", SliceRow("", {}), (group,))
    table = replace(build_contract(of_fpr, CODING, []), windows=(window,))
    pages = ShownIncidents(table, TableContext(of_fpr, "", 0, None, lambda *_: None, always))
    crossed = replace(stream(REFERENCE, EMAIL), reference=CHAT)
    (shown,) = pages.shown([view(crossed)])
    assert shown.latest == PublishedValue(0.2, 0.15, 0.3, 40)
    assert shown.behind is Behind.SLICE


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        ((stream(SLICE, kind=RATIO), stream(SLICE)), LimitKind.MIN_RATIO),
        ((stream(SLICE, EMAIL, RATIO), stream(REFERENCE)), LimitKind.MAX_GAP),
        ((stream(SLICE, EMAIL, RATIO),), LimitKind.MIN_RATIO),
        # What is shown of an incident is a gap as soon as one has crossed.
        ((stream(SLICE, kind=LEVEL), stream(SLICE)), LimitKind.MAX_GAP),
        ((stream(SLICE, kind=LEVEL),), LimitKind.MAX_LEVEL),
    ],
)
def test_which_limit_is_broken(streams: tuple[Stream, ...], expected: LimitKind) -> None:
    deciding = view(*streams).deciding
    assert deciding is not None
    assert deciding.limit_kind is expected
