"""``slicewatch`` on a machine whose wall clock is off, by what the file ``STEPPED_CLOCK`` says.

The program itself has no hooks. Run as a script this changes the wall clock and then runs the
command line.
"""

from __future__ import annotations

import os
from pathlib import Path

from monitor.cli import main
from monitor.clock import SystemClock


class SteppedClock:
    """The wall clock of a process, off by the microseconds in a file; durations are right."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def install(self) -> None:
        """Let everything in this process that asks for the time ask here."""
        real = SystemClock.now

        def now(clock: SystemClock) -> int:
            return real(clock) + int(self._file.read_text())

        SystemClock.now = now  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    SteppedClock(Path(os.environ["STEPPED_CLOCK"])).install()
    main()
