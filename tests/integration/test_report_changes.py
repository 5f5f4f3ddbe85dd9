"""Behind what a revision says otherwise than an earlier one are no labels, or at least k."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from adversary.service import settings_text
from adversary.worlds import DAY, HOUR, START, Shape, make_world
from releasing import K, Releasing, released, row_of
from weekly import revisions

from monitor.core.publish.release import Revision
from monitor.core.publish.snapshot import GroupTable, tables_of
from monitor.reports import ReportFacts, WeeklyReport
from monitor.reports.changes import changes

pytestmark = pytest.mark.full

LAST_DAY = 15
Labels = dict[str, Counter[tuple[tuple[str, ...], int]]]


def labels_behind(made: Releasing, revision: Revision) -> Labels:
    """Labels by group-by, row and route that are published, of the tables of a revision."""
    kept, rows = made.kept(), released(made.engine, HOUR)
    found: Labels = {}
    (contract,) = revision.release.contracts
    for part in tables_of(contract.windows[0]):
        name = part.group_by if isinstance(part, GroupTable) else ""
        names = kept.label_maps.get(f"replies/{name}", {})
        counts = found.setdefault(name, Counter())
        for row in rows if part.labelled else ():
            assert part.labelled
            if part.labelled.start <= row.start < part.labelled.end:
                counts[row_of(names, row.atom), row.route] += row.labels
    return found


def test_from_revision_to_revision_a_cell_changes_by_no_label_or_by_k(tmp_path: Path) -> None:
    """Labels come for days after the week, by day and not by k; what is published waits for k."""
    world = make_world(5, Shape((2, 2), days=8, busy=90, delay=36, late=0, audit=1))
    seen: list[tuple[Revision, Labels]] = []
    with Releasing(world, tmp_path, settings_text(world, exact=False)) as made:
        for day in range(1, LAST_DAY):
            made.until(START + day * DAY)
            found = revisions(made)
            if len(found) > len(seen):
                seen.append((found[-1], labels_behind(made, found[-1])))
        made.evaluator.release_lease()
    assert len(seen) > 3
    steps = [
        abs(after[group][cell] - before[group][cell])
        for (_, before), (_, after) in pairwise(seen)
        for group in after
        for cell in after[group] | before[group]
    ]
    assert [step for step in steps if 0 < step < K] == []
    assert sum(step >= K for step in steps) > 10, "and many have changed"

    for (was, before), (now, after) in pairwise(seen):
        report = WeeklyReport(
            now, now.number, now.release, None, ReportFacts("slicewatch"), earlier=was
        )
        told = changes(report)
        assert told is not None
        labelled = [cell for cell in told.cells if cell.metric.labelled]
        assert not labelled or before != after, "nothing is told where no label came"
