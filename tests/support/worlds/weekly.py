"""Closed weeks of small worlds, driven through the real evaluator once in a process."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from adversary.service import StillClock, settings_text
from adversary.worlds import DAY, START, Shape, World, make_world
from releasing import Releasing

from monitor.composition.site import report_facts
from monitor.composition.store import open_store
from monitor.core.publish.release import Revision
from monitor.core.time import IsoWeek
from monitor.reports import WeeklyReport
from monitor.settings import load
from monitor.store.evaluator.weekly_releases import find_revision, stored_report

WEEK = IsoWeek.named("2026-W23")
assert WEEK.start == START
LAST_DAY = 17
LIMITATION = """
[[limitation]]
text = "=reviewers of one office only"
owner = "tests"
"""


@dataclass(frozen=True)
class WeeklyStore:
    """A store that an evaluator has followed day by day."""

    world: World
    folder: Path
    text: str

    def releasing(self, folder: Path) -> Releasing:
        """A copy of it that may be changed, at the instant at which it was left."""
        made = Releasing(self.world, folder, self.text)
        made.engine.dispose()
        (folder / "store.db").write_bytes((self.folder / "store.db").read_bytes())
        made.engine = open_store(made.settings, StillClock())
        made.evaluator = made.fresh()
        return made


@cache
def weekly_store(*, exact: bool) -> WeeklyStore:
    """Nine days of decisions, labelled with a delay of a day and a half on average."""
    # Strata with hardly a label would be joined to others, which raw events know nothing of.
    scoreless = 0 if exact else 0.02
    shape = Shape((2, 2), days=9, busy=90, delay=36, late=0, audit=1, scoreless=scoreless)
    world = make_world(5, shape)
    folder = Path(tempfile.mkdtemp(prefix="slicewatch-weekly-"))
    text = settings_text(world, exact=exact) + LIMITATION
    with Releasing(world, folder, text) as made:
        for day in range(1, LAST_DAY):
            made.until(START + day * DAY)
        made.evaluator.release_lease()
        with made.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return WeeklyStore(world, folder, text)


def revisions(made: Releasing, week: IsoWeek = WEEK) -> list[Revision]:
    """All stored revisions of a week."""
    found: list[Revision] = []
    with made.engine.connect() as connection:
        while (one := find_revision(connection, week.name, len(found) + 1)) is not None:
            found.append(one)
    return found


def report_of(made: Releasing, number: int | None = None) -> WeeklyReport:
    """The report of a revision, by default of the newest."""
    with made.engine.connect() as connection:
        stored = stored_report(connection, WEEK, number)
    assert stored is not None
    settings = load(
        made.folder / "settings.toml",
        {"SLICEWATCH__STORE__URL": f"sqlite:///{made.folder}/store.db"},
    )
    return WeeklyReport.from_stored(replace(stored, before=None), report_facts(settings))
