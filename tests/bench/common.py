"""What all benchmarks share: traffic, databases, timing and the table that comes out."""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests/support" / room) for room in ("", "drivers", "worlds", "oracles")]

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import sqlalchemy as sa  # noqa: E402
from id_keys import WITH_KEY  # noqa: E402
from postgres import PostgresServer, has_postgres  # noqa: E402
from psycopg import sql  # noqa: E402
from results import keep  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from monitor.core.time import HOUR, Grain, pane_of, to_micros  # noqa: E402
from monitor.settings import Settings, load  # noqa: E402
from monitor.store import bulk  # noqa: E402
from monitor.store import database as db  # noqa: E402
from monitor.store.schema import pending  # noqa: E402

VERSIONS = {"judge": "j1", "rubric": "r1", "policy": "p1", "router": "t1"}
LANGUAGES = ("en", "de", "es")
CHANNELS = ("chat", "email")
START = datetime(2026, 6, 1, tzinfo=UTC)
SHARE_REVIEWED = 0.40  # with 5 % audits of the rest, 43 % of decisions are requested
QUICKSTART = ROOT / "deploy" / "examples" / "quickstart.toml"
PORTION = 500_000


@dataclass(frozen=True)
class Traffic:
    """Decisions and the labels of the requested ones, as messages and as a table."""

    decisions: list[bytes]
    labels: list[bytes]
    frame: pd.DataFrame


def traffic(n: int, hours: float = 2.0, seed: int = 7) -> Traffic:
    """``n`` decisions over some hours of event time, and a label for each requested one."""
    rng = np.random.default_rng(seed)
    score = rng.random(n).round(3)
    served = score >= SHARE_REVIEWED
    requested = ~served | (rng.random(n) < 0.05)
    ready = rng.random(n) < 0.2 + 0.7 * score
    frame = pd.DataFrame(
        {
            "language": np.array(LANGUAGES)[rng.integers(len(LANGUAGES), size=n)],
            "channel": np.array(CHANNELS)[rng.integers(len(CHANNELS), size=n)],
            "served": served,
            "ready": ready,
        }
    )
    step = timedelta(hours=hours) / n
    moments = [(START + i * step).isoformat() for i in range(n)]
    columns = zip(frame["language"], frame["channel"], score.tolist(), requested, strict=True)
    decisions = [
        _decision(i, moments[i], {"language": language, "channel": channel}, at, bool(asked))
        for i, (language, channel, at, asked) in enumerate(columns)
    ]
    labels = [
        json.dumps(label(i, moments[i], bool(ready[i]))).encode()
        for i in np.flatnonzero(requested).tolist()
    ]
    return Traffic(decisions, labels, frame)


def _decision(i: int, at: str, values: dict[str, str], score: float, asked: bool) -> bytes:
    served = score >= SHARE_REVIEWED
    event = {
        "decision_id": f"decision-{i:012d}",
        "decided_at": at,
        "route": "auto_serve" if served else "human_review",
        "judge_score": score,
        "threshold": SHARE_REVIEWED,
        "evidence_passed": True,
        "attributes": values,
        "versions": VERSIONS,
        "audit_p": 0.05 if served else 1.0,
        "label_requested": asked,
    }
    return json.dumps(event).encode()


def label(i: int, at: str, ready: bool) -> dict[str, object]:
    """The label of decision ``i``."""
    return {
        "label_id": f"label-{i:012d}",
        "decision_id": f"decision-{i:012d}",
        "decided_at": at,
        "version": 1,
        "ready": ready,
        "kind": "initial",
        "reason": "review",
        "reviewer": "h1",
        "labelled_at": at,
    }


def arrays(messages: Sequence[bytes], size: int) -> list[bytes]:
    """The same events, ``size`` of them in each message."""
    runs = (messages[i : i + size] for i in range(0, len(messages), size))
    return [b"[" + b",".join(run) + b"]" for run in runs]


def timed(call: Callable[[], object]) -> float:
    """Seconds a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def settings_at(url: str, path: Path = QUICKSTART, **more: str) -> Settings:
    """Settings on a store of their own; ``STREAM__CLOCK="live"`` sets ``stream.clock``."""
    environment = {"STORE__URL": url, "STREAM__CLOCK": "history", **more}
    named = {f"SLICEWATCH__{key}": value for key, value in environment.items()}
    return load(path, WITH_KEY | named)


class Databases:
    """New, migrated databases of each kind there is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = PostgresServer(durable=True) if has_postgres() else None
        self._made = 0
        self._templates: dict[tuple[str, int], str] = {}

    @property
    def kinds(self) -> list[str]:
        """``sqlite``, and ``postgresql`` where its server is installed."""
        return ["sqlite", "postgresql"] if self._server else ["sqlite"]

    def new(self, kind: str, rows_pending: int = 0) -> str:
        """URL of a new database that remembers so many decisions of the month before."""
        self._made += 1
        template = self._templates.get((kind, rows_pending))
        if template is None:
            name = self._templates[kind, rows_pending] = f"template_{self._made}"
            engine = db.create_engine(self._create(kind, name))
            db.migrate(engine)
            _remember(engine, rows_pending)
            engine.dispose()
            template = name
        return self._create(kind, f"bench_{self._made}", template)

    def _create(self, kind: str, name: str, template: str | None = None) -> str:
        if kind == "sqlite":
            if template:
                shutil.copy(self._folder / f"{template}.db", self._folder / f"{name}.db")
            return f"sqlite:///{self._folder}/{name}.db"
        assert self._server is not None
        if template is None:
            return self._server.create_database(name)
        words = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self._server.execute(words.format(sql.Identifier(name), sql.Identifier(template)))
        return self._server.url(name)

    def close(self) -> None:
        """Stop the server."""
        if self._server:
            self._server.close()


def _remember(engine: sa.Engine, rows: int) -> None:
    """Fill ``pending`` with hours before the traffic, evenly over 30 days."""
    last = pane_of(to_micros(START), Grain.HOUR) - 1
    rng = np.random.default_rng(1)
    hours = np.sort(last - rng.integers(720, size=rows))
    ids = rng.integers(2**62, size=rows)
    for start in range(0, rows, PORTION):
        hour = hours[start : start + PORTION]
        part = {"hour": hour, "id": ids[start : start + PORTION], "ts": hour * int(HOUR)}
        part |= {"cell": np.full(len(hour), 1), "request": np.full(len(hour), 1)}
        with db.writing(engine) as connection:
            if connection.dialect.name == "sqlite":
                listed = {name: column.tolist() for name, column in part.items()}
                bulk.insert(connection, pending, listed)
            else:
                bulk.copy_integers(connection, pending, part)
    if rows and engine.dialect.name != "sqlite":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("VACUUM ANALYZE pending"))


@contextmanager
def databases(folder: Path) -> Iterator[Databases]:
    """Databases of one benchmark."""
    made = Databases(folder)
    try:
        yield made
    finally:
        made.close()


def peak_megabytes() -> float:
    """Most memory this process ever had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def machine() -> str:
    """What the figures were measured on, in one line."""
    model = platform.processor() or platform.machine()
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    load_average = os.getloadavg()[0]
    python = platform.python_version()
    return f"{os.cpu_count()} cores of {model}, Python {python}, load {load_average:.1f}"


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


class Report:
    """A table that grows while the benchmark runs, so that a long one can be watched."""

    def __init__(self, title: str, *columns: str) -> None:
        self._console = Console(width=132)
        self._columns = columns
        self._rows: list[tuple[str, ...]] = []
        self._title = title
        self._console.print(f"\n{title}\n{machine()}", highlight=False)

    def add(self, *cells: object) -> None:
        """One row, shown at once."""
        row = tuple(str(cell) for cell in cells)
        self._rows.append(row)
        self._console.print("  " + " | ".join(row), highlight=False, markup=False)

    @property
    def rows(self) -> list[dict[str, str]]:
        """All of them, as they are kept."""
        return [dict(zip(self._columns, row, strict=True)) for row in self._rows]

    def keep_as(self, name: str) -> None:
        """Keep the rows for the docs, unless options have made them others."""
        if len(sys.argv) == 1:
            keep(name, rows=self.rows)

    def close(self) -> None:
        """Print the whole table."""
        table = Table(title=self._title)
        for place, column in enumerate(self._columns):
            table.add_column(column, justify="right" if place else "left")
        for row in self._rows:
            table.add_row(*row)
        self._console.print(table)
