"""What all benchmarks share: traffic, databases, timing and the table that comes out."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests/support" / room) for room in ("", "drivers", "worlds", "oracles")]

import numpy as np  # noqa: E402
import sqlalchemy as sa  # noqa: E402
from id_keys import WITH_KEY  # noqa: E402
from postgres import PostgresServer, has_postgres  # noqa: E402
from psycopg import sql  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from monitor.core.time import HOUR, Grain, pane_of, to_micros  # noqa: E402
from monitor.settings import Settings, load  # noqa: E402
from monitor.store import bulk  # noqa: E402
from monitor.store import database as db  # noqa: E402
from monitor.store.schema import pending  # noqa: E402

VERSIONS = {"judge": "j1", "rubric": "r1", "policy": "p1", "router": "t1"}
START = datetime(2026, 6, 1, tzinfo=UTC)
QUICKSTART = ROOT / "deploy" / "examples" / "quickstart.toml"
PORTION = 500_000


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

    def close(self) -> None:
        """Print the whole table."""
        table = Table(title=self._title)
        for place, column in enumerate(self._columns):
            table.add_column(column, justify="right" if place else "left")
        for row in self._rows:
            table.add_row(*row)
        self._console.print(table)
