"""Rows of a contract from published tables, against estimates of the exact counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from cubes import CODING, LIMITS, contract

from monitor.core.contract import COMPLEMENT, GroupBy, OwnLimits, Verdict
from monitor.core.counts.cells import Route, atom_text
from monitor.core.intervals import mover, ratio_interval, wilson
from monitor.core.metric import Metric
from monitor.core.publish.calendar_contract import ContractInTables
from monitor.core.publish.calendar_rates import UseCaseTables
from monitor.core.publish.snapshot import Period, SliceRow, WindowTable
from monitor.core.rates.gaps import simultaneous_z
from monitor.core.state import State
from monitor.core.tables.layout import Layout
from monitor.core.tables.reader import Frame, Measure, Table
from monitor.core.tables.settings import Part
from monitor.core.tables.spans import Span, SpanKind
from monitor.core.tables.table_rule import Draft, publish
from monitor.core.time import WINDOWS

M = Metric
PARTS = (
    Part(Route.AUTO_SERVE, 1.0),
    Part(Route.HUMAN_REVIEW, 1.0),
    Part(Route.BLOCKED_BY_EVIDENCE),
)
DAY, WEEK = Span(SpanKind.DAY, 6), Span(SpanKind.WEEK, 0)
CHANNEL = GroupBy(("channel",))
NAMED = GroupBy(("channel",), "channel=chat")


@dataclass(frozen=True)
class Replies:
    """Exact counts of one slice; everything that is not blocked has a label.

    Attributes:
        unanswered: further served replies whose label was requested and has not come.
    """

    ready_served: int
    ready_held: int
    unclear_served: int
    unclear_held: int
    blocked: int = 0
    unanswered: int = 0

    @property
    def measures(self) -> dict[Measure, list[int]]:
        ready = [self.ready_served, self.ready_held]
        unclear = [self.unclear_served, self.unclear_held]
        decisions = [*np.add(ready, unclear).tolist(), self.blocked]
        decisions[0] += self.unanswered
        labels = {Measure.READY: ready, Measure.NOT_READY: unclear}
        return {Measure.DECISIONS: decisions, **labels, Measure.UNANSWERED: [self.unanswered, 0]}


World = Mapping[str, Replies]
EVEN: World = {
    "chat": Replies(880, 120, 40, 360),
    "email": Replies(640, 360, 40, 360),
    "fax": Replies(800, 200, 20, 380, 30),
}


def tables_of(world: World, k: int, spans: tuple[Span, ...] = (DAY,)) -> UseCaseTables:
    """The tables of spans that all have the same counts."""
    layout = Layout.for_group_bys({"channel": sorted(world)}, [("channel",)], complements=True)
    atoms = [atom_text({"channel": name}) for name in sorted(world)]
    tables: dict[Measure, dict[Span, Table]] = {}
    for span, measure in product(spans, (m for m in Measure if m is not Measure.PAIRS)):
        parts = PARTS if measure is Measure.DECISIONS else PARTS[:2]
        sent = np.array([world[name].measures[measure] for name in sorted(world)])
        counts = layout.count(atoms, sent[:, None])
        frame = Frame(span, layout, tuple(part.name for part in parts))
        (table,) = publish([Draft(frame, measure, counts)], [], k)
        tables.setdefault(measure, {})[span] = table
    return UseCaseTables(PARTS, tables)


def window_of(world: World, group: GroupBy = CHANNEL, k: int = 11, **settings: Any) -> WindowTable:
    return in_tables(tables_of(world, k), group, k=k, **settings)


def in_tables(tables: UseCaseTables, group: GroupBy = CHANNEL, **settings: Any) -> WindowTable:
    seen = ContractInTables(contract(group, **settings), tables, CODING)
    total, rows = (seen.group(seen.basis(by, WINDOWS["24h"])) for by in (None, group))
    return WindowTable("24h", total.rows[0] if total.rows else SliceRow("", {}), (rows,))


def rows_of(window: WindowTable) -> dict[str, SliceRow]:
    (group,) = window.groups
    return {row.slice.removeprefix("channel="): row for row in group.rows}


def exact(k: int = 1) -> dict[str, SliceRow]:
    return rows_of(window_of(EVEN, k=k))


def test_exact_tables_give_exact_rates() -> None:
    chat, email = exact()["chat"], exact()["email"]
    assert [chat.rates[m].value for m in (M.TPR, M.FPR)] == [0.88, 0.1]
    assert [email.rates[m].value for m in (M.TPR, M.FPR)] == [0.64, 0.1]
    assert chat.rates[M.SELECTION].value == pytest.approx(920 / 1400, abs=0.0005)
    assert exact()["fax"].rates[M.BLOCKED].value == pytest.approx(30 / 1430, abs=0.0005)
    assert (chat.rates[M.TPR].support, chat.rates[M.FPR].support) == (1000, 400)
    lower, upper = wilson(0.88, 1000)
    assert chat.rates[M.TPR].lower == pytest.approx(float(lower), abs=0.001)
    assert chat.rates[M.TPR].upper == pytest.approx(float(upper), abs=0.001)


def test_a_gap_is_against_everything_else_and_holds_with_the_others() -> None:
    email = exact()["email"].gaps[M.TPR]
    z, rest = simultaneous_z(3), (880 + 800) / 2000
    sides = [(p, *map(float, wilson(p, n, z))) for p, n in ((rest, 2000), (0.64, 1000))]
    lower, upper = mover(*sides[0], *sides[1])
    assert email.reference == COMPLEMENT
    assert email.value == pytest.approx(0.2)
    assert (email.lower, email.upper) == pytest.approx((float(lower), float(upper)), abs=0.001)
    ratio_lower, ratio_upper = ratio_interval(*sides[1], *sides[0])
    assert email.ratio == pytest.approx(0.64 / rest, abs=0.0005)
    assert email.ratio_lower == pytest.approx(float(ratio_lower), abs=0.001)
    assert email.ratio_upper == pytest.approx(float(ratio_upper), abs=0.001)
    assert email.verdict is Verdict.FAIL


def test_bands_give_the_same_rates_a_little_wider() -> None:
    banded = exact(k=11)
    for name, row in exact().items():
        for metric, rate in row.rates.items():
            shown = banded[name].rates[metric]
            if shown.value is None:
                assert shown.lower is not None
                assert shown.upper is not None
                assert shown.lower <= (rate.value or 0) <= shown.upper
                continue
            assert shown.value == pytest.approx(rate.value, abs=0.02)
            assert (shown.lower or 0) <= (rate.lower or 0) + 0.01
            assert (shown.upper or 0) >= (rate.upper or 0) - 0.01
            assert shown.support <= rate.support * 1.1


def test_states_by_the_bounds_of_gaps() -> None:
    states = {name: row.states[M.TPR] for name, row in exact(k=11).items()}
    assert states["chat"] is State.BETTER_OFF
    assert states["email"] is State.SUSPECTED
    assert states["fax"] is State.WITHIN_CONTRACT
    assert exact(k=11)["email"].states[M.READY] is State.NO_LIMIT
    (total,) = [window_of(EVEN).total]
    assert total.states[M.TPR] is State.NO_LIMIT
    assert not total.gaps


def test_a_named_reference_has_no_gap_and_fails_where_a_slice_is_better_off() -> None:
    rows = rows_of(window_of(EVEN, NAMED))
    assert M.TPR not in rows["chat"].gaps
    assert rows["email"].gaps[M.TPR].reference == "channel=chat"
    assert rows["email"].states[M.TPR] is State.SUSPECTED
    better = dict(EVEN, chat=Replies(600, 400, 40, 360), email=Replies(900, 100, 40, 360))
    assert rows_of(window_of(better, NAMED))["email"].states[M.TPR] is State.BETTER_OFF
    assert rows_of(window_of(better, NAMED))["chat"].states[M.TPR] is State.SUSPECTED


def test_without_its_named_reference_nothing_is_compared() -> None:
    rows = rows_of(window_of(EVEN, GroupBy(("channel",), "channel=letter")))
    assert not any(row.gaps for row in rows.values())
    assert {row.states[M.TPR] for row in rows.values()} == {State.NO_LIMIT}


def test_a_slice_that_is_never_served_is_seen_and_judged() -> None:
    rows = rows_of(window_of(dict(EVEN, email=Replies(0, 300, 0, 200))))
    email = rows["email"]
    assert email.rates[M.TPR].value is None
    assert (email.rates[M.TPR].at_most or 1) < 0.1
    assert email.rates[M.TPR].at_least is None
    gap = email.gaps[M.TPR]
    assert (gap.value, gap.verdict) == (None, Verdict.FAIL)
    assert (gap.lower or 0) > 0.6
    assert email.states[M.TPR] is State.SUSPECTED


def test_a_ratio_is_judged_where_a_rate_is_a_bound() -> None:
    limits = replace(LIMITS, min_selection_ratio=Fraction(4, 5))
    email = rows_of(window_of(dict(EVEN, email=Replies(0, 300, 0, 200)), limits=limits))["email"]
    gap = email.gaps[M.SELECTION]
    assert (gap.ratio, gap.ratio_lower, gap.verdict) == (None, 0, Verdict.FAIL)
    assert (gap.ratio_upper or 1) < 0.1


def test_small_slices_are_hidden_whatever_the_metric() -> None:
    rows = rows_of(window_of(dict(EVEN, email=Replies(4, 3, 1, 1))))
    assert not rows["email"].rates
    assert not rows["email"].gaps
    assert set(rows["email"].states.values()) == {State.SUPPRESSED}


def test_too_little_support_is_no_verdict() -> None:
    few = dict(EVEN, email=Replies(25, 15, 30, 40))
    rows = rows_of(window_of(few, limits=replace(LIMITS, min_positives=60, min_negatives=90)))
    assert rows["email"].states[M.TPR] is State.INSUFFICIENT_SUPPORT
    assert rows["email"].gaps[M.TPR].verdict is Verdict.INSUFFICIENT_SUPPORT
    assert rows["email"].states[M.FPR] is State.INSUFFICIENT_SUPPORT


def test_labels_that_are_not_in_are_maturing() -> None:
    """A third of the decisions of one slice have no label."""
    tables = tables_of(EVEN, 11)
    labels = tables_of(dict(EVEN, email=Replies(420, 240, 30, 240)), 11).tables
    for measure in (Measure.READY, Measure.NOT_READY):
        tables.tables[measure] = labels[measure]
    rows = rows_of(in_tables(tables, k=11))
    assert rows["email"].states[M.TPR] is State.MATURING
    assert (rows["email"].completeness or 1) < 0.75
    assert rows["email"].states[M.SELECTION] is State.NO_LIMIT
    assert rows_of(window_of(EVEN))["email"].completeness == 1


def states_of(names: str, unanswered: int, group: GroupBy = CHANNEL) -> dict[str, State]:
    """State of the FPR of alike slices, named by a letter; labels of ``a`` are missing."""
    fine = Replies(3520, 480, 160, 1440)
    world = {name: replace(fine, unanswered=unanswered * (name == "a")) for name in names}
    rows = rows_of(in_tables(tables_of(world, 11, (DAY, WEEK)), group, k=11))
    return {name: row.states[M.FPR] for name, row in rows.items()}


def test_a_limit_that_missing_labels_could_break_is_not_kept() -> None:
    green, open_ = State.WITHIN_CONTRACT, State.MATURING
    assert states_of("abc", 70) == {"a": green, "b": green, "c": green}, "less than 2 %"
    assert states_of("abc", 240) == {"a": open_, "b": green, "c": green}, "the others keep theirs"
    assert states_of("ab", 240) == {"a": open_, "b": open_}, "each is the other's complement"
    named = GroupBy(("channel",), "channel=a")
    assert states_of("abc", 240, named) == {"a": State.NO_LIMIT, "b": open_, "c": open_}


def test_labels_that_all_slices_lack_a_little_of_count_in_complements() -> None:
    names = [f"s{number:02d}" for number in range(12)]
    world = {name: Replies(176, 24, 8, 72, unanswered=10) for name in names}
    window = in_tables(tables_of(world, 11, (DAY, WEEK)), k=11)
    for row in rows_of(window).values():
        assert row.gaps[M.FPR].least is not None
        assert row.rates[M.FPR].least is None, "of its own at most ten are missing"


def test_limits_of_ratios_levels_and_single_slices() -> None:
    limits = replace(LIMITS, min_selection_ratio=Fraction(9, 10), min_tpr=Fraction(7, 10))
    rows = rows_of(window_of(EVEN, limits=limits))
    assert rows["email"].states[M.SELECTION] is State.SUSPECTED
    assert rows["email"].states[M.TPR] is State.SUSPECTED
    own = (OwnLimits("channel", "channel=email", (("max_tpr_gap", Fraction(1, 2)),)),)
    rows = rows_of(window_of(EVEN, own_limits=own))
    assert rows["email"].states[M.TPR] is State.WITHIN_CONTRACT


def test_spreads_and_periods() -> None:
    window = window_of(EVEN, k=1)
    (group,) = window.groups
    spread = {item.metric: item for item in group.spreads}[M.TPR]
    ends = (spread.worst, spread.best, spread.difference)
    assert ends == ("channel=email", "channel=chat", 0.24)
    assert group.decisions == group.labelled == Period(DAY.start, DAY.end)


def test_before_anything_has_closed_all_is_hidden() -> None:
    window = in_tables(UseCaseTables(PARTS, {}), k=11)
    assert set(window.total.states.values()) == {State.SUPPRESSED}
    assert window.groups[0].rows == ()
    assert window.groups[0].decisions is None


def test_tables_tell_which_rows_they_show() -> None:
    tables = tables_of({**EVEN, "post": Replies(5, 1, 1, 3)}, k=11)
    assert tables.show("channel=chat")
    assert not tables.show("channel=post"), "fewer than k"
    assert not tables.show("channel=elsewhere"), "no row"


def test_the_first_day_begins_with_the_first_hour_that_shows_something() -> None:
    """Traffic begins at two in the morning."""
    hours = [Span(SpanKind.HOUR, at) for at in range(4)]
    tables, empty = (
        tables_of(EVEN, 11, tuple(hours)),
        tables_of(dict.fromkeys(EVEN, Replies(0, 0, 0, 0)), 11, tuple(hours[:2])),
    )
    for measure, published in empty.tables.items():
        tables.tables[measure] |= published
    (group,) = in_tables(tables).groups
    assert group.decisions == Period(hours[2].start, hours[3].end)
    assert group.rows[0].rates[M.SELECTION].value == pytest.approx(920 / 1400, abs=0.02)
