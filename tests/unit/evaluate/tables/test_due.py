"""Which spans are due: each once, in an order that does not depend on when it is asked."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from calendars import CODING, CONTRACT

from monitor.core.tables.settings import TableSettings
from monitor.core.tables.spans import ANCHOR, Span, SpanKind
from monitor.core.time import DAY, HOUR, WEEK, Grain
from monitor.evaluate.tables.due import Eras, Progress, Turn, due
from monitor.store.evaluator.calendar_tables import Era, Made, Stage

SETTINGS = TableSettings.from_contract(CONTRACT, CODING)
ALWAYS = Eras([Era(-(1 << 62), SETTINGS)])
HORIZON = 3 * DAY


def progress(watermark: int, *, lag: int = DAY, first: int = ANCHOR) -> Progress:
    return Progress(
        watermark=watermark,
        labels_to=watermark - lag,
        horizon=HORIZON,
        first=first,
        kept_from={Grain.HOUR: watermark - HORIZON - 8 * DAY, Grain.DAY: watermark - 395 * DAY},
    )


def walk(marks: list[int], eras: Eras = ALWAYS) -> list[Turn]:
    """All turns that are taken where these watermarks are seen."""
    made: dict[tuple[Stage, SpanKind], Made] = {}
    taken: list[Turn] = []
    for mark in marks:
        while turns := due(progress(mark), made, eras):
            for stage, span in turns:
                oldest = made.get((stage, span.kind), Made(span.start, 0)).oldest
                made[stage, span.kind] = Made(oldest, span.start)
            taken += turns
    return taken


def test_the_finest_of_those_that_end_together_comes_first() -> None:
    turns = due(progress(ANCHOR + 2 * DAY), {}, ALWAYS)
    assert {stage for stage, _ in turns} == {Stage.DECISIONS}
    spans = [span for _, span in turns]
    assert [span.kind for span in spans[23:26]] == [SpanKind.HOUR, SpanKind.DAY, SpanKind.HOUR]
    assert [span.end for span in spans] == sorted(span.end for span in spans)
    assert len(spans) == 48 + 2


def test_every_span_has_each_turn_once_however_it_is_looked_at() -> None:
    end = ANCHOR + 10 * DAY
    at_once = walk([end])
    hourly = walk(list(range(ANCHOR + HOUR, end + 1, HOUR)))
    daily = walk(list(range(ANCHOR + DAY, end + 1, DAY)))

    for taken in (at_once, hourly, daily):
        assert len(taken) == len(set(taken))
        assert set(taken) == set(at_once)
    assert {stage for stage, _ in at_once if stage is Stage.FINAL} == {Stage.FINAL}
    finals = [span for stage, span in at_once if stage is Stage.FINAL]
    assert finals == [Span.containing(ANCHOR, SpanKind.WEEK)]


@pytest.mark.parametrize("stage", Stage)
def test_within_a_stage_the_order_is_the_same_however_it_is_looked_at(stage: Stage) -> None:
    end = ANCHOR + 10 * DAY
    orders = [
        [span for taken, span in walk(marks) if taken is stage]
        for marks in ([end], list(range(ANCHOR + HOUR, end + 1, HOUR)))
    ]
    assert orders[0] == orders[1]


def test_labels_wait_for_decisions_and_for_their_frontier() -> None:
    first = Made(ANCHOR, ANCHOR + 3 * DAY - HOUR)
    turns = due(progress(ANCHOR + 3 * DAY), {(Stage.DECISIONS, SpanKind.HOUR): first}, ALWAYS)
    labels = [span for stage, span in turns if stage is Stage.FIRST]
    assert [labels[0].start, labels[-1].end] == [ANCHOR, ANCHOR + 2 * DAY]


def test_what_is_not_kept_completely_is_passed_over() -> None:
    """A back-fill of two months brings no hours older than they are kept, and no days either."""
    mark = ANCHOR + 8 * WEEK
    passed = mark - HORIZON - 35 * DAY
    turns = due(progress(mark), {}, ALWAYS)
    starts = {kind: min(s.start for _, s in turns if s.kind is kind) for kind in SpanKind}
    assert starts == {
        SpanKind.HOUR: mark - HORIZON - 8 * DAY,
        SpanKind.DAY: passed,
        SpanKind.WEEK: Span.containing(passed, SpanKind.WEEK).start,
        SpanKind.FOUR_WEEKS: ANCHOR,
    }


def test_hours_that_were_never_counted_in_full_get_no_tables_after_an_outage() -> None:
    """Forty days without an evaluator: whatever was too old when it came back is not counted."""
    made = {(Stage.DECISIONS, SpanKind.HOUR): Made(ANCHOR, ANCHOR + DAY)}
    mark = ANCHOR + 40 * DAY
    turns = due(progress(mark), made, ALWAYS)
    hours = [s.start for stage, s in turns if s.kind is SpanKind.HOUR and stage is Stage.DECISIONS]
    assert min(hours) == mark - HORIZON - 8 * DAY


def test_days_of_another_zone_need_hours() -> None:
    eras = Eras([Era(-(1 << 62), replace(SETTINGS, offset=2))])
    mark = ANCHOR + 8 * WEEK
    turns = due(progress(mark), {}, eras)
    assert min(span.start for _, span in turns) >= mark - HORIZON - 8 * DAY
    assert SpanKind.FOUR_WEEKS not in {span.kind for _, span in turns}


def test_the_span_that_holds_the_first_counts_is_due() -> None:
    first = ANCHOR + DAY
    turns = due(progress(ANCHOR + WEEK, first=first), {}, ALWAYS)
    starts = {kind: min(s.start for _, s in turns if s.kind is kind) for kind in list(SpanKind)[:3]}
    assert starts == {SpanKind.HOUR: first, SpanKind.DAY: ANCHOR + DAY, SpanKind.WEEK: ANCHOR}


def test_settings_that_make_no_tables_pass_spans_over() -> None:
    erased = Era(-(1 << 62), replace(SETTINGS, k=0))
    again = Era(ANCHOR + DAY + 1, SETTINGS)
    turns = due(progress(ANCHOR + 2 * DAY), {}, Eras([erased, again]))
    assert next(span.start for _, span in turns) == ANCHOR + DAY + HOUR
    assert {span.kind for _, span in turns} == {SpanKind.HOUR}


def test_spans_that_began_before_the_first_era_get_no_tables() -> None:
    turns = due(progress(ANCHOR + 3 * DAY), {}, Eras([Era(ANCHOR + DAY + HOUR, SETTINGS)]))
    starts = {kind: min(s.start for _, s in turns if s.kind is kind) for kind in list(SpanKind)[:2]}
    assert starts == {SpanKind.HOUR: ANCHOR + DAY + HOUR, SpanKind.DAY: ANCHOR + 2 * DAY}


def test_spans_do_not_overlap_where_the_zone_changes() -> None:
    change = ANCHOR + 4 * WEEK
    for offset in (-5, 2):
        moved = Era(change, replace(SETTINGS, offset=offset))
        eras = Eras([Era(-(1 << 62), SETTINGS), moved])
        for kind in SpanKind:
            spans = list(eras.spans(kind, ANCHOR, ANCHOR + 14 * WEEK))
            gaps = [later.start - span.end for span, later in pairwise(spans)]
            assert min(gaps) >= 0
            assert sum(gap != 0 for gap in gaps) <= 1
            assert max(gaps) < kind
