"""Plots: well-formed, said in words too, hatched and without a number where nothing is known."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from markupsafe import Markup

from monitor.core.contract import Metric, State
from monitor.core.publish.lines import Cell
from monitor.core.publish.snapshot import CalibrationCell, ShownGap, ShownRate
from monitor.drawing import plots

RATE = ShownRate(0.83, 0.79, 0.87, 120)
CELL = Cell(
    metric=Metric.TPR,
    role=None,
    state=State.WITHIN_CONTRACT,
    rate=RATE,
    gap=ShownGap("complement", 0.05, -0.1, 0.2),
    mirror_of="",
    max_gap=0.1,
    min_ratio=None,
    min_level=0.8,
    max_level=None,
    decided_by=None,
    ends_at=None,
    why="",
    until="",
    breach_since=None,
    evidence=None,
)
HIDDEN = replace(CELL, state=State.SUPPRESSED, rate=None, gap=None)
FEW = replace(CELL, state=State.INSUFFICIENT_SUPPORT)
BANDS = (
    CalibrationCell("below 0.70", RATE),
    CalibrationCell("0.70 to 0.90", None),
    CalibrationCell("0.90 and above", ShownRate(0.9, 0.85, 0.95, 90)),
)
LONG = "channel=" + "x" * 60
EVIL = "channel=<script>&"


def classes(drawing: Markup) -> list[str]:
    """The classes of all elements; the drawing has to be XML."""
    root = ET.fromstring(str(drawing))
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"]
    title, said = root[0], root[1]
    assert (title.tag, said.tag) == ("title", "desc")
    assert title.text
    assert said.text
    return [one.attrib["class"] for one in root.iter() if "class" in one.attrib]


def test_rates_are_drawn_with_intervals_and_hidden_ones_hatched() -> None:
    cells = [("a", CELL), ("b", HIDDEN), (LONG, replace(CELL, state=State.SUSPECTED))]
    drawn = plots.rates("TPR by channel", cells)
    found = classes(drawn)
    assert found.count("range") == found.count("mark") == found.count("allowed") == 2
    assert found.count("hatch") == 1
    assert "b: hidden" in drawn
    assert "a: 83 % (79 to 87 %)" in drawn
    assert "<path" in drawn, "a diamond is outside the limit"
    assert f"<title>{LONG}</title>" in drawn


def test_a_plot_of_nothing_is_no_plot() -> None:
    assert plots.rates("t", [("a", HIDDEN)]) == ""
    assert plots.calibration("t", [("a", ())]) == ""
    assert plots.heat_map("t", [], [], {}) == ""


def test_a_plot_has_a_size_whatever_it_is_given() -> None:
    many = [(f"a={n}", CELL) for n in range(500)]
    assert classes(plots.rates("t", many)).count("range") == plots.MOST_ROWS
    series = [(name, BANDS) for name, _ in many]
    assert classes(plots.calibration("t", series)).count("range") == 2 * plots.MOST_SERIES


def test_no_line_leads_over_a_band_without_labels() -> None:
    drawn = plots.calibration("calibration", [("all decisions", BANDS)])
    found = classes(drawn)
    assert "line" not in found
    assert found.count("range") == 2
    assert "0.70 to 0.90 too few labels" in drawn
    whole = (BANDS[0], CalibrationCell("0.70 to 0.90", RATE), BANDS[2])
    assert classes(plots.calibration("calibration", [("all", whole)])).count("line") == 1


def test_intersections_without_support_are_hatched_and_have_no_number() -> None:
    cells = {("a", "x"): CELL, ("a", "y"): HIDDEN, ("b", "x"): FEW}
    drawn = plots.heat_map("gaps", ["a", "b"], ["x", "y"], cells)
    found = classes(drawn)
    assert found.count("hatch") == 3
    assert [one for one in found if one.startswith("heat")] == ["heat", "heat worse"]
    assert re.findall(r">\+\d+</text>", drawn) == [">+5</text>"]
    assert "b, x: not enough data yet" in drawn
    assert "b, y: hidden" in drawn


@pytest.mark.parametrize("value", [-0.4, -0.05, 0.05, 0.4])
def test_the_larger_a_gap_the_stronger_its_colour(value: float) -> None:
    one = replace(CELL, gap=ShownGap("complement", value, value - 0.1, value + 0.1))
    drawn = plots.heat_map("gaps", ["a"], ["x"], {("a", "x"): one})
    (strength,) = re.findall(r'fill-opacity="([\d.]+)"', drawn)
    assert ("heat worse" in drawn) == (value > 0)
    assert (float(strength) > 0.3) == (abs(value) > 0.1)


def test_names_are_text_and_nothing_else() -> None:
    for drawn in (
        plots.rates(EVIL, [(EVIL, CELL)]),
        plots.calibration(EVIL, [(EVIL, BANDS)]),
        plots.heat_map(EVIL, [EVIL], [EVIL], {(EVIL, EVIL): CELL}),
    ):
        classes(drawn)
        assert "<script" not in drawn
