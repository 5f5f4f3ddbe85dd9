"""Bytes on disk: of each row of each table, and so of a decision, a label, an hour and a day.

Run it by ``make bench FOR=disk``; nothing in it depends on the speed of the machine.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from common import Databases, Report, databases, settings_at
from disk_traffic import Traffic, traffic

from alerts.exposition.service_metrics import ServiceMetrics
from consumers.sources.file_source import FileSource
from monitor.clock import SystemClock
from monitor.composition.evaluator import build_evaluator
from monitor.composition.ingest import build_ingest
from monitor.composition.store import open_store
from monitor.store import database as db
from monitor.store.schema import metadata

SHOWN = ("pending", "label_state", "counts", "snapshot", "dead_letter")
DAYS = 3.0


@dataclass(frozen=True)
class Size:
    """Rows of a table, and the bytes that it takes with its indexes."""

    rows: int
    size: int

    @property
    def each(self) -> float:
        return self.size / self.rows if self.rows else 0.0


def sizes(engine: sa.Engine) -> dict[str, Size]:
    """By table."""
    with engine.connect() as connection:
        rows = {
            table.name: connection.execute(
                sa.select(sa.func.count()).select_from(table)
            ).scalar_one()
            for table in metadata.sorted_tables
        }
        if engine.dialect.name == "sqlite":
            query = (
                "SELECT s.tbl_name, sum(d.pgsize) FROM dbstat d JOIN sqlite_schema s"
                " ON s.name = d.name GROUP BY s.tbl_name"
            )
        else:
            query = (
                "SELECT relname, pg_total_relation_size(oid) FROM pg_class"
                " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
            )
        found = {name: int(size) for name, size in connection.exec_driver_sql(query)}
    return {name: Size(number, found.get(name, 0)) for name, number in rows.items()}


def fill(events: Traffic, kind: str, made: Databases, folder: Path) -> sa.Engine:
    """A store that has read it all, evaluated it, and had its pages tidied up."""
    for name, messages in (("decisions", events.decisions), ("labels", events.labels)):
        (folder / name).write_bytes(b"\n".join(messages) + b"\n")
    settings = settings_at(made.new(kind))
    engine = open_store(settings, SystemClock())
    source = FileSource([(name, folder / name) for name in ("decisions", "labels")])
    build_ingest(settings, engine, source, ServiceMetrics(), SystemClock()).run()
    evaluator = build_evaluator(settings, engine, SystemClock())
    evaluator.cycle()
    evaluator.release_lease()
    db.compact(engine)
    if kind == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM FULL")
    return engine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=100_000)
    given = parser.parse_args()
    events = traffic(given.decisions, hours=24 * DAYS)
    report = Report("Bytes on disk", "database", "table", "rows", "MB", "bytes a row")
    with tempfile.TemporaryDirectory() as name, databases(Path(name)) as made:
        for kind in made.kinds:
            engine = fill(events, kind, made, Path(name))
            for table, one in sorted(sizes(engine).items(), key=lambda pair: -pair[1].size):
                if one.rows and (one.size >= 50_000 or table in SHOWN):
                    megabytes = f"{one.size / 1e6:.2f}"
                    report.add(kind, table, f"{one.rows:,}", megabytes, f"{one.each:.0f}")
            engine.dispose()
    report.close()


if __name__ == "__main__":
    main()
