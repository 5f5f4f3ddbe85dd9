"""Settings of tables: rows and parts follow from them, and they are stored as text."""

from __future__ import annotations

from dataclasses import replace

from calendars import CODING, CONTRACT

from monitor.core.contract import GroupBy
from monitor.core.counts.cells import Route
from monitor.core.tables.reader import Measure
from monitor.core.tables.settings import Part, TableSettings, parts_of_routes
from monitor.core.tables.spans import ANCHOR, Span, SpanKind

AUTO = Part(Route.AUTO_SERVE, 0.05)
REVIEW = Part(Route.HUMAN_REVIEW, 1.0)
BLOCKED = Part(Route.BLOCKED_BY_EVIDENCE)
SETTINGS = replace(TableSettings.from_contract(CONTRACT, CODING), parts=(AUTO, REVIEW, BLOCKED))


def test_rows_are_all_values_of_all_group_bys() -> None:
    rows = [str(row) for row in SETTINGS.layout_of(SpanKind.DAY).rows]
    assert rows[:3] == ["", "city=__missing__", "city=__other__"] or len(rows) == 9
    assert {"city=oslo", "city=rome", "tier=a", "tier=__missing__"} <= set(rows)


def test_complements_have_rows_where_something_is_compared_with_them() -> None:
    with_rest = replace(CONTRACT, group_bys=(GroupBy(("city",)),))
    rows = {
        str(row)
        for row in TableSettings.from_contract(with_rest, CODING).layout_of(SpanKind.DAY).rows
    }
    assert "all but city=oslo" in rows
    assert not any(str(row).startswith("all but") for row in SETTINGS.layout_of(SpanKind.DAY).rows)


def test_settings_are_read_as_they_were_written() -> None:
    other = replace(SETTINGS, where=(("tier", "a"),), offset=-5, bands=4, complements=True)
    for settings in (SETTINGS, other):
        assert TableSettings.parse(settings.text) == settings
    assert SETTINGS.digest != other.digest
    assert TableSettings.parse(SETTINGS.text).digest == SETTINGS.digest


def test_an_atom_has_the_values_that_were_listed_when_the_span_began() -> None:
    assert SETTINGS.placed("channel=chat,city=oslo,tier=c") == "city=oslo,tier=__other__"
    assert SETTINGS.placed("city=rome") == "city=rome,tier=__missing__"
    assert replace(SETTINGS, where=(("city", "oslo"),)).placed("city=rome,tier=a") is None


def test_label_tables_have_the_reviewed_parts_named_alike() -> None:
    span = Span.containing(ANCHOR, SpanKind.DAY)
    assert SETTINGS.frame(span).parts == ("auto_serve@0.05", "human_review@1", BLOCKED.name)
    assert SETTINGS.frame(span, Measure.READY).parts == ("auto_serve@0.05", "human_review@1")


def test_settings_know_whether_they_name_something() -> None:
    assert SETTINGS.lists({("tier", None)})
    assert SETTINGS.lists({("city", "rome")})
    assert not SETTINGS.lists({("city", "bergen"), ("channel", None)})


def test_every_route_keeps_a_part() -> None:
    half = Part(Route.AUTO_SERVE, 0.5)
    unchecked = Part(Route.AUTO_SERVE)
    assert parts_of_routes({unchecked}, (half, REVIEW)) == (half, unchecked, REVIEW, BLOCKED)
    assert parts_of_routes({AUTO, half}, (half,)) == (
        half,
        AUTO,
        Part(Route.HUMAN_REVIEW, 1.0),
        BLOCKED,
    )
    assert unchecked.name == "auto_serve without evidence"
