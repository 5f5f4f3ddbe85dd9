"""Console, tables and times for a terminal or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from monitor.core.time import DAY, HOUR, MINUTE, to_datetime
from monitor.present.charts import TERMINAL_STYLES, TONES

PIPED_WIDTH = 160
NONE = "-"
STATE_STYLES = {state: TERMINAL_STYLES[tone] for state, tone in TONES.items()}


def console() -> Console:
    """Return a Console as wide as the terminal, or PIPED_WIDTH in a pipe."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)


def plain_table(
    names: Iterable[str], rows: Iterable[Iterable[str]], title: str | None = None
) -> Table:
    """Return a rich Table with columns ``names`` and rows of plain texts."""
    table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def moment(at: datetime | int) -> str:
    """Return date and time to the minute as ISO 8601 in UTC; an integer ``at`` is in us."""
    return f"{to_datetime(at) if isinstance(at, int) else at:%Y-%m-%dT%H:%M}Z"


def duration(micros: int) -> str:
    """Return a duration as text in minutes, hours or days.

    Example:
        >>> duration(5 * MINUTE), duration(30 * HOUR), duration(7 * DAY), duration(9 * DAY // 4)
        ('5 min', '30 h', '7 d', '2.2 d')
    """
    if micros < 2 * HOUR:
        return f"{micros / MINUTE:.0f} min"
    return f"{micros / HOUR:.0f} h" if micros < 2 * DAY else f"{round(micros / DAY, 1):g} d"
