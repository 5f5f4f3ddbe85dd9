"""Labels that vanish, through the evaluator: they are told, page nobody, and blind nobody else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from adversary.service import settings_text
from adversary.worlds import DAY, HOUR, START
from monitoring import eventually
from notified import chain
from releasing import MARGIN, Releasing
from unlabelled import FPR, Labelling, fleet, loses, skips_wrong_audits

from monitor.core.contract import Verdict
from monitor.core.counts.cells import Route
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Fault
from monitor.core.publish.snapshot import GroupTable, LabelsAtFault, SliceRow, Snapshot, decode
from monitor.core.state import State
from monitor.detection.pages.streams import Stream

pytestmark = pytest.mark.full

BROKEN, DAYS, A_DAY = 12, 19, 8_000
"""Days: when something breaks, and how long it is looked at. A thousand decisions of a slice."""

CALM = Labelling(fleet(0.125, 8), a_day=A_DAY, days=DAYS, seed=5)
LOST = replace(CALM, lost=(loses(0, 1, BROKEN),))
HIDING = replace(
    CALM, shares=fleet(0.5, 2), fprs={0: FPR + 0.2}, lost=(skips_wrong_audits(0, 0.6),)
)
UNASKED = replace(CALM, gaps={1: 0.3}, gap_from=BROKEN, skips=(loses(0, 1, BROKEN),))


@dataclass(frozen=True)
class Played:
    """What was published every six hours, and what crossed.

    Attributes:
        snapshots: by the quarters of a day that had passed.
        crossed: streams, and days of event time.
        consumed: days of event time that the tests have consumed at the end.
    """

    snapshots: dict[int, Snapshot]
    crossed: list[tuple[Stream, float]]
    consumed: float

    def at(self, day: float) -> Snapshot:
        return self.snapshots[int(day * 4)]

    def faults(self, day: float) -> list[LabelsAtFault]:
        return list(self.at(day).contracts[0].labels_at_fault)

    def group(self, day: float) -> GroupTable:
        (table,) = self.at(day).contracts
        (window,) = (one for one in table.windows if one.window == table.window)
        return window.groups[0]

    def row(self, day: float, slice_: str) -> SliceRow:
        (row,) = (row for row in self.group(day).rows if row.slice == slice_)
        return row

    def age(self, day: float) -> float:
        """Days from the end of the labelled window to the present."""
        period = self.group(day).labelled
        assert period is not None
        return day - (period.end - START) / DAY


def play(labelling: Labelling, folder: Path) -> Played:
    world = labelling.world()
    text = settings_text(world, exact=False).replace('clock = "history"', 'clock = "live"')
    snapshots = {}
    folder.mkdir()
    with Releasing(world, folder, text) as one:
        for quarter in range(1, 4 * labelling.days + 1):
            one.until(START + quarter * DAY // 4 + MARGIN)
            snapshots[quarter] = decode(one.snapshots()[-1])
        with one.engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT stream, crossed_at FROM crossing").all()
        consumed = max(int(str(row[0])) for row in one.detection()["cohort"])
    crossed = [(Stream.parse(stream), (at - START) / DAY) for stream, at in rows]
    return Played(snapshots, crossed, ((consumed + 1) * HOUR - START) / DAY)


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(LOST, tmp_path_factory.mktemp("lost") / "store")


def test_a_slice_that_nobody_labels_any_more_is_told_within_two_days(lost: Played) -> None:
    (fault,) = lost.faults(BROKEN + 2)
    place = ("a", "a=s00", Route.AUTO_SERVE, Fault.MISSING)
    assert fault == LabelsAtFault(*place, fault.since, fault.share)
    assert BROKEN < (fault.since - START) / DAY <= BROKEN + 1
    assert lost.faults(BROKEN) == []
    assert lost.faults(DAYS)[0].since == fault.since


def test_nobody_is_paged_for_labels_that_are_missing(lost: Played) -> None:
    assert lost.crossed == []


def test_the_others_are_tested_and_shown_as_before(lost: Played) -> None:
    """At audits of an eighth the bands of days are too wide, so the window is the newest week.

    It ends two days after its own last day, and is shown for seven days.
    """
    assert lost.consumed >= DAYS - 4
    for day in range(BROKEN, DAYS):  # then an eighth of what they are compared with lacks labels
        assert lost.age(day) <= 9
        judged = (State.WITHIN_CONTRACT, State.INCONCLUSIVE)
        others = [row for row in lost.group(day).rows if row.slice not in ("a=s00", "a=__other__")]
        assert sum(row.states[Metric.TPR] in judged for row in others) >= 5


def test_the_slice_itself_is_not_green(lost: Played) -> None:
    assert lost.row(BROKEN, "a=s00").states[Metric.TPR] is State.WITHIN_CONTRACT
    for quarter in range(4 * (BROKEN + 2), 4 * DAYS + 1):
        row = lost.row(quarter / 4, "a=s00")
        assert row.states[Metric.TPR] in (State.MATURING, State.SUPPRESSED)
        assert row.states[Metric.SELECTION] is not State.SUPPRESSED


def test_a_real_alertmanager_tells_it_and_no_breach(lost: Played, tmp_path: Path) -> None:
    with chain(tmp_path) as watched:
        watched.monitored.publish(lost.at(BROKEN + 2))
        watched.wait_for('ALERTS{alertname="SlicewatchLabelsMissing",alertstate="firing"}')
        eventually(lambda: bool(watched.firing("SlicewatchLabelsMissing")), "Alertmanager has it")
        told = watched.firing("SlicewatchLabelsMissing")
        assert [one["labels"]["route"] for one in told.values()] == ["auto_serve"]
        (text,) = (one["annotations"]["description"] for one in told.values())
        assert "Slices: a s00." in text
        assert "a s00 about " in text
        assert not watched.asked('ALERTS{alertname="SlicewatchBreach"}')


def test_a_gap_that_missing_labels_hide_is_green_no_more_from_the_first_week_on(
    tmp_path: Path,
) -> None:
    """All audits that do not come, 11 %, are of wrong replies: an FPR gap of .20 looks like 0."""
    played = play(HIDING, tmp_path / "store")
    shown = [played.row(quarter / 4, "a=s00") for quarter in range(4, 4 * DAYS + 1)]
    rows = [row for row in shown if Metric.FPR in row.gaps]
    first = next(i for i, row in enumerate(rows) if row.gaps[Metric.FPR].least is not None)
    assert 0 < first < len(rows) / 2
    for row in rows[first:]:
        gap = row.gaps[Metric.FPR]
        assert gap.verdict is not Verdict.PASS
        assert row.states[Metric.FPR] in (State.MATURING, State.BREACH)
        assert (gap.least or 1) < (gap.lower or 0) <= (gap.upper or 1) < 0.2 < (gap.most or 0)


def test_what_is_not_requested_any_more_blinds_nobody_else(tmp_path: Path) -> None:
    played = play(UNASKED, tmp_path / "store")
    (fault,) = (one for one in played.faults(BROKEN + 3) if one.slice == "a=s00")
    assert (fault.route, fault.fault) == (Route.AUTO_SERVE, Fault.TOO_FEW)
    assert {one.slice for one, _ in played.crossed} == {"a=s01"}
    assert max(played.age(day) for day in range(BROKEN, DAYS + 1)) <= 7
    assert played.row(DAYS, "a=s01").states[Metric.TPR] is State.BREACH
