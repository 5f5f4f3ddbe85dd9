"""Shows on standard error how a round goes on: a bar on a terminal, and a line a failure."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from monitor.audit.model import Item


class ProgressBar:
    """A watcher of rounds; ``with`` it, and :meth:`begin` each."""

    def __init__(self) -> None:
        console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("pairs"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("probe", total=None)

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def begin(self, number: int, pairs: int) -> None:
        """A round begins."""
        self._bar.reset(self._task, description=f"round {number}", total=pairs)

    def failed(self, item: Item, why: str) -> None:
        """A variant has no answer."""
        self.say(f"{item.pair}/{item.variant}: {why}")

    def mixed(self, pair: str) -> None:
        """A pair's variants were decided by different versions."""
        self.say(f"{pair}: left out, because the router's versions changed between its variants")

    def advanced(self) -> None:
        """A pair is over."""
        self._bar.advance(self._task)

    def say(self, line: str) -> None:
        """A line above the bar."""
        self._bar.console.print(line, markup=False)
