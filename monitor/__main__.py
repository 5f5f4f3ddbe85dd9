"""``slicewatch`` and ``python -m monitor``: signals first, since the imports take a while."""

import signal
import sys

from monitor.commands.starting import StopSignal, collect_late, end_when_stopped, on_stop

_UNTIL_STOPPED = ("demo", "ingest", "judge", "run", "serve")
"""Commands that run until they are stopped; a stop is success for them."""


def main() -> None:
    """Install stop-signal handlers, then run the command line."""
    stop = StopSignal()
    collect_late()
    if set(sys.argv[1:2]) & set(_UNTIL_STOPPED):
        stop.listen()
    else:
        end_when_stopped()
    try:
        from monitor import cli  # noqa: PLC0415 - after the signals

        cli.main(stop)
    finally:
        on_stop(signal.SIG_IGN)  # exiting, Python restores the default action of other handlers


if __name__ == "__main__":
    main()
