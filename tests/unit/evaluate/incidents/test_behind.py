"""Who is worse off in an incident, by what crossed and by the one sign of all gaps."""

from __future__ import annotations

from fractions import Fraction

import pytest

from monitor.core.contract import Metric, State
from monitor.core.publish.annotations import Behind, IncidentKind
from monitor.core.publish.incidents import Incident, Stand, Standing
from monitor.core.publish.snapshot import ShownGap, SliceRow
from monitor.detection.pages.streams import Direction, Stream, StreamKind
from monitor.evaluate.incidents.shown import IncidentView, _behind

CHAT, EMAIL = "channel=chat", "channel=email"
SLICE, REFERENCE = Direction.SLICE_WORSE, Direction.REFERENCE_WORSE
GAP, LEVEL = StreamKind.GAP, StreamKind.LEVEL


def stream(direction: Direction, text: str = CHAT, kind: StreamKind = GAP) -> Stream:
    reference = "complement" if kind is GAP else ""
    limit = Fraction(1, 10)
    return Stream("replies", "channel", Metric.FPR, kind, text, reference, direction, limit)


def behind(*streams: Stream, gap: float | None) -> Behind | None:
    incident = Incident(1, IncidentKind.PAGE, "replies", Metric.FPR, 0, 0, "channel", CHAT)
    gaps = {Metric.FPR: ShownGap("complement", gap, -1.0, 1.0)}
    row = SliceRow(CHAT, {Metric.FPR: State.BREACH}, gaps=gaps)
    return _behind(IncidentView(incident, Standing(Stand.OPEN), streams), row)


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
