"""Guarded tables of ``slicewatch replay --summary``: verdicts of every contract, by metric.

Tables fit 80 columns; in a pipe, lines are as long as needed and nothing is cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from monitor.commands.console import NONE, STATE_STYLES, duration, moment
from monitor.core.contract import Metric, State, Verdict
from monitor.core.counts.cells import parse_atom
from monitor.core.publish.annotations import Fault
from monitor.core.publish.conclusion import LimitCheck, checks, limited, overall
from monitor.core.publish.limit_words import limit_text, limits_text, needed_text, own_limits_text
from monitor.core.publish.sides import gap_of, listed, mirrored
from monitor.core.publish.snapshot import (
    WITHHELD,
    ContractTable,
    GroupTable,
    LabelsAtFault,
    LimitKind,
    Period,
    ShownGap,
    ShownRate,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.publish.states import VERDICT_OF
from monitor.core.publish.words import bounds, ratio_text

SYNTHETIC = "synthetic test conditions, not a finding about people"
DATA_LOST = "data was lost: events that could not be read are missing from this window"
EXCLUDED = "part of this window is excluded: declared bad, or never complete"
NOTHING = "nothing can be shown yet: no hour is complete, or its day has not ended"

NARROW = 80
_NAMES = {
    **{Metric.TPR: "TPR", Metric.FPR: "FPR"},
    **{Metric.BLOCKED: "blocked rate", Metric.SELECTION: "selection rate"},
    Metric.PRECISION: "precision",
}
_STATE = "verdict: state"
_COLUMNS = {"rate": 13, "n": 7, "gap": 17, _STATE: 21}
_REST = sum(_COLUMNS.values()) + len(_COLUMNS)
_TOTAL = "all"


def summary(snapshot: Snapshot | None, width: int | None) -> Iterator[RenderableType]:
    """Yield texts and tables, top to bottom; ``width`` in columns, None for lines of any length.

    First come tables for each metric with a limit, then the rates without limits, then a line that
    says whether the contract is kept.
    """
    deciding = [
        (contract, window)
        for contract in (snapshot.contracts if snapshot else ())
        for window in contract.windows
        if window.window == contract.window
    ]
    now = (snapshot.watermark if snapshot else None) or 0
    for contract, window in deciding:
        yield from _contract(contract, window, now, width)
    if not deciding:
        yield Text(NOTHING)


@dataclass(frozen=True, slots=True)
class _GroupRows:
    """Rows of one group-by or of the total, with their periods, as the summary prints them."""

    name: str
    rows: Sequence[tuple[str, SliceRow]]
    decisions: Period | None
    labelled: Period | None
    table: GroupTable | None = None

    def period(self, metric: Metric) -> Period | None:
        return self.labelled if metric.labelled else self.decisions


def _contract(
    table: ContractTable, window: WindowTable, now: int, width: int | None
) -> Iterator[RenderableType]:
    groups = [
        _GroupRows("all decisions", [(_TOTAL, window.total)], window.decisions, window.labelled)
    ]
    groups += [
        _GroupRows(g.group_by, _rows_by_values(g), g.decisions, g.labelled, g)
        for g in window.groups
    ]
    longest = max(len(name) + 2 for group in groups for name, _ in group.rows)
    names = longest if width is None else min(longest, max(width, NARROW) - _REST - 1)
    yield Text(f"{table.contract} v{table.version}, window {table.window}", "bold")
    yield from map(Text, _notes(table, window, now))
    for metric in limited(table):
        yield Text()
        role = "primary" if metric is table.primary else "guardrail"
        yield Text(f"{_NAMES[metric]} ({role}): {_limits(table, metric)}", "bold")
        for i, group in enumerate(groups):
            yield Text(f"{group.name}: {span(group.period(metric), now)}")
            yield _verdict_grid(table, group, metric, names, header=i == 0)
    if metrics := [m for m in (Metric.SELECTION, Metric.BLOCKED) if m not in limited(table)]:
        yield Text()
        yield Text("rates without a limit", "bold")
        for i, group in enumerate(groups):
            yield Text(f"{group.name}: {span(group.decisions, now)}")
            yield _rate_grid(table, group, metrics, names, header=i == 0)
    yield Text()
    yield _verdict_line(table, window)
    yield Text()


def _rows_by_values(group: GroupTable) -> list[tuple[str, SliceRow]]:
    """Return (short name, row) of a group-by's listed rows; the heading has the attributes."""
    return [(_short_name(row.slice), row) for row in listed(group)]


def _short_name(slice_: str) -> str:
    return ", ".join(parse_atom(slice_).values())


def _notes(table: ContractTable, window: WindowTable, now: int) -> Iterator[str]:
    yield f"complete to {moment(now)}; ages count from there"
    yield "rates in %, gaps in points (+ is worse off), [95 % interval], n is the support"
    yield SYNTHETIC if table.synthetic else f"what rests on fewer than {table.k} is hidden"
    if table.max_age is not None:
        yield f"what is older than {duration(table.max_age)} is stale, not within the contract"
    if window.data_lost:
        yield DATA_LOST
    if window.excluded:
        yield EXCLUDED
    yield from map(_at_fault, table.labels_at_fault)
    yield from (line for group in window.groups for line in _missing_label_lines(group.rows))


def _at_fault(fault: LabelsAtFault) -> str:
    slice_ = f"a slice of {fault.group_by}" if fault.slice == WITHHELD else fault.slice
    route = f"{slice_}, {fault.route.name.lower()}"
    share = "" if fault.share is None else f" (about {100 * fault.share:.0f} %)"
    if fault.fault is Fault.MISSING:
        return f"labels missing since {moment(fault.since)}: {route}{share}"
    often = "too seldom" if fault.fault is Fault.TOO_FEW else "too often"
    return f"labels requested {often} since {moment(fault.since)}: {route}{share}"


def _missing_label_lines(rows: Sequence[SliceRow]) -> Iterator[str]:
    """Yield a line per slice whose missing labels matter, with the ranges its rates may have."""
    for row in rows:
        ranges = [
            f"{metric.upper()} {bounds(rate.least, rate.most)}"
            for metric, rate in row.rates.items()
            if rate.least is not None and row.states[metric] is State.MATURING
        ]
        if ranges and row.completeness is not None:
            yield (
                f"{row.slice} lacks labels (completeness {row.completeness:.2f});"
                f" whatever they would say: {', '.join(ranges)}"
            )


def span(period: Period | None, now: int) -> str:
    """Return start, end, length and age at ``now`` of a period as text; times in us."""
    if period is None:
        return "nothing published yet"
    length, age = duration(period.end - period.start), duration(max(0, now - period.end))
    return f"{moment(period.start)} to {moment(period.end)}, {length} long, {age} old"


def _limits(table: ContractTable, metric: Metric) -> str:
    usual = limits_text(table.limits_of("", "", metric))
    own_texts = (f"{name}: {text}" for name, text in own_limits_text(table, metric))
    return "; ".join([*filter(None, [usual]), *own_texts, f"needs {needed_text(table, metric)}"])


def _verdict_grid(
    table: ContractTable, group: _GroupRows, metric: Metric, names: int, *, header: bool
) -> Table:
    ratio = LimitKind.MIN_RATIO in table.limit_kinds(metric)
    heads = {"gap, ratio" if ratio and head == "gap" else head: n for head, n in _COLUMNS.items()}
    grid = _empty_grid(names, heads, header=header)
    for name, row in group.rows:
        rate = row.rates.get(metric)
        gap = row.gaps.get(metric) if group.table is None else gap_of(group.table, row, metric)
        grid.add_row(
            Text(f"  {name}"),
            _rate(rate),
            _support(table, rate),
            _gap_and_ratio(gap, ratio=ratio),
            _verdict_and_state(table, group, row, metric),
        )
    return grid


def _rate_grid(
    table: ContractTable, group: _GroupRows, metrics: Sequence[Metric], names: int, *, header: bool
) -> Table:
    widths = {f"{metric.value} rate": 16 for metric in metrics} | {"n": _COLUMNS["n"]}
    grid = _empty_grid(names, widths, header=header)
    for name, row in group.rows:
        rates = [row.rates.get(metric) for metric in metrics]
        grid.add_row(Text(f"  {name}"), *map(_rate, rates), _support(table, rates[0]))
    return grid


def _empty_grid(names: int, widths: dict[str, int], *, header: bool) -> Table:
    grid = Table(box=None, show_header=header, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column("", width=names, overflow="fold")
    for name, width in widths.items():
        grid.add_column(name, min_width=width, no_wrap=name != _STATE, overflow="fold")
    return grid


def _verdict_and_state(
    table: ContractTable, group: _GroupRows, row: SliceRow, metric: Metric
) -> Text:
    state = row.states.get(metric)
    if state is None:
        return Text(NONE)
    verdict, style = VERDICT_OF[state], STATE_STYLES[state]
    if judged_slice := _judged_slice(table, group, row, metric):
        return Text(f"same comparison as {_short_name(judged_slice)}, counted there", style)
    decided = verdict in (Verdict.PASS, Verdict.FAIL)
    return Text(f"{verdict}: {state}" if decided else state.value, style)


def _judged_slice(table: ContractTable, group: _GroupRows, row: SliceRow, metric: Metric) -> str:
    """Return the slice whose check this row mirrors; empty if the row shows its own state."""
    if group.table is None or row.states[metric] is State.BETTER_OFF:
        return ""
    return mirrored(table, group.table, row, metric)


def _verdict_line(table: ContractTable, window: WindowTable) -> Text:
    """Return a line on a contract: verdict, failed checks by name, numbers of the others."""
    judged = list(checks(table, window))
    tally = Counter(check.verdict for check in judged)
    failed = [_failed(check) for check in judged if check.verdict is Verdict.FAIL]
    undecided = len(judged) - tally[Verdict.PASS] - len(failed)
    verdict = overall(check.verdict for check in judged)
    counts = f"{len(failed)} fail, {tally[Verdict.PASS]} pass, {undecided} are undecided"
    failures = f" Fails: {'; '.join(failed)}." if failed else ""
    text = (
        f"{table.contract} v{table.version}: {verdict}. Of {len(judged)} checks {counts}.{failures}"
    )
    return Text(text, "bold red" if failed else "bold")


def _failed(check: LimitCheck) -> str:
    limit = "" if check.decided_by is None else f" ({limit_text(check.decided_by)})"
    return f"{_NAMES[check.metric]} of {check.name}{limit}"


def _rate(rate: ShownRate | None) -> Text:
    """Return a rate in per cent with its interval; a dash if it is withheld."""
    return Text(NONE if rate is None else _rate_text(rate))


def _rate_text(rate: ShownRate) -> str:
    if rate.at_least is not None:
        return f">= {_percent(rate.at_least)}"
    if rate.at_most is not None:
        return f"<= {_percent(rate.at_most)}"
    if rate.lower is None or rate.upper is None:
        return NONE
    bounds = f"[{_percent(rate.lower)}, {_percent(rate.upper)}]"
    return f"{_percent(rate.value)} {bounds}" if rate.value is not None else bounds


def _support(table: ContractTable, rate: ShownRate | None) -> Text:
    mark = "" if table.synthetic and table.k == 1 else "+"  # a band's lower edge
    return Text(NONE if rate is None else f"{rate.support}{mark}")


def _gap_and_ratio(gap: ShownGap | None, *, ratio: bool) -> Text:
    """Return a gap with its interval, and with ``ratio`` the ratio on a second line."""
    if gap is None:
        return Text(NONE)
    return Text("\n".join([_gap(gap), *([ratio_text(gap).replace(" to ", ", ")] if ratio else [])]))


def _gap(gap: ShownGap) -> str:
    """Return a gap in points with its interval; positive means that the slice is worse off."""
    if gap.lower is None or gap.upper is None:
        return NONE
    bounds = f"[{100 * gap.lower:+.0f}, {100 * gap.upper:+.0f}]"
    return f"{100 * gap.value:+.0f} {bounds}" if gap.value is not None else bounds


def _percent(rate: float) -> str:
    return f"{100 * rate:.0f}"
