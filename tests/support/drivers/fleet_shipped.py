"""The shipped page rule in a world of the benchmark, and when it takes a page back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice

from fleet_counts import Cells, coding, contract
from fleet_rivals import Page
from fleet_worlds import GROUP_BY, HOURS, World, WorldCohort

from monitor.core.counts.cells import Counts, merge
from monitor.core.counts.rollup import SliceCounts, roll_up
from monitor.core.time import Grain, pane_of, to_micros
from monitor.detection.pages.budget import resolved
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.page_tests import HourCohort, PageTests
from monitor.detection.pages.streams import Stream

FIRST_HOUR = pane_of(to_micros(datetime(2026, 6, 1, tzinfo=UTC)), Grain.HOUR)
"""A Monday: seven days of a world are one weekly list."""

WINDOW = 7 * HOURS


class ShippedFleet:
    """What :class:`~monitor.detection.pages.page_tests.PageTests` pages and lists."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cells = Cells(world)
        self._fleet = PageTests.start(DetectorSettings((contract(world),), coding(world)))
        self._row = {text: row for row, text in enumerate(world.slices)}
        self._watched = {(w.metric, w.kind) for w in world.watches}
        self._listed: list[Page] | None = None

    def advance(self, cohort: WorldCohort) -> list[Page]:
        """Consume one cohort."""
        counts = self._cells.counts(cohort.counts)
        hour = HourCohort(FIRST_HOUR + cohort.hour, counts)
        (found,) = self._fleet.advance([hour], self._cells.index)
        self._listed = None if found.listed is None else self._pages(found.listed)
        return self._pages(found.crossed)

    def tickets(self) -> list[Page] | None:
        """The list of the week before the last cohort; None in between."""
        return self._listed

    def weight(self, page: Page) -> float:
        """Share of the error budget of a page's stream."""
        return self._fleet.budget.weights[stream_of(self._world, page).key]

    def _pages(self, streams: Iterable[Stream]) -> list[Page]:
        """Those that the world watches: every contract limits the gaps of TPR and FPR."""
        return [
            Page(self._row[stream.slice], stream.metric, stream.kind, stream.direction)
            for stream in streams
            if (stream.metric, stream.kind) in self._watched and stream.slice in self._row
        ]


class Latches:
    """Pages that stand, looked at once a day for whether they are over."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cells = Cells(world)
        self._kept: deque[Counts] = deque(maxlen=WINDOW)
        self._since: dict[Page, int] = {}

    def look(self, cohort: WorldCohort, pages: Iterable[Page]) -> list[Page]:
        """Add one cohort and what it paged; the pages that end with it."""
        self._kept.append(self._cells.counts(cohort.counts))
        ended = self._ended(cohort.hour) if (cohort.hour + 1) % HOURS == 0 else []
        for page in ended:
            del self._since[page]
        self._since |= dict.fromkeys(pages, cohort.hour)
        return ended

    def _ended(self, hour: int) -> list[Page]:
        """Pages that the labels after their last crossing show to be over."""
        terms, coded = contract(self._world), coding(self._world)
        after = {min(hour - crossed, WINDOW) for crossed in self._since.values()} - {0}
        windows = {hours: self._window(hours) for hours in after}
        return [
            page
            for page, crossed in self._since.items()
            if (counts := windows.get(min(hour - crossed, WINDOW)))
            and resolved(stream_of(self._world, page), counts, coded, terms.limits, terms.k)
        ]

    def _window(self, hours: int) -> SliceCounts:
        recent = islice(reversed(self._kept), hours)
        return roll_up(merge(recent), self._cells.index, (GROUP_BY,))


def stream_of(world: World, page: Page) -> Stream:
    """The declared stream of a page."""
    wanted = (page.metric, page.kind, page.direction)
    (watch,) = (w for w in world.watches if (w.metric, w.kind, w.direction) == wanted)
    return world.stream(watch, page.row)
