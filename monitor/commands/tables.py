"""Console, tables and times of day for a terminal or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 160
NONE = "-"


def console() -> Console:
    """Console that tables are printed on: as wide as the terminal, or wide enough for a pipe."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)


def plain_table(names: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Table:
    """A table of plain texts."""
    table = Table(box=SIMPLE, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def moment(at: datetime) -> str:
    """Date and time to the minute, in UTC."""
    return f"{at:%Y-%m-%d %H:%M}Z"
