"""The command line: all commands, and the exit codes of their failures."""

from __future__ import annotations

import importlib
import sys

import click

from monitor.commands.starting import StopSignal
from monitor.commands.streams import take_any_text
from monitor.errors import SettingsError, SlicewatchError
from monitor.logs import trace_of

_COMMANDS = {
    "audit": "Compare a router's decisions on matched pairs before its release.",
    "backtest": "Try a contract on stored data: what it would have paged; or propose one.",
    "check": "Validate the settings; with --connect test broker, topics and database too.",
    "db": "Inspect, repair and migrate the database.",
    "demo": "Watch a synthetic router live; needs nothing but this program.",
    "judge": "Ask a language model about sampled model outputs, and write its findings.",
    "health": "Ask the service that runs here whether it is alive: for health checks.",
    "incident": "List incidents, acknowledge them and record their outcome.",
    "init": "Write a first settings file, from five answers or a sample of events.",
    "ingest": "Consume decisions and labels (one half of run).",
    "probe": "Send matched pairs to a router and publish its decisions.",
    "render": "Write the JSON Schemas, Prometheus rules, Alertmanager files and runbooks.",
    "replay": "Count decisions and labels from files, without Kafka.",
    "report": "Write the weekly fairness report of a closed week, and sign it.",
    "run": "Ingest, evaluate and serve in one process.",
    "serve": "Evaluate and serve metrics (the other half of run).",
}
_SERVICES = ("ingest", "run", "serve")
"""Commands of :mod:`monitor.commands.run`; every other command has a module of its name."""

EXIT_BUG, EXIT_ERROR = 1, 2


class _Commands(click.Group):
    """Group of all commands; imports a command's module only when it is called, to start fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the sorted names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the named command; None if there is none."""
        if cmd_name not in _COMMANDS:
            return None
        service = cmd_name in _SERVICES
        module = importlib.import_module(f"monitor.commands.{'run' if service else cmd_name}")
        command: click.Command = getattr(module, cmd_name if service else "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands to the help text, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="slicewatch")
def cli() -> None:
    """Slicewatch: a production fairness monitor.

    It reads decisions and labels from Kafka, keeps exact counts for every slice, and exports
    selection rates, TPR and FPR to Prometheus, with small groups hidden.

    Example: slicewatch demo
    """


def main(stop: StopSignal | None = None) -> None:
    """Run the command line; on an expected failure, print a line per problem and exit 2.

    Args:
        stop: a signal that already listens.
    """
    take_any_text()
    try:
        cli(standalone_mode=False, obj=stop)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_ERROR)
    except click.Abort:
        sys.exit(130)
    except SlicewatchError as error:
        for text in error.problems if isinstance(error, SettingsError) else [str(error)]:
            click.echo(f"slicewatch: {' '.join(text.split())}", err=True)
        sys.exit(EXIT_ERROR)
    except Exception as error:  # a bug; the interpreter's own trace might quote an event
        click.echo(trace_of(error), err=True)
        sys.exit(EXIT_BUG)
