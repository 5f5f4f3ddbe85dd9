"""Options of every run that asks a router, and the sender that is made of them."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from monitor.clock import SystemClock
from monitor.commands.options import on_stop
from monitor.commands.probe.keys import probe_key
from monitor.errors import SlicewatchError
from monitor.probing.http_router import HttpAccess, HttpRouter
from monitor.probing.pace import Pace
from monitor.probing.protocol import router_key
from monitor.probing.sending import Retries, Sender
from monitor.probing.target import Target
from monitor.settings import Settings

LARGEST_TOKEN = 4096
SLICE = 0.1  # seconds until a wait that goes on has seen that it should not


@dataclass(frozen=True, slots=True)
class Asking:
    """Options with which a router is asked.

    Attributes:
        target: where it is.
        rate: requests a second, at most.
        timeout: seconds for one.
        seed: of everything that is drawn; None draws that, too.
        token_file: holds a bearer token.
        ca_file: the authority that signed the router's certificate.
    """

    target: Target
    rate: float
    timeout: float
    seed: int | None = None
    token_file: Path | None = None
    ca_file: Path | None = None

    def rng(self) -> np.random.Generator:
        """Random generator for everything that is drawn."""
        return np.random.default_rng(self.seed)

    def access(self, settings: Settings) -> HttpAccess:
        """Key and token, read now."""
        return HttpAccess(
            target=self.target,
            key=router_key(probe_key(settings)),
            timeout=self.timeout,
            token=None if self.token_file is None else _token(self.token_file),
            ca_file=self.ca_file,
        )


@contextmanager
def asking(access: HttpAccess, rate: float) -> Iterator[tuple[Sender, Stopper]]:
    """A sender that stops on SIGTERM and Ctrl-C, its connection closed in the end."""
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # its warnings quote what a router says
    clock, stop = SystemClock(), Stopper()
    router = HttpRouter(access, clock)
    on_stop(stop.ask)
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


class Stopper:
    """Stop request set by signals; its handler takes no lock, so that it may run at any point."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self, number: int, _: object) -> None:
        """A signal's handler; the second Ctrl-C does not wait any more."""
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True

    def wait(self, seconds: float) -> bool:
        """Let time pass, less of it when asked to end; whether that was asked."""
        deadline = time.monotonic() + seconds
        while not self.asked and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, SLICE))
        return self.asked
