"""One fault in some intersections is one incident: from raw events to pages, commands and alerts.

Without the comparison of onsets, each of these worlds of one fault gives two pages (seeds 1 to 3:
on days 8 and 9, 9 and 11, 8 and 15; the fault begins on day 6), and some a ticket besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from adversary.worlds import DAY, HOUR, MINUTE, START, World
from click.testing import CliRunner
from crossed_faults import DE_CHAT, DE_EMAIL, Fault, crossed_world
from label_play import PARTITIONS, Feed, RawEvents, live_settings
from pipeline import Pipeline
from releasing import MARGIN, Releasing
from served_site import served_site
from set_clock import SetClock

from alerts.exposition.renderer import Renderer
from monitor.cli import cli
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.incidents import Incident
from monitor.core.publish.snapshot import Snapshot, decode
from monitor.store.evaluator.stored_incidents import read_incidents

pytestmark = pytest.mark.full

BEGINS, DAYS, A_DAY = 6, 13, 5_000
ONE_FAULT = (Fault(DE_CHAT, BEGINS), Fault(DE_EMAIL, BEGINS))
BOTH = {DE_CHAT, DE_EMAIL}


@dataclass
class Played:
    """What came of a world.

    Attributes:
        incidents: all, by id.
        alerts: incident and severity of every series that notified somebody.
    """

    incidents: list[Incident] = field(default_factory=list)
    alerts: set[tuple[str, str]] = field(default_factory=set)


@contextmanager
def played(folder: Path, world: World) -> Iterator[tuple[Pipeline, Played]]:
    """All days as they come, each evaluated by an evaluator that begins anew."""
    seen = Played()
    text = live_settings(world)
    with Pipeline(folder, (1, PARTITIONS), text=text, stream__clock="live") as pipeline:
        pipeline.clock.seconds = START / 1e6
        pipeline.worker()
        feed = Feed(RawEvents(world), pipeline)
        for now in range(START + DAY, int(world.end) + 1, DAY):
            pipeline.clock.seconds = max(pipeline.clock.seconds, (now + MINUTE) / 1e6)
            feed.until(now)
            pipeline.fold()
            seen.alerts |= alerts(newest(pipeline))
        with pipeline.engine.connect() as connection:
            seen.incidents = read_incidents(connection, resolved=True)
        yield pipeline, seen


def newest(pipeline: Pipeline) -> Snapshot:
    body = pipeline.snapshot()
    assert body is not None
    return decode(body)


def alerts(snapshot: Snapshot) -> set[tuple[str, str]]:
    """Incident and severity of the series that notify."""
    text = b"".join(Renderer(100_000).render(snapshot).texts).decode()
    pattern = r'^slicewatch_(?:page|ticket)\{.*?incident="(\d+)"(?:,severity="(\w+)")?\} 1'
    return set(re.findall(pattern, text, re.MULTILINE))


def test_one_fault_notifies_once_and_every_surface_names_its_slices(tmp_path: Path) -> None:
    with played(tmp_path, crossed_world(1, ONE_FAULT, DAYS, A_DAY)) as (pipeline, seen):
        assert seen.alerts == {("1", "page")}
        (incident,) = seen.incidents
        assert {*incident.slices} == BOTH
        assert len(incident.crossings) >= 3, "the language crosses as well"
        main, (further,) = incident.slice, incident.further
        (table,) = newest(pipeline).contracts
        (shown,) = table.incidents
        assert (shown.slice, shown.further, shown.inherited) == (main, (further,), ("language=de",))

        runner = CliRunner(env={"SLICEWATCH__STORE__URL": pipeline.settings.store.url})
        settings = str(pipeline.path.with_name("settings.toml"))
        printed = runner.invoke(cli, ["incident", "show", "1", "-s", settings]).output
        assert re.search(rf"^further slices +{further}", printed, re.MULTILINE)
        with served_site(pipeline.engine, SetClock(pipeline.clock.now())) as site:
            assert (
                f"<dt>Further slices</dt><dd>{slice_name(further)}" in site.get("/incidents/1")[1]
            )


def test_a_fault_that_begins_later_in_a_sibling_notifies_at_once(tmp_path: Path) -> None:
    faults = (Fault(DE_CHAT, BEGINS), Fault(DE_EMAIL, BEGINS + 3))
    with played(tmp_path, crossed_world(2, faults, DAYS, A_DAY)) as (_, seen):
        assert {("1", "page"), ("2", "page")} <= seen.alerts
        assert [incident.slices for incident in seen.incidents] == [(DE_CHAT,), (DE_EMAIL,)]


def test_of_two_faults_that_overlap_both_are_named(tmp_path: Path) -> None:
    """They begin together, share decisions, but no value: each is an incident of its own."""
    faults = (Fault("language=de", BEGINS, 0.22), Fault("channel=email", BEGINS, 0.22))
    with played(tmp_path, crossed_world(1, faults, DAYS, A_DAY)) as (_, seen):
        named = {text for incident in seen.incidents for text in incident.slices}
        assert {"language=de", "channel=email"} <= named
        assert len(seen.incidents) == 2


def test_incidents_depend_neither_on_restarts_nor_on_the_number_of_looks(tmp_path: Path) -> None:
    world = crossed_world(1, ONE_FAULT, DAYS, A_DAY)
    found = []
    for every in (12 * HOUR, 3 * DAY):
        folder = tmp_path / str(every)
        folder.mkdir()
        with Releasing(world, folder, live_settings(world)) as service:
            for now in range(START + every + MARGIN, int(world.end) + 1, every):
                service.restart()
                service.until(now)
            service.until(int(world.end))
            kept = service.detection()
            found.append((kept["incident"], kept["incident_crossing"], kept["incident_stream"]))
    assert found[0][0]
    assert found[0] == found[1]
