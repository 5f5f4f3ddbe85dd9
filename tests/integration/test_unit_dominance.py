"""A slice that is mostly one customer's is not shown, from the event to the published block."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from histories import Event
from pipeline import DECISIONS, SETTINGS, Pipeline, settings_with
from releasing import untested
from signed_probes import signed

from monitor.core.privacy.release_blocks import blocks_kept
from monitor.core.publish.snapshot import decode
from monitor.core.time import DAY, HOUR, MINUTE, to_micros
from monitor.store.schema import UNIT_COLUMNS
from monitor.store.upkeep import retention
from monitor.store.upkeep.recode import drop_unlisted
from monitor.store.upkeep.retention_guard import RetentionPolicy

pytestmark = pytest.mark.full

START = datetime(2026, 6, 1, tzinfo=UTC)  # a Monday: no new merge maps within six days
BEGINS, ENDS = 36, 44  # hours in which one customer has most of the chats
HOURS = 52
TEXT = SETTINGS.replace("k = 1\n", "k = 11\n").replace('version = "1"', 'version = "2"')
POLICY = RetentionPolicy(
    horizon=30 * DAY, aggregates=400 * DAY, dead_letters=DAY, snapshots=DAY, dedupe_window=HOUR
)
CHANNEL, VARIETY = "synthetic/channel", "synthetic/language_variety"
BOTH = "synthetic/channel+language_variety"


@dataclass(frozen=True)
class Traffic:
    """Two chats and four e-mails every 5 minutes; units as told.

    Attributes:
        acme: of every ten chats while it has most of them; 0 is never.
        units: whether decisions name their unit at all.
        late: acme's decisions come two hours late.
        late_hour: all decisions of this hour do.
        start: of the first hour.
        heavy: hours in which it has most of the chats.
        hours: how many.
    """

    acme: int = 7
    units: bool = True
    late: bool = False
    late_hour: int = -1
    start: datetime = START
    heavy: tuple[int, int] = (BEGINS, ENDS)
    hours: int = HOURS

    def batches(self) -> Iterator[list[bytes | None]]:
        """Messages, an hour at a time, in the order of arrival."""
        waiting: list[list[Event]] = [[], []]
        for hour in range(self.hours):
            events = [self.event(hour, number) for number in range(72)]
            held = [event for event in events if self._is_late(hour, event)]
            arrived = [event for event in events if event not in held]
            yield [json.dumps(event).encode() for event in arrived + waiting.pop(0)]
            waiting.append(held)

    def _is_late(self, hour: int, event: Event) -> bool:
        return hour == self.late_hour or (self.late and event.get("unit") == "acme")

    def event(self, hour: int, number: int) -> Event:
        at = self.start + timedelta(hours=hour, seconds=50 * number)
        channel = "chat" if number % 3 == 0 else "email"
        event: Event = {
            "decision_id": f"d{hour}-{number}",
            "decided_at": at.isoformat(),
            "route": "auto_serve" if number % 4 else "human_review",
            "judge_score": 0.8,
            "threshold": 0.7,
            "evidence_passed": True,
            "attributes": {
                "channel": channel,
                "language_variety": "formal" if number % 2 else "conversational",
            },
            "versions": {"judge": "j", "rubric": "r", "policy": "p", "router": "t"},
            "audit_p": 1.0,
            "label_requested": False,
        }
        if self.units:
            begins, ends = self.heavy
            heavy = channel == "chat" and begins <= hour < ends and number // 3 % 10 < self.acme
            event["unit"] = "acme" if heavy else f"customer {hour} {number}"
        return event


@dataclass
class Published:
    """What the store says after every hour: edges by family, and Snapshots."""

    edges: list[dict[str, list[int]]]
    snapshots: list[bytes]


def run(
    folder: Path,
    traffic: Traffic,
    *,
    restarts: bool = False,
    partitions: int = 1,
    tested: bool = True,
    **overrides: Any,
) -> Published:
    """The whole service, hour by hour; with ``restarts`` a new worker and evaluator each hour.

    Where edges alone are looked at, it is not ``tested``: no detectors.
    """
    folder.mkdir(exist_ok=True)
    found = Published([], [])
    with Pipeline(folder, (partitions, 1), text=TEXT, **overrides) as pipeline:
        worker, evaluator = pipeline.worker(), pipeline.evaluator()
        if not tested:
            evaluator = untested(evaluator, pipeline.clock)
        for hour, batch in enumerate(traffic.batches()):
            for number, message in enumerate(batch):
                pipeline.broker.produce(DECISIONS, [message], number % partitions)
            pipeline.drain()
            assert evaluator.cycle()
            found.edges.append(edges(pipeline.engine))
            found.snapshots.append(pipeline.snapshot() or b"")
            if restarts and hour % 2:
                pipeline.kill(worker)
                evaluator.release_lease()
                worker, evaluator = pipeline.worker(), pipeline.evaluator()
        pipeline.check_conservation()
    return found


def edges(engine: sa.Engine) -> dict[str, list[int]]:
    query = "SELECT family, at FROM release_edge WHERE NOT labels AND NOT burned ORDER BY at"
    found: dict[str, list[int]] = {}
    with engine.connect() as connection:
        for family, at in connection.execute(sa.text(query)):
            found.setdefault(family, []).append(at)
    return found


def unit_rows(engine: sa.Engine) -> Sequence[Mapping[str, int]]:
    with engine.connect() as connection:
        return connection.execute(sa.text("SELECT * FROM unit_share")).mappings().all()  # type: ignore[return-value]


def at(hours: float) -> int:
    return to_micros(START) + int(hours * HOUR)


def within(found: Sequence[int], first: float, end: float) -> list[int]:
    return [edge for edge in found if at(first) < edge <= at(end)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """One customer has 70 % of the chats for eight hours."""
    return run(tmp_path_factory.mktemp("told"), Traffic())


@pytest.fixture(scope="module")
def untold(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """The same decisions, and nobody says whose they are."""
    return run(tmp_path_factory.mktemp("untold"), Traffic(units=False), tested=False)


def test_a_dominated_slice_holds_its_group_by_back_until_others_have_come(
    told: Published, untold: Published
) -> None:
    final, free = told.edges[-1], untold.edges[-1]
    for family in (CHANNEL, BOTH):
        assert not within(final[family], BEGINS + 1, ENDS), family
        assert within(final[family], ENDS, HOURS), "it goes on when others have come"
    assert len(within(free[CHANNEL], BEGINS, ENDS)) >= ENDS - BEGINS, "else it would have advanced"


def test_no_block_that_was_closed_is_dominated(told: Published) -> None:
    chats = [
        (to_micros(datetime.fromisoformat(event["decided_at"])), event["unit"])
        for batch in Traffic().batches()
        for event in map(json.loads, filter(None, batch))
        if event["attributes"]["channel"] == "chat"
    ]
    blocks = told.edges[-1][CHANNEL]
    for start, end in pairwise(blocks):
        units = [unit for moment, unit in chats if start <= moment < end]
        assert 2 * units.count("acme") <= len(units), (start, end)


def test_other_group_bys_go_on(told: Published, untold: Published) -> None:
    hours = set(range(at(24), at(HOURS - 1), HOUR))
    for family in (VARIETY, "synthetic/"):
        assert hours & {*told.edges[-1][family]} == hours & {*untold.edges[-1][family]}, family


def test_the_last_publication_stands_meanwhile(told: Published) -> None:
    """The table of the group-by keeps its period and does not vanish."""
    shown = [periods(body) for body in told.snapshots[BEGINS + 2 : ENDS]]
    assert len(set(shown)) == 1
    assert None not in shown


def periods(body: bytes) -> int | None:
    (contract,) = decode(body).contracts
    window = next(window for window in contract.windows if window.window == "24h")
    group = next(group for group in window.groups if group.group_by == "channel")
    return None if group.decisions is None else group.decisions.end


def test_a_small_share_holds_nothing_back(tmp_path: Path, untold: Published) -> None:
    found = run(tmp_path, Traffic(acme=3), tested=False).edges[-1]
    hours = set(range(at(25), at(HOURS - 1), HOUR))
    assert hours & {*found[CHANNEL]} == hours & {*untold.edges[-1][CHANNEL]}


def test_restart_and_takeover_publish_the_same(tmp_path: Path, told: Published) -> None:
    found = run(tmp_path, Traffic(), restarts=True)
    assert found.edges == told.edges
    assert found.snapshots == told.snapshots


def test_how_events_are_batched_and_partitioned_makes_no_difference(
    tmp_path: Path, told: Published
) -> None:
    found = run(tmp_path, Traffic(), partitions=2, tested=False)
    assert found.edges[-1] == told.edges[-1]


def test_what_came_too_late_is_nobodys(tmp_path: Path) -> None:
    """Decisions that are held back count neither in the slice nor against it."""
    found = run(tmp_path, Traffic(late=True), tested=False).edges[-1]
    assert len(within(found[CHANNEL], BEGINS, ENDS)) >= ENDS - BEGINS - 1


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> dict[str, object]:
    """Where the store is, as settings."""
    return (
        {} if request.param == "sqlite" else {"store__url": request.getfixturevalue("postgres_url")}
    )


def test_postgresql_publishes_the_same(tmp_path: Path, postgres_url: str, told: Published) -> None:
    found = run(tmp_path, Traffic(), restarts=True, store__url=postgres_url)
    assert found.edges[-1] == told.edges[-1]
    assert found.snapshots[-1] == told.snapshots[-1]


@pytest.mark.parametrize(("acme", "joins"), [(0, True), (7, False)])
def test_late_decisions_join_what_is_published_only_if_they_are_several_units(
    tmp_path: Path, store: dict[str, object], acme: int, joins: bool
) -> None:
    """Who kept the old block would find those late ones alone."""
    hour = BEGINS + 4
    with Pipeline(tmp_path, text=TEXT, **store) as pipeline:  # type: ignore[arg-type]
        pipeline.worker()
        evaluator = untested(pipeline.evaluator(), pipeline.clock)
        for batch in Traffic(acme=acme, late_hour=hour).batches():
            pipeline.broker.produce(DECISIONS, batch)
            pipeline.drain()
            assert evaluator.cycle()
        found = {
            name: total(pipeline.engine, f"SELECT SUM({total_of}) FROM {name} WHERE {where}")
            for name, total_of, where in (
                ("released", "n", f"pane = {at(hour) // HOUR} AND grain = {HOUR}"),
                ("held_back", "n", f"pane = {at(hour) // HOUR}"),
                ("unit_share", "+".join(UNIT_COLUMNS), f"pane = {at(hour) // HOUR} AND late"),
            )
        }
    assert found == {
        "released": 72 if joins else 0,
        "held_back": 0 if joins else 72,
        "unit_share": 0 if joins else 2 * 72,
    }


def test_what_counts_are_units_of_production_decisions_each_once(tmp_path: Path) -> None:
    """In one flush of batches with units and without; probes are nobody's."""
    traffic = Traffic()
    plain = [traffic.event(0, number) for number in range(30)]
    for event in plain[:10]:
        del event["unit"]
    plain[20:] = [signed(event | {"traffic": "probe"}) for event in plain[20:]]
    with Pipeline(tmp_path, max_records=10, text=TEXT) as pipeline:
        pipeline.worker()
        messages = [json.dumps(event).encode() for event in [*plain, *plain[10:15]]]
        pipeline.broker.produce(DECISIONS, messages)
        pipeline.drain()
        pipeline.fold()
        counts = total(pipeline.engine, f"SELECT SUM({'+'.join(UNIT_COLUMNS)}) FROM unit_share")
        assert counts == 10 * 2 * 2, "decisions, hashings, grains"


def total(engine: sa.Engine, query: str) -> int:
    with engine.connect() as connection:
        return connection.execute(sa.text(query)).scalar() or 0


def test_a_value_that_stays_dominated_is_pooled_with_the_week(tmp_path: Path) -> None:
    """With it as many others as it takes, so that the group-by goes on."""
    monday = 72
    start = START - timedelta(hours=monday)
    found = run(tmp_path, Traffic(start=start, heavy=(20, 80), hours=80), tested=False).edges
    before, after = found[monday - 1], found[-1]
    assert not within(before[CHANNEL], 22 - monday, 0)
    for family in (CHANNEL, BOTH):
        assert len(within(after[family], 0, 80 - monday)) >= 80 - monday - 2


def fill(pipeline: Pipeline, traffic: Traffic) -> None:
    pipeline.worker()
    for batch in traffic.batches():
        pipeline.broker.produce(DECISIONS, batch)
    pipeline.drain()
    pipeline.fold()


def test_without_units_nothing_is_kept_of_them(tmp_path: Path) -> None:
    with Pipeline(tmp_path, text=TEXT) as pipeline:
        fill(pipeline, Traffic(units=False))
        assert not unit_rows(pipeline.engine)


def test_no_unit_is_kept_and_nothing_of_them_longer_than_closed_panes(tmp_path: Path) -> None:
    with Pipeline(tmp_path, text=TEXT) as pipeline:
        fill(pipeline, Traffic())
        grains = {row["grain"] for row in unit_rows(pipeline.engine)}
        assert grains == {5 * MINUTE, HOUR}
        for path in tmp_path.iterdir():
            assert b"acme" not in path.read_bytes(), path.name
        for ago in (20 * DAY, blocks_kept(POLICY.horizon) - 10 * HOUR, blocks_kept(POLICY.horizon)):
            then = at(HOURS) + ago
            retention.apply(pipeline.engine, POLICY, then, then, confirmed=True)
            assert panes(pipeline.engine, "unit_share") == panes(pipeline.engine, "released")
        assert not unit_rows(pipeline.engine)


def panes(engine: sa.Engine, table: str) -> set[tuple[int, int]]:
    with engine.connect() as connection:
        rows = connection.execute(sa.text(f"SELECT DISTINCT grain, pane FROM {table}")).all()
    return {(row.grain, row.pane) for row in rows}


def test_a_value_that_is_listed_no_more_takes_its_units_along(
    tmp_path: Path, store: dict[str, object]
) -> None:
    """They count in ``__other__`` then, as its decisions do."""
    with Pipeline(tmp_path, text=TEXT, **store) as pipeline:  # type: ignore[arg-type]
        fill(pipeline, Traffic())
        before = total_units(pipeline.engine)
        (tmp_path / "later").mkdir()
        fewer = TEXT.replace('values = ["chat", "email"]', 'values = ["email"]')
        assert drop_unlisted(pipeline.engine, settings_with(tmp_path / "later", fewer).coding)
        assert total_units(pipeline.engine) == before
        with pipeline.engine.connect() as connection:
            texts = connection.execute(
                sa.text("SELECT DISTINCT text FROM unit_share JOIN atom ON id = atom")
            ).scalars()
            assert not any("channel=chat" in text for text in texts)


def total_units(engine: sa.Engine) -> dict[tuple[int, int], list[int]]:
    found: dict[tuple[int, int], list[int]] = {}
    for row in unit_rows(engine):
        known = found.setdefault((row["grain"], row["pane"]), [0] * len(UNIT_COLUMNS))
        for i, name in enumerate(UNIT_COLUMNS):
            known[i] += row[name]
    return found
