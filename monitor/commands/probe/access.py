"""Access to a router from a command: probe key, sender and progress bar."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from monitor.audit.inputs import Item
from monitor.clock import SystemClock
from monitor.commands.options import load_settings, settings_option, write_key
from monitor.commands.starting import StopSignal, end_now
from monitor.errors import SlicewatchError
from monitor.probing.http_router import HttpAccess, HttpRouter, Target
from monitor.probing.protocol import router_key
from monitor.probing.rounds import Pace, Retries, Round, Sender
from monitor.settings import Settings

LARGEST_TOKEN = 4096
EXIT_FAILED, EXIT_FRUITLESS = 1, 2


def probe_key(settings: Settings) -> bytes:
    """Return the key that signs probes; refuse settings without one.

    Raises:
        SlicewatchError: the settings have no key.
    """
    if settings.probes.key is None:
        raise SlicewatchError(
            "probes.key is missing: a router must be able to tell probes from requests; create one "
            "with slicewatch db new-key FILE, and set probes.key_file = FILE"
        )
    return settings.probes.key.reveal().encode()


@click.command("router-key")
@click.argument("file", type=click.Path(path_type=Path))
@settings_option
def router_key_command(file: Path, path: Path) -> None:
    """Write the key with which a router verifies probes to a new FILE.

    It is derived from probes.key, and always the same for the same key. It cannot sign decision
    events: a router that has it cannot pass its own decisions off as probes.

    Example: slicewatch probe router-key /run/secrets/router_probe_key
    """
    write_key(file, router_key(probe_key(load_settings(path))))
    click.echo(f"the router's key is in {file}; give it only to the router")


class RoundsProgress:
    """Progress bar of rounds of probes; a context manager: enter, then :meth:`begin` each round."""

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

    def __enter__(self) -> RoundsProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, number: int, pairs: int) -> None:
        """Reset the bar for round ``number`` with ``pairs`` pairs."""
        self._bar.reset(self._task, description=f"round {number}", total=pairs)

    def failed(self, item: Item, why: str) -> None:
        """Print that a variant has no answer, and why."""
        self.say(f"{item.pair}/{item.variant}: {why}")

    def mixed(self, pair: str) -> None:
        """Print that a pair is left out because versions changed between its variants."""
        self.say(f"{pair}: left out, because the router's versions changed between its variants")

    def advanced(self) -> None:
        """Advance the bar by one finished pair."""
        self._bar.advance(self._task)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(line, markup=False)


@dataclass(frozen=True, slots=True)
class Asking:
    """Options for sending requests to a router: target, rate, timeout, seed and files.

    Attributes:
        target: address of the router.
        rate: most requests per second.
        timeout: seconds per request.
        seed: seed of all random draws; None draws a seed.
        token_file: file with a bearer token.
        ca_file: the authority that signed the router's certificate.
    """

    target: Target
    rate: float
    timeout: float
    seed: int | None = None
    token_file: Path | None = None
    ca_file: Path | None = None

    def rng(self) -> np.random.Generator:
        """Return a new random generator with the given seed."""
        return np.random.default_rng(self.seed)

    def access(self, settings: Settings) -> HttpAccess:
        """Read key and token, and return the HttpAccess to the router."""
        return HttpAccess(
            target=self.target,
            key=router_key(probe_key(settings)),
            timeout=self.timeout,
            token=None if self.token_file is None else _token(self.token_file),
            ca_file=self.ca_file,
        )


@contextmanager
def asking(access: HttpAccess, rate: float) -> Iterator[tuple[Sender, Stopper]]:
    """Yield (sender, stopper); SIGTERM and Ctrl-C stop it, and the connection closes at the end."""
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # its warnings quote what a router says
    clock, stop = SystemClock(), Stopper()
    router = HttpRouter(access, clock)
    stop.listen()
    try:
        yield Sender(router, Pace(rate, clock.monotonic, stop), Retries()), stop
    finally:
        router.close()


def _token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_TOKEN + 1).decode("ascii").strip()
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise SlicewatchError(f"--token-file {path}: {reason}; check the path") from None
    except ValueError:
        raise SlicewatchError(f"--token-file {path} contains no token; check the file") from None
    if not 0 < len(text) <= LARGEST_TOKEN or not text.isprintable() or " " in text:
        raise SlicewatchError(f"--token-file {path} must contain one token on one line")
    return text


class Stopper(StopSignal):
    """Stop signal that lets a round end in order; a second Ctrl-C ends it at once."""

    def ask(self, number: int, frame: object) -> None:
        """Record a signal; end the process at once at the second Ctrl-C."""
        if self.asked and number == signal.SIGINT:
            end_now(number, frame)
        super().ask(number, frame)


def exit_code(done: Round) -> int:
    """Return the exit code: 0 if all variants have answers, 1 if not, 2 without a router."""
    if done.fruitless:
        return EXIT_FRUITLESS
    return 0 if done.sound and not done.stopped else EXIT_FAILED


def shortfalls(done: Round) -> Iterator[str]:
    """Yield a text per shortfall of a round; nothing if all went well."""
    if done.incomplete:
        kinds = ", ".join(
            f"{count:,} {kind.value}" for kind, count in sorted(done.failures.items())
        )
        yield f"{done.incomplete:,} incomplete ({kinds})"
    if done.mixed:
        yield f"{done.mixed:,} with mixed versions"
    if done.given_up:
        yield "given up: only failures in the end"
    if done.stopped:
        yield f"stopped after {done.complete + done.incomplete + done.mixed:,} pairs"
