"""Who is worse off in an incident, and which limit is broken, by what crossed."""

from __future__ import annotations

from fractions import Fraction

import pytest

from monitor.core.contract import Metric, State
from monitor.core.publish.annotations import Behind, IncidentKind
from monitor.core.publish.incidents import Incident, Stand, Standing
from monitor.core.publish.snapshot import LimitKind, ShownGap, SliceRow
from monitor.detection.pages.streams import Direction, Stream, StreamKind
from monitor.evaluate.incidents.shown import IncidentView, _behind

CHAT, EMAIL = "channel=chat", "channel=email"
SLICE, REFERENCE = Direction.SLICE_WORSE, Direction.REFERENCE_WORSE
GAP, LEVEL, RATIO = StreamKind.GAP, StreamKind.LEVEL, StreamKind.RATIO


def stream(direction: Direction, text: str = CHAT, kind: StreamKind = GAP) -> Stream:
    reference = "" if kind is LEVEL else "complement"
    limit = Fraction(1, 10)
    return Stream("replies", "channel", Metric.FPR, kind, text, reference, direction, limit)


def view(*streams: Stream) -> IncidentView:
    incident = Incident(1, IncidentKind.PAGE, "replies", Metric.FPR, 0, 0, "channel", CHAT)
    return IncidentView(incident, Standing(Stand.OPEN), streams)


def behind(*streams: Stream, gap: float | None) -> Behind | None:
    gaps = {Metric.FPR: ShownGap("complement", gap, -1.0, 1.0)}
    row = SliceRow(CHAT, {Metric.FPR: State.BREACH}, gaps=gaps)
    return _behind(view(*streams), row)


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
    ],
)
def test_who_is_behind(
    streams: tuple[Stream, ...], gap: float | None, expected: Behind | None
) -> None:
    assert behind(*streams, gap=gap) is expected


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
