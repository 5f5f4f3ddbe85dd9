"""Simulated worlds through the evaluator, and what the detectors consumed, read with plain SQL."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from adversary.service import Feed, StillClock, settings_text
from adversary.worlds import DAY, MINUTE, SECOND, World
from migrated import migrated_file

from monitor.composition.evaluator import build_evaluator
from monitor.composition.store import open_store, retention_policy
from monitor.evaluate.evaluator import Evaluator
from monitor.ports import Clock
from monitor.settings import Settings, load
from monitor.store.upkeep import retention

MARGIN = MINUTE  # how far the feed's watermark is behind


def prompt(world: World, shift: int = 0) -> World:
    """The same decisions, all read and labelled at once: nothing is late, whenever one looks."""
    asked = np.isin(np.arange(len(world.at)), world.says).astype(np.int64)
    at, said_at = world.at + shift, world.at[world.says] + shift + 20 * SECOND
    order = np.argsort(said_at, kind="stable")
    labels = (column[order] for column in (world.says, said_at, world.labelled, world.ready))
    says, said_at, labelled, ready = labels
    return replace(
        world, at=at, arrives=at + 10 * SECOND, asked=asked,
        says=says, said_at=said_at, labelled=labelled, ready=ready,
    )  # fmt: skip


def moved(world: World, shift: int) -> World:
    """The same world at another time."""
    return replace(
        world, at=world.at + shift, arrives=world.arrives + shift, said_at=world.said_at + shift
    )


_LASTING = (
    "id, kind, contract, metric, opened_at, group_by, slice, share, versions_changed_at,"
    " settings_changed_at, resolved_at, further"
)
"""Columns of an incident that do not depend on when one looks."""


class Untested(Evaluator):
    """Makes tables, and no hour has its turn with the detectors: no table depends on them."""

    def _detect(self, *_: object) -> bool:
        return False


def untested(evaluator: Evaluator, clock: Clock) -> Evaluator:
    """The same without detectors."""
    return Untested(evaluator.store, evaluator.policy, clock)


class Releasing:
    """Store, feed and evaluators of one world.

    Args:
        world: what comes.
        folder: of the store and the settings.
        text: settings in place of the world's own.
        tested: whether the detectors consume what comes; else only tables are made.
    """

    def __init__(
        self, world: World, folder: Path, text: str | None = None, *, tested: bool = True
    ) -> None:
        self.folder = folder
        self._tested = tested
        shutil.copy(migrated_file(), folder / "store.db")
        self.change(text or settings_text(world, exact=False))
        self.engine = open_store(self.settings, StillClock())
        self.feed = Feed(world, self.engine)
        self.evaluator = self.fresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.dispose()

    def change(self, text: str) -> None:
        """Other settings, for evaluators that begin from now on."""
        path = self.folder / "settings.toml"
        path.write_text(text)
        url = f"sqlite:///{self.folder}/store.db"
        self.settings: Settings = load(path, {"SLICEWATCH__STORE__URL": url})
        open_store(self.settings, StillClock()).dispose()

    def fresh(self) -> Evaluator:
        made = build_evaluator(self.settings, self.engine, StillClock())
        return made if self._tested else untested(made, StillClock())

    def restart(self) -> None:
        """Begin from what the store holds."""
        self.evaluator.release_lease()
        self.evaluator = self.fresh()

    def until(self, now: int) -> None:
        """Feed what arrives before an instant, and evaluate."""
        self.feed.until(now)
        assert self.evaluator.cycle()

    def clean(self, now: int) -> None:
        """Retention, as the service calls it."""
        policy = retention_policy(self.settings)
        retention.apply(self.engine, policy, now - MARGIN, now)

    def snapshots(self) -> list[bytes]:
        """All that was ever published."""
        with self.engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT body FROM snapshot ORDER BY id").all()
        return [row[0] for row in rows]

    def detection(self) -> dict[str, list[tuple[Any, ...]]]:
        """What the detectors consumed, where they stand and what crossed, row by row."""
        queries = {
            "cohort": "SELECT hour, state, live, payload FROM cohort ORDER BY hour",
            "route_cohort": "SELECT hour, state, live, payload FROM route_cohort ORDER BY hour",
            "detector": "SELECT name, body FROM detector ORDER BY name",
            "crossing": "SELECT * FROM crossing ORDER BY id",
            "incident": f"SELECT {_LASTING} FROM incident ORDER BY id",
            "incident_crossing": "SELECT * FROM incident_crossing ORDER BY crossing",
            "incident_stream": "SELECT * FROM incident_stream ORDER BY incident, stream",
        }
        with self.engine.connect() as connection:
            return {
                table: [tuple(row) for row in connection.exec_driver_sql(query)]
                for table, query in queries.items()
            }


def instants(world: World, every: int, until: int) -> list[int]:
    """Regular moments at which whole panes are closed, up to an instant."""
    first = int(world.at[0]) // DAY * DAY
    return [*range(first + every + MARGIN, until, every), until]
