"""Whoever is notified learns nothing of a hidden slice: not its name, and no number of it."""

from __future__ import annotations

import re
from functools import cache

import pytest
from adversary.notified import OF_A_HIDDEN_ONE, Told, snapshots
from adversary.worlds import make_world, random_shape, small_shape

from alerts.exposition import catalogue
from alerts.exposition.renderer import Renderer
from alerts.rules import rules
from monitor.core.publish.snapshot import numbered
from monitor.settings import Settings

pytestmark = pytest.mark.full

SEEDS = (0, 2, 5, 7)
"""Worlds in which both hidden and shown slices page."""


@cache
def told(seed: int) -> tuple[Told, ...]:
    """Every incident of every page of a world, in order."""
    shape = small_shape(seed) if seed % 2 else random_shape(seed, days=4)
    renderer = Renderer(10**6)
    return tuple(
        one
        for number, stored in enumerate(snapshots(make_world(seed, shape)), 1)
        for shown in (numbered(stored, number),)
        for one in Told.all_of(shown, renderer.render(shown).plain.decode())
    )


def test_the_worlds_have_what_the_tests_look_for() -> None:
    hidden = [one.hidden for seed in SEEDS for one in told(seed)]
    assert hidden.count(True) > 20
    assert hidden.count(False) > 20
    assert any(one.incident.inherited for seed in SEEDS for one in told(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_of_a_hidden_slice_there_is_the_incident_alone(seed: int) -> None:
    for one in told(seed):
        if one.hidden:
            assert one.lines
            assert one.metrics <= OF_A_HIDDEN_ONE
            said = "\n".join(one.lines)
            assert re.findall(r"\b[abc]\d\b|\b[abc]=", said) == [], "a name of a slice"


@pytest.mark.parametrize("seed", SEEDS)
def test_of_another_slice_there_is_what_its_row_says(seed: int) -> None:
    before: dict[tuple[int, str], set[object]] = {}
    for one in told(seed):
        incident = one.incident
        if one.hidden:
            continue
        assert {incident.slice, *incident.inherited} <= one.shown_slices
        known = before.setdefault((incident.id, incident.slice), set())
        known |= one.numbers
        assert incident.latest is None or incident.latest in one.numbers
        assert incident.first is None or incident.first in known


def test_texts_of_incidents_are_looked_up_on_the_page_and_nowhere_else() -> None:
    """So what is notified of an incident is what :class:`Told` has."""
    of_incidents = {family.name for family in catalogue.PAGE if "incident" in family.labels}
    of_contracts = {
        family.name
        for family in (
            catalogue.MAX_GAP,
            catalogue.MIN_RATIO,
            catalogue.MIN_LEVEL,
            catalogue.MAX_LEVEL,
            catalogue.OWN_LIMIT,
        )
    } | {catalogue.CONTRACT_INFO.name, catalogue.GAP.value.name}
    said = [
        texts
        for group in rules(Settings())["groups"]
        for rule in group["rules"]
        if "$labels.incident" in (texts := " ".join(rule.get("annotations", {}).values()))
    ]
    assert len(said) == 9
    for texts in said:
        asked = set(re.findall(r"slicewatch_\w+", texts))
        looked_up = set(re.findall(r"\b(slicewatch_\w+)\{%s[^`]*`", texts))
        linked = set(
            re.findall(r"`(slicewatch_\w+) and on \([^`]*` \$incident \| graphLink", texts)
        )
        assert asked == looked_up | linked, "every look-up is about the incident or its contract"
        assert asked <= of_incidents | of_contracts
