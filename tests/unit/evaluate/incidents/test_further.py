"""How an incident of several slices is shown: by those that a published table shows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction

import pytest
from cubes import CODING, build_contract, contract

from monitor.core.contract import COMPLEMENT, GroupBy
from monitor.core.metric import Metric
from monitor.core.publish.annotations import IncidentKind, Share
from monitor.core.publish.incidents import Incident, Stand, Standing
from monitor.core.publish.snapshot import (
    WITHHELD,
    GroupTable,
    PublishedValue,
    ShownIncident,
    SliceRow,
    WindowTable,
)
from monitor.core.state import State
from monitor.detection.pages.streams import Direction, Stream, StreamKind
from monitor.evaluate.incidents.shown import IncidentView, ShownIncidents, TableContext

CHAT, EMAIL, PHONE = (f"channel={channel},language=de" for channel in ("chat", "email", "phone"))
GERMAN = "language=de"
PAIRS, LANGUAGES = GroupBy(("channel", "language")), GroupBy(("language",))
CONTRACT = contract(LANGUAGES, PAIRS)
INCIDENT = Incident(
    1, IncidentKind.BREACH, "replies", Metric.TPR, 0, 0, PAIRS.name, CHAT, Share.MOST,
    first=PublishedValue(0.3, 0.2, 0.4, 9), began=0, further=(EMAIL, PHONE),
)  # fmt: skip


def stream(text: str) -> Stream:
    group, limit = LANGUAGES if text == GERMAN else PAIRS, Fraction(1, 10)
    return Stream(
        "replies", group.name, Metric.TPR, StreamKind.GAP, text, COMPLEMENT,
        Direction.SLICE_WORSE, limit,
    )  # fmt: skip


def shown(incident: Incident, named: Collection[str]) -> ShownIncident:
    """As it is shown where a table shows these slices."""
    tables = [
        GroupTable(group.name, tuple(SliceRow(text, {Metric.TPR: State.BREACH}) for text in texts))
        for group, texts in ((LANGUAGES, [GERMAN]), (PAIRS, [CHAT, EMAIL, PHONE]))
    ]
    window = WindowTable("7d", SliceRow("", {}), tuple(tables))
    table = replace(build_contract(CONTRACT, CODING, []), windows=(window,))
    context = TableContext(CONTRACT, "", 0, None, lambda *_: None, named.__contains__)
    streams = [stream(text) for text in (GERMAN, CHAT, EMAIL, PHONE)]
    view = IncidentView(incident, Standing(Stand.OPEN), streams, CONTRACT)
    (only,) = ShownIncidents(table, context).shown([view])
    return only


@pytest.mark.parametrize(
    ("named", "further"),
    [
        ((CHAT, EMAIL, PHONE, GERMAN), (EMAIL, PHONE)),
        ((CHAT, PHONE, GERMAN), (PHONE, WITHHELD)),
        ((CHAT, GERMAN), (WITHHELD,)),
    ],
)
def test_further_slices_are_named_or_withheld(named: tuple[str, ...], further: object) -> None:
    incident = shown(INCIDENT, named)
    assert (incident.slice, incident.further) == (CHAT, further)
    assert (incident.first, incident.share) == (INCIDENT.first, Share.MOST)
    assert incident.inherited == (GERMAN,), "a slice that explains inherits nothing"


def test_where_the_main_slice_is_hidden_another_names_the_incident() -> None:
    """What was shown first, and the share, are of the hidden one."""
    incident = shown(INCIDENT, (PHONE,))
    assert (incident.group_by, incident.slice) == (PAIRS.name, PHONE)
    assert incident.further == (WITHHELD,)
    assert (incident.first, incident.share, incident.began) == (None, None, None)


def test_where_all_are_hidden_nothing_tells_how_many_they_are() -> None:
    alone = replace(INCIDENT, further=())
    assert shown(INCIDENT, (GERMAN,)) == shown(alone, (GERMAN,))
    assert (shown(alone, ()).slice, shown(alone, ()).further) == (WITHHELD, ())
