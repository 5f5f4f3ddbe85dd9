"""``slicewatch`` that dies or stops at chosen points: the real command with chaos around it.

The program itself has no hooks. This script wraps what it imports and then runs the command line.
What happens where is told by the environment and by files, so that a test can order it from
outside:

* ``CHAOS_ORDERS``: a file with ``crash POINT``, ``stop POINT`` or ``note POINT`` (go on, we only
  want to know); obeyed once and deleted, when the process is next at that point with events at
  hand.
* ``CHAOS_STORM``: a file; while it exists, every passage of a point may be the last one, with
  probability ``CHAOS_RISK`` by the generator ``CHAOS_SEED``.
* ``CHAOS_UNFENCED``: the fence of a flush lets everybody through; offsets and effects are still
  written in one transaction.
* ``CHAOS_IDLE``: milliseconds after which PostgreSQL ends a transaction in which nothing happens,
  in place of the program's own limit, which no test could wait for.
* ``CHAOS_LEASE``: seconds of the shortest lease of an evaluator.
* ``CHAOS_CLIENT_LOG``: a file for what the Kafka client says.

A crash is exit code 137 without any cleaning up; a stop is SIGSTOP, until somebody continues us.
"""

from __future__ import annotations

import logging
import os
import random
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from stepped_clock import SteppedClock

from monitor.cli import main
from monitor.core.time import SECOND
from monitor.settings import sections
from monitor.store import database
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.ingest.ingest_store import IngestStore

CRASHED = 137
INGEST_POINTS = (
    "before_claim",
    "in_claim",  # the epoch is raised, not committed
    "after_claim",  # committed; nothing is read yet
    "before_flush",  # the events are in memory only
    "in_flush",  # the transaction is open, the fence row locked
    "before_delta",  # pending rows written, the delta not
    "after_flush",  # committed; the memory does not know it yet
)
EVALUATOR_POINTS = (
    "before_commit",  # computed, nothing written
    "in_commit",  # the transaction is open, the fence of the lease passed
    "after_commit",  # committed; the memory does not know it yet
)
STOP_SHARE = 0.4
"""Of what a storm does at a point: the rest are crashes."""

# The second form of each term is the fence without its predicate, see _let_through.
_FENCE = re.compile(
    r"UPDATE ownership\b.*?\b(?:epoch =|-1 <>) (\S+) AND (?:next_offset =|-1 <>) ", re.DOTALL
)
_DELTA = re.compile(r"INSERT INTO delta\b")
_CLAIM = re.compile(r"UPDATE ownership SET\b.*\bepoch ?\+", re.DOTALL)
_LEASE = re.compile(r"UPDATE lease SET epoch ?= ?epoch\b")


class Chaos:
    """What may happen at a point, and whether it does."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._orders = Path(environment["CHAOS_ORDERS"])
        self._storm = Path(environment["CHAOS_STORM"])
        self._risk = float(environment.get("CHAOS_RISK", "0"))
        self._random = random.Random(environment.get("CHAOS_SEED"))
        self.unfenced = "CHAOS_UNFENCED" in environment

    def at(self, point: str, *, loaded: bool = True) -> None:
        """Be at a point; returns, soon or when continued, unless the process ends here."""
        if loaded and (deed := self._ordered(point)):
            self._orders.unlink()
            self._do(deed, point)
        elif self._random.random() < self._risk and self._storm.exists():
            self._do("stop" if self._random.random() < STOP_SHARE else "crash", point)

    def _ordered(self, point: str) -> str | None:
        try:
            deed, where = self._orders.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return deed if where == point else None

    def _do(self, deed: str, point: str) -> None:
        sys.stderr.write(f"chaos: {deed} {point}\n")
        sys.stderr.flush()
        if deed == "crash":
            os._exit(CRASHED)
        if deed == "stop":
            # To this thread: another one would take the signal a moment later.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


class Points:
    """Calls :meth:`Chaos.at` from inside the store, whatever statements it is made of."""

    def __init__(self, chaos: Chaos) -> None:
        self._chaos = chaos
        self._loaded = threading.local()

    def install(self) -> None:
        """Wrap the store's calls and watch its statements."""
        self._wrap(IngestStore, "flush", _has_events)
        self._wrap(IngestStore, "claim", lambda *_: True)
        self._wrap(EvaluatorStore, "commit", lambda _epoch, cycle, *_: bool(cycle.cursors))
        sa.event.listen(sa.Engine, "before_cursor_execute", self._before, retval=True)
        sa.event.listen(sa.Engine, "after_cursor_execute", self._after)

    def _wrap(self, owner: type, name: str, is_loaded: Callable[..., bool]) -> None:
        call = getattr(owner, name)

        def wrapper(store: Any, *arguments: Any) -> Any:
            loaded = is_loaded(*arguments)
            self._chaos.at(f"before_{name}", loaded=loaded)
            self._loaded.now = loaded
            try:
                result = call(store, *arguments)
            finally:
                self._loaded.now = False
            self._chaos.at(f"after_{name}", loaded=loaded)
            return result

        setattr(owner, name, wrapper)

    def _before(self, _c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> Any:
        if _DELTA.match(statement):
            self._at("before_delta")
        if self._chaos.unfenced:
            statement = _let_through(statement)
        return statement, parameters

    def _after(self, _c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if _FENCE.match(statement):
            self._at("in_flush")
        elif _CLAIM.match(statement):
            self._at("in_claim")
        elif _LEASE.match(statement):
            self._at("in_commit")

    def _at(self, point: str) -> None:
        self._chaos.at(point, loaded=getattr(self._loaded, "now", False))


def _has_events(flushes: Any, *_: Any) -> bool:
    return any(flush.next_offset != flush.expected_offset for flush in flushes)


def _let_through(statement: str) -> str:
    """The fence without its predicate; the parameters stay, so that their places do."""
    if not _FENCE.match(statement):
        return statement
    offsets = re.sub(r"\bepoch = (\S+) AND next_offset = ", r"-1 <> \1 AND -1 <> ", statement)
    return offsets.replace("flushes = COALESCE(", "-1 <> COALESCE(")


def _limit_idling(milliseconds: str) -> None:
    database._SERVER_OPTIONS["idle_in_transaction_session_timeout"] = f"{int(milliseconds)}ms"


def _tell_client_log(path: str) -> None:
    """Keep what the Kafka client says, which the service leaves out of its own log."""
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    client = logging.getLogger("kafka")
    client.addHandler(handler)
    client.setLevel(logging.INFO)


if __name__ == "__main__":
    if "CHAOS_CLIENT_LOG" in os.environ:
        _tell_client_log(os.environ["CHAOS_CLIENT_LOG"])
    if "STEPPED_CLOCK" in os.environ:
        SteppedClock(Path(os.environ["STEPPED_CLOCK"])).install()
    if "CHAOS_LEASE" in os.environ:
        sections.LEAST_LEASE = int(os.environ["CHAOS_LEASE"]) * SECOND
    if "CHAOS_IDLE" in os.environ:
        _limit_idling(os.environ["CHAOS_IDLE"])
    Points(Chaos(os.environ)).install()
    main()
