"""Simulated worlds through the evaluator, and what it keeps of the release, read with plain SQL."""

from __future__ import annotations

import json
import shutil
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from adversary.service import Feed, StillClock, settings_text
from adversary.worlds import DAY, HOUR, MINUTE, SECOND, World
from migrated import migrated_file

from monitor import composition
from monitor.core.privacy import exchange
from monitor.evaluate.evaluator import Evaluator
from monitor.ports import Clock
from monitor.settings import Settings, load
from monitor.store.upkeep import retention

K = 11
STEP = 5 * MINUTE
LABEL_GRID, LABEL_STRIDE = 6 * HOUR, 2 * DAY
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
    " settings_changed_at, resolved_at"
)
"""Columns of an incident that do not depend on when one looks."""


@dataclass(frozen=True)
class Kept:
    """What the store holds of the release.

    Attributes:
        edges: by family and whether of labels: where each block ends, and whether it is burned.
        maps: by family, the values that keep their name.
        label_maps: the same for labels.
        marks: instants by name.
    """

    edges: Mapping[tuple[str, bool], Mapping[int, bool]]
    maps: Mapping[str, Mapping[str, tuple[str, ...]]]
    label_maps: Mapping[str, Mapping[str, tuple[str, ...]]]
    marks: Mapping[str, int]

    @property
    def families(self) -> set[str]:
        return {family for family, _ in self.edges}

    def blocks(self, family: str, labels: bool) -> list[tuple[int, int]]:
        """Those that may be published: all that are not burned."""
        edges = self.edges.get((family, labels), {})
        return [(start, end) for start, end in pairwise(sorted(edges)) if not edges[end]]


def attributes_of(family: str) -> tuple[str, ...]:
    names = family.partition("/")[2]
    return tuple(names.split("+")) if names else ()


class Untested(Evaluator):
    """Makes blocks and tables, and no hour has its turn with the detectors.

    They take half of the time, and no block or sum depends on them: a test of release blocks
    compares the two.
    """

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
        tested: whether the detectors consume what comes; else only blocks and tables are made.
    """

    def __init__(
        self, world: World, folder: Path, text: str | None = None, *, tested: bool = True
    ) -> None:
        self.folder = folder
        self._tested = tested
        shutil.copy(migrated_file(), folder / "store.db")
        self.change(text or settings_text(world, exact=False))
        self.engine = composition.open_store(self.settings, StillClock())
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
        composition.open_store(self.settings, StillClock()).dispose()

    def fresh(self) -> Evaluator:
        made = composition.build_evaluator(self.settings, self.engine, StillClock())
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
        policy = composition.retention_policy(self.settings)
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

    def kept(self) -> Kept:
        return kept_of(self.engine)


def kept_of(engine: sa.Engine) -> Kept:
    """What a store holds of the release."""
    edges: dict[tuple[str, bool], dict[int, bool]] = defaultdict(dict)
    with engine.connect() as connection:
        query = "SELECT family, labels, at, burned FROM release_edge ORDER BY at"
        for family, labels, at, burned in connection.exec_driver_sql(query):
            edges[family, bool(labels)][at] = bool(burned)
        query = "SELECT family, body FROM release_map"
        bodies = {f: json.loads(body) for f, body in connection.exec_driver_sql(query)}
        maps, label_maps = (
            {
                family: {name: tuple(values) for name, values in body[which].items()}
                for family, body in bodies.items()
            }
            for which in ("kept", "labelled")
        )
        rows = connection.exec_driver_sql("SELECT name, at FROM release_mark")
        marks = {name: at for name, at in rows}  # noqa: C416, a dict of rows has no types
    return Kept(dict(edges), maps, label_maps, marks)


@dataclass(frozen=True)
class Row:
    """Counts of one pane, atom and route that may be published."""

    start: int
    atom: Mapping[str, str]
    route: int
    decisions: int
    labels: int
    revised: int = 0


def released(engine: sa.Engine, grain: int) -> list[Row]:
    """All closed panes of one grain; probes and what evidence failed are not in these worlds."""
    query = (
        "SELECT pane, text, stratum, SUM(n), SUM(labelled), SUM(revised)"
        " FROM released"
        " JOIN cell ON cell.id = released.cell JOIN atom ON atom.id = cell.atom"
        f" WHERE grain = {grain} GROUP BY pane, text, stratum"
    )
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(query).all()
    return [
        Row(pane * grain, dict(p.split("=") for p in text.split(",")), (code >> 11) & 3, *counts)
        for pane, text, code, *counts in rows
    ]


def row_of(kept: Mapping[str, tuple[str, ...]], atom: Mapping[str, str]) -> tuple[str, ...]:
    """The row of a group-by that an atom is shown in."""
    return tuple(
        atom[name] if atom[name] in values else "__other__" for name, values in sorted(kept.items())
    )


def small_cells(engine: sa.Engine, kept: Kept, k: int) -> list[str]:
    """Every row of every block that may be published with 1 to k - 1 decisions or labels."""
    panes = {grain: released(engine, grain) for grain in (STEP, HOUR)}
    found = []
    for (family, labels), edges in kept.edges.items():
        if family not in kept.maps or len(edges) < 2:
            continue
        for start, end in kept.blocks(family, labels):
            grain = HOUR if start % HOUR == end % HOUR == 0 else STEP
            counts: Counter[tuple[object, ...]] = Counter()
            for row in panes[grain]:
                if start <= row.start < end:
                    place = row_of((kept.label_maps if labels else kept.maps)[family], row.atom)
                    counts[place] += row.decisions
                    counts[place, row.route] += row.labels if labels else 0
            small = {place: n for place, n in counts.items() if n and n < k}
            found += [f"{family} {labels} {start}-{end} {place}: {n}" for place, n in small.items()]
    return found


def unnested(kept: Kept) -> list[str]:
    """Edges of a family that one it refines does not have."""
    found = []
    for (family, labels), edges in kept.edges.items():
        names = set(attributes_of(family))
        for parent in kept.families:
            there = kept.edges[parent, labels]
            if set(attributes_of(parent)) < names and len(there) > 1:
                beyond = {*edges} - {*there}
                found += [f"{family} {labels} {at} of {parent}" for at in sorted(beyond)]
    return found


def divided(before: Kept, after: Kept) -> list[str]:
    """Edges inside a block that was published before: the two parts could be subtracted."""
    found = []
    for key, edges in after.edges.items():
        if key[0] in before.maps:
            old = before.blocks(*key)
            found += [f"{key} {at}" for at in edges if any(s < at < e for s, e in old)]
    return found


def given_away(before: Kept, after: Kept) -> list[str]:
    """Blocks that hold a burned one: what was published beside it could be subtracted."""
    found = []
    for key in before.edges:
        edges = sorted(before.edges[key].items())
        burned = [(start, end) for (start, _), (end, lost) in pairwise(edges) if lost]
        for start, end in after.blocks(*key):
            found += [f"{key} {start}-{end}: {b}" for b in burned if b[0] < end and start < b[1]]
    return found


@dataclass
class Brute:
    """Blocks by the rule alone: one pane after the other, one row after the other.

    Attributes:
        k: smallest cell that may be shown.
        begins: where the first block begins.
        closed: event time up to which decisions are closed.
        frontier: the same for labels.
        panes: closed 5-minute panes and hours.
    """

    k: int
    begins: int
    closed: int
    frontier: int
    panes: Mapping[int, Sequence[Row]]
    edges: dict[tuple[str, bool], list[int]] = field(default_factory=dict)

    def make(self, made: Kept) -> None:
        """The edges of all families by their maps, those of fewer attributes first."""
        for family in sorted(made.maps, key=lambda name: len(attributes_of(name))):
            names = set(attributes_of(family))
            parents = [key for key in self.edges if set(attributes_of(key[0])) < names]
            refined = any(names < set(attributes_of(other)) for other in made.maps)
            for labels in (False, True):
                kept = (made.label_maps if labels else made.maps)[family]
                there = {key[0]: self.edges[key] for key in parents if key[1] == labels}
                stride = (LABEL_STRIDE if refined else LABEL_GRID) if labels else HOUR
                self.edges[family, labels] = list(self._blocks(kept, labels, there, stride))

    def _blocks(
        self,
        kept: Mapping[str, tuple[str, ...]],
        labels: bool,
        parents: Mapping[str, Sequence[int]],
        stride: int,
    ) -> Iterator[int]:
        step, end = (HOUR, self.frontier) if labels else (STEP, self.closed)
        coming: dict[int, Counter[tuple[object, ...]]] = defaultdict(Counter)
        for row in self.panes[step]:
            place = row_of(kept, row.atom)
            coming[row.start + step][place] += row.decisions
            coming[row.start + step][place, row.route] += row.labels if labels else 0
        last, open_block = self.begins, Counter[tuple[object, ...]]()
        yield last
        for at in range(self.begins + step, end + 1, step):
            open_block.update(coming[at])
            counts = [n for n in open_block.values() if n]
            if labels and at % LABEL_GRID:
                continue
            of_routes = [place for place in open_block if place and isinstance(place[-1], int)]
            by_route = [n for place in of_routes if (n := open_block[place])]
            waited = by_route if labels else counts
            ends = (
                all(at in edges for edges in parents.values())
                and all(n >= self.k for n in counts)
                and self._leaves_enough(last, at, stride, waited)
            )
            if ends and (len(kept) < 2 or self._hides(kept, labels, parents, (last, at))):
                yield at
                last, open_block = at, Counter()

    def _hides(
        self,
        kept: Mapping[str, tuple[str, ...]],
        labels: bool,
        parents: Mapping[str, Sequence[int]],
        block: tuple[int, int],
    ) -> bool:
        """Whether two crossed attributes may end a block: every table by row, column and part."""
        names, (start, end) = sorted(kept), block
        edges = [
            [at for name, some in parents.items() if name.endswith(f"/{one}") for at in some]
            for one in names
        ]
        inner = sorted({at for some in edges for at in some if start < at < end})
        tables: dict[object, npt.NDArray[np.int64]] = defaultdict(
            lambda: np.zeros((1, *(len(kept[name]) for name in names), len(inner) + 1), np.int64)
        )
        for row in self.panes[HOUR if labels else STEP]:
            if start <= row.start < end:
                values = row_of(kept, row.atom)
                at = [kept[name].index(value) for name, value in zip(names, values, strict=True)]
                place = (0, *at, bisect_right(inner, row.start))
                tables["all"][place] += row.decisions
                if labels:
                    tables[row.route][place] += row.labels
        together = [
            np.array(
                [sum(at <= part for at in some if start < at < end) for part in (start, *inner)]
            )
            for some in edges
        ]
        return all(exchange.given_away([n, n], self.k, together) is None for n in tables.values())

    def _leaves_enough(self, last: int, at: int, stride: int, counts: Sequence[int]) -> bool:
        begun, left = at - at % stride, stride - at % stride
        if at == begun:
            return True
        paces = all(n * left >= 2 * self.k * (at - last) for n in counts)
        return last >= begun and paces


def instants(world: World, every: int, until: int) -> list[int]:
    """Regular moments at which whole panes are closed, up to an instant."""
    first = int(world.at[0]) // DAY * DAY
    return [*range(first + every + MARGIN, until, every), until]
