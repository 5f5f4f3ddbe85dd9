"""Console and tables for a terminal or a pipe, and the guarded table of a Snapshot."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from monitor.core.contract import Metric, State
from monitor.core.counts.cells import parse_atom
from monitor.core.publish.snapshot import (
    ContractTable,
    ShownGap,
    ShownRate,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.time import to_datetime

PIPED_WIDTH = 160
NONE = "-"
_STATE_STYLES = {
    State.SUPPRESSED: "dim",
    State.INSUFFICIENT_SUPPORT: "blue",
    State.MATURING: "cyan",
    State.INCONCLUSIVE: "yellow",
    State.WITHIN_CONTRACT: "green",
    State.SUSPECTED: "bold red",
    State.BREACH: "bold white on red",
}
SYNTHETIC = "synthetic test conditions, not a finding about people"
DATA_LOST = "data was lost: events that could not be read are missing from this window"
EXCLUDED = "part of this window is excluded: declared bad, or never complete"


def console() -> Console:
    """Console that tables are printed on: as wide as the terminal, or wide enough for a pipe."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)


def plain_table(
    names: Iterable[str], rows: Iterable[Iterable[str]], title: str | None = None
) -> Table:
    """A table of plain texts."""
    table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def moment(at: datetime | int) -> str:
    """Date and time to the minute, in UTC; an integer is in microseconds."""
    return f"{to_datetime(at) if isinstance(at, int) else at:%Y-%m-%d %H:%M}Z"


def _rate_text(rate: ShownRate | None) -> str:
    """A rate in per cent with its interval, or a dash when it is withheld."""
    if rate is None:
        return "-"
    if rate.at_least is not None:
        return f">= {_percent(rate.at_least)}"
    if rate.at_most is not None:
        return f"<= {_percent(rate.at_most)}"
    if rate.lower is None or rate.upper is None:
        return "-"
    bounds = f"[{_percent(rate.lower)}, {_percent(rate.upper)}]"
    return f"{_percent(rate.value)} {bounds}" if rate.value is not None else bounds


def _gap_text(gap: ShownGap | None) -> str:
    """A gap in points with its interval; positive means that the slice is worse off."""
    if gap is None or gap.lower is None or gap.upper is None:
        return "-"
    bounds = f"[{100 * gap.lower:+.0f}, {100 * gap.upper:+.0f}]"
    return f"{100 * gap.value:+.0f} {bounds}" if gap.value is not None else bounds


def _percent(rate: float) -> str:
    return f"{100 * rate:.0f}"


def summary_table(snapshot: Snapshot) -> Iterator[Table | str]:
    """The contract's own window of every contract."""
    for contract in snapshot.contracts:
        for window in contract.windows:
            if window.window == contract.window:
                yield _window(contract, window)


def _window(contract: ContractTable, window: WindowTable) -> Table:
    until = f" to {moment(window.decisions.end)}" if window.decisions else ""
    title = f"{contract.contract} v{contract.version}, {window.window}{until}"
    note = SYNTHETIC if contract.synthetic else f"cells below {contract.k} are withheld"
    if window.data_lost:
        note += f"\n{DATA_LOST}"
    if window.excluded:
        note += f"\n{EXCLUDED}"
    note += "".join(f"\nno data before {moment(at)}: {what}" for what, at in _late(window))
    more = "" if contract.synthetic and contract.k == 1 else "+"  # a band's lower edge
    table = Table(
        title=escape(title),
        caption=f"rates in %, 95 % intervals, n = support; {note}",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
    )
    table.add_column("slice", min_width=14, overflow="fold")
    for name in ("sel", "TPR", "n", "FPR", "blk", "TPR gap", "verdict", "state"):
        table.add_column(name, no_wrap=True)
    table.add_row(*_cells("all", window.total, more))
    for group in window.groups:
        table.add_section()
        table.add_row(Text(group.group_by, "bold"))
        for row in group.rows:
            values = ", ".join(parse_atom(row.slice).values())  # the names are in the heading
            table.add_row(*_cells(f"  {values}", row, more))
    return table


def _late(window: WindowTable) -> Iterator[tuple[str, int]]:
    """Slices hidden because they were not listed when the window began, and since when they are."""
    if window.no_data_before is not None:
        yield "the whole use case", window.no_data_before
    for group in window.groups:
        for at in sorted(set(group.no_data_before.values())):
            late = sorted(text for text, since in group.no_data_before.items() if since == at)
            yield escape("; ".join(late)), at


def _cells(name: str, row: SliceRow, more: str) -> list[str | Text]:
    tpr, gap = row.rates.get(Metric.TPR), row.gaps.get(Metric.TPR)
    state = row.states.get(Metric.TPR)
    return [
        escape(name),
        _point_text(row.rates.get(Metric.SELECTION)),
        _rate_text(tpr),
        f"{tpr.support}{more}" if tpr is not None else "-",
        _point_text(row.rates.get(Metric.FPR)),
        _point_text(row.rates.get(Metric.BLOCKED)),
        _gap_text(gap),
        gap.verdict.value if gap is not None and gap.verdict is not None else "-",
        Text(state.value, _STATE_STYLES[state]) if state is not None else Text("-"),
    ]


def _point_text(rate: ShownRate | None) -> str:
    return _percent(rate.value) if rate is not None and rate.value is not None else _rate_text(rate)
