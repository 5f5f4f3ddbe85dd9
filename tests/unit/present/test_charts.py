"""Charts are drawn where their numbers are, and nothing is drawn of what is withheld."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from drawn_cells import CELL, RATE

from monitor.core.publish.history import HistoryPoint
from monitor.core.publish.snapshot import ShownGap
from monitor.core.state import State
from monitor.present import charts
from monitor.web.contents import BandContent

POINT = HistoryPoint(
    day=date(2026, 1, 1),
    ends_at=datetime(2026, 1, 1, tzinfo=UTC),
    version="1",
    limit=0.1,
    state=State.INCONCLUSIVE,
    value=0.8,
    lower=0.75,
    upper=0.85,
    at_least=None,
    at_most=None,
    support=100,
    reference="complement",
    gap=0.05,
    gap_lower=0.0,
    gap_upper=0.1,
    verdict=None,
)


def parts(markup: str, kind: str) -> list[dict[str, str]]:
    tree = ET.fromstring(markup)
    return [one.attrib for one in tree.iter() if one.attrib.get("class", "").split()[:1] == [kind]]


def test_a_gap_is_drawn_to_scale_with_what_the_contract_allows() -> None:
    markup = charts.gap_strip(CELL, 0.4)  # 200 units for 80 points: 2.5 a point, 0 in the middle
    (allowed,), (interval,), (mark,) = (parts(markup, k) for k in ("allowed", "range", "mark"))
    assert (allowed["x"], allowed["width"]) == ("75.0", "50.0")
    assert (interval["x1"], interval["x2"]) == ("75.0", "150.0")
    assert mark["cx"] == "112.5"
    assert [line["x1"] for line in parts(markup, "limit")] == ["75.0", "125.0"]
    assert 'aria-label="gap +5 [-10 to +20] points; limit 10 points"' in markup


def test_a_trend_is_drawn_to_scale_and_interrupted_where_nothing_was_shown() -> None:
    first = date(2026, 1, 1)
    trend = [(first + timedelta(days=day), rate) for day, rate in ((0, 0.8), (1, 0.9), (27, 0.7))]
    markup = charts.sparkline(trend, first + timedelta(days=27), (0.7, 0.9))
    lines, (dot,) = parts(markup, "line"), parts(markup, "dot")
    assert [line["points"] for line in lines] == ["4.0,14.0 8.1,4.0", "116.0,24.0"]
    assert (dot["cx"], dot["cy"]) == ("116.0", "24.0")
    assert 'aria-label="80 % on 2026-01-01, 70 % on 2026-01-28"' in markup
    assert not charts.sparkline(trend[:1], first, (0.0, 1.0)), "a single day is no trend"


def test_the_axis_of_gaps_names_its_ends() -> None:
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", charts.gap_axis(0.3))
    assert texts == ["-30", "gap in points", "+30"]


def test_what_is_outside_has_another_shape_not_only_another_colour() -> None:
    inside, outside = (
        charts.gap_strip(replace(CELL, state=state), 0.4)
        for state in (State.WITHIN_CONTRACT, State.BREACH)
    )
    assert ("<circle" in inside, "<circle" in outside, "<path" in outside) == (True, False, True)


def test_bounds_beyond_the_scale_end_at_its_edge() -> None:
    markup = charts.gap_strip(replace(CELL, gap=ShownGap("complement", None, -1.0, 1.0)), 0.1)
    (interval,) = parts(markup, "range")
    assert (interval["x1"], interval["x2"]) == ("0.0", "200.0")
    assert parts(markup, "mark") == []


def test_a_hidden_cell_is_hatched_alike_whatever_it_is() -> None:
    gap = ShownGap("complement", 0.31, 0.29, 0.33)
    one, other = (
        charts.gap_strip(replace(CELL, rate=None, gap=g, max_gap=m), s)
        for g, m, s in ((None, None, 0.1), (gap, 0.2, 0.9))
    )
    assert one == other
    assert re.findall(r"0\.\d|31|29|33", one) == []


@pytest.mark.parametrize(
    ("sizes", "scale"), [([], 0.1), ([0.11], 0.15), ([0.15], 0.15), ([0.3], 0.3), ([3.0], 1.0)]
)
def test_scales_are_multiples_of_five_points(sizes: list[float], scale: float) -> None:
    assert charts.gap_scale(sizes) == pytest.approx(scale)


def _days(*points: HistoryPoint) -> list[HistoryPoint]:
    return [
        replace(point, ends_at=datetime(2026, 1, day, tzinfo=UTC), day=date(2026, 1, day))
        for day, point in enumerate(points, 1)
    ]


def test_history_is_interrupted_where_nothing_was_shown() -> None:
    blank = replace(POINT, value=None, lower=None, upper=None, gap_lower=None, gap_upper=None)
    markup = charts.rate_history(_days(POINT, POINT, blank, POINT), ())
    assert len(parts(markup, "band")) == len(parts(markup, "line")) == 2
    assert len(parts(markup, "dot")) == 3
    assert charts.rate_history(_days(blank), ()) == charts.rate_history([], ()) == ""


def test_a_point_is_drawn_at_the_end_of_its_data_not_on_the_day_of_publication() -> None:
    first, second, third = _days(POINT, POINT, POINT)
    late = replace(second, ends_at=datetime(2026, 1, 1, 12, tzinfo=UTC))
    xs = [
        [float(dot["cx"]) for dot in parts(charts.rate_history(days, ()), "dot")]
        for days in ((first, second, third), (first, late, third))
    ]
    assert xs[0][1] == pytest.approx((xs[0][0] + xs[0][2]) / 2, abs=0.1)
    assert xs[1][1] == pytest.approx(xs[0][0] + (xs[0][2] - xs[0][0]) / 4, abs=0.1)


def test_gaps_are_drawn_between_their_limits_with_round_ticks() -> None:
    high = replace(POINT, gap=0.33, gap_lower=0.28, gap_upper=0.37)
    markup = charts.gap_history(_days(POINT, high), ())
    assert len(parts(markup, "limit")) == 2
    ticks = [int(t) for t in re.findall(r'text-anchor="end">(-?\d+)</text>', markup)]
    assert ticks == [-10, 0, 10, 20, 30, 40]


def test_incidents_are_marked_where_they_began_and_named_safely() -> None:
    days = _days(POINT, POINT, POINT)
    inside = charts.Mark(datetime(2026, 1, 2, tzinfo=UTC), "incident", "<b>1</b>")
    outside = charts.Mark(datetime(2025, 1, 2, tzinfo=UTC), "incident", "2")
    markup = charts.rate_history(days, (inside, outside))
    assert len(parts(markup, "event")) == 1
    assert "<title>&lt;b&gt;1&lt;/b&gt;</title>" in markup


def test_calibration_hatches_what_was_too_seldom_labelled() -> None:
    markup = charts.calibration((BandContent("below 0.70", RATE), BandContent("no score", None)))
    assert (len(parts(markup, "hatch")), len(parts(markup, "dot"))) == (1, 1)
    assert "score no score: too few labels" in markup
    assert charts.calibration(()) == ""
