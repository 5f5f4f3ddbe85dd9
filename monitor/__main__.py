"""``slicewatch`` and ``python -m monitor``: signals first, since the imports take a while."""

import sys

from monitor.commands.starting import StopSignal, end_when_stopped

_UNTIL_STOPPED = ("demo", "ingest", "judge", "run", "serve")
"""Commands that run until they are stopped; a stop is success for them."""


def main() -> None:
    """Install stop-signal handlers, then run the command line."""
    stop = StopSignal()
    if set(sys.argv[1:2]) & set(_UNTIL_STOPPED):
        stop.listen()
    else:
        end_when_stopped()
    from monitor import cli  # noqa: PLC0415 - after the signals

    cli.main(stop)


if __name__ == "__main__":
    main()
