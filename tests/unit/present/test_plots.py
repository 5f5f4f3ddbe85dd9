"""Plots: well-formed, said in words too, hatched and without a number where nothing is known."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from drawn_cells import CELL
from markupsafe import Markup

from monitor.core.publish.snapshot import ShownGap
from monitor.core.state import State
from monitor.present import plots

HIDDEN = replace(CELL, state=State.SUPPRESSED, rate=None, gap=None)
FEW = replace(CELL, state=State.INSUFFICIENT_SUPPORT)
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


def test_a_plot_of_nothing_is_no_plot() -> None:
    assert plots.heat_map("t", [], [], {}) == ""


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


def test_a_long_name_is_shortened_and_whole_in_its_title() -> None:
    assert f"<title>{LONG}</title>" in plots.heat_map("gaps", [LONG], ["x"], {(LONG, "x"): CELL})


def test_names_are_text_and_nothing_else() -> None:
    drawn = plots.heat_map(EVIL, [EVIL], [EVIL], {(EVIL, EVIL): CELL})
    classes(drawn)
    assert "<script" not in drawn
