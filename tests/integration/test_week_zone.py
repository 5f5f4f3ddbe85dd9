"""Weeks that begin at midnight elsewhere: their tables, counts and times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from adversary.service import settings_text
from adversary.worlds import DAY, HOUR, MINUTE, START
from guarded import slices_world
from releasing import Releasing

from monitor.composition.site import report_facts
from monitor.core.metric import Metric
from monitor.core.time import IsoWeek
from monitor.reports import WeeklyReport
from monitor.reports.formats import as_markdown
from monitor.store.evaluator.weekly_releases import stored_report

pytestmark = pytest.mark.full

ZONE = "America/Bogota"
BEHIND = 5 * HOUR
MONDAY = START + 7 * DAY


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Releasing]:
    world = slices_world({("chat",): 900.0, ("email",): 600.0}, 9, seed=2)
    text = f'{settings_text(world, exact=False)}\n[report]\ntimezone = "{ZONE}"\n'
    with Releasing(world, tmp_path, text) as made:
        yield made


def report(made: Releasing) -> WeeklyReport | None:
    with made.engine.connect() as connection:
        stored = stored_report(connection, IsoWeek.named("2026-W23", ZONE))
    facts = report_facts(made.settings)
    return None if stored is None else WeeklyReport.from_stored(stored, facts)


def test_a_week_is_released_when_it_is_over_there(elsewhere: Releasing) -> None:
    elsewhere.until(MONDAY + 2 * MINUTE)
    assert report(elsewhere) is None
    elsewhere.until(MONDAY + BEHIND + 2 * MINUTE)
    found = report(elsewhere)
    assert found is not None
    assert (found.release.start, found.release.end) == (START + BEHIND, MONDAY + BEHIND)
    ((_, window),) = found.windows()
    assert window.decisions is not None
    assert window.decisions.end == MONDAY + BEHIND

    world = elsewhere.feed._world
    inside = (world.at >= window.decisions.start) & (world.at < window.decisions.end)
    support = window.total.rates[Metric.SELECTION].support
    assert support == pytest.approx(np.count_nonzero(inside), rel=0.025), "the middle of a band"

    text = as_markdown(found)
    assert f"2026-W23 ({ZONE}), Monday 2026-06-01 to Sunday 2026-06-07" in text
    assert "2026-06-08 00:00 -05:00" in text
    assert f"All times are {ZONE}." in text
    assert "UTC" not in text


def test_one_of_the_settings_before_keeps_its_times(elsewhere: Releasing) -> None:
    """What was released by weeks in UTC is not said to be of another week."""
    elsewhere.change(elsewhere.folder.joinpath("settings.toml").read_text().replace(ZONE, "UTC"))
    elsewhere.restart()
    elsewhere.until(MONDAY + 2 * MINUTE)
    elsewhere.change(
        elsewhere.folder.joinpath("settings.toml").read_text().replace('"UTC"', f'"{ZONE}"')
    )
    found = report(elsewhere)
    assert found is not None
    assert found.zone == "UTC"
    assert found.release.end == MONDAY
