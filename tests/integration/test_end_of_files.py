"""``slicewatch replay`` of whole files: their end closes the day, and more of it is late."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from guarded import settings_for
from migrated import bring_to_head
from sqlalchemy import create_engine

from monitor.commands.replay import command
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import Snapshot, decode
from monitor.core.time import DAY, HOUR, to_micros
from monitor.store.evaluator.records import RecordStore

pytestmark = pytest.mark.full

K = 11
MONDAY = datetime(2026, 6, 1, tzinfo=UTC)
START = to_micros(MONDAY)
VALUES = ("chat", "email", "fax", "voice")
SHARES = (0.6, 0.28, 0.02, 0.1)
Event = dict[str, Any]


def iso(at: datetime) -> str:
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def events(n: int, begins: float, ends: float, seed: int, audit: float = 0.05) -> list[Event]:
    """Decisions between two hours after Monday; ``fax`` is rare."""
    rng = np.random.default_rng(seed)
    made = []
    for i, hour in enumerate(np.sort(rng.uniform(begins, ends, n)).tolist()):
        serve = bool(rng.random() < 0.65)
        made.append(
            {
                "decision_id": f"{seed}-{i}",
                "decided_at": iso(MONDAY + timedelta(hours=hour)),
                "route": "auto_serve" if serve else "human_review",
                "judge_score": 0.8 if serve else 0.4,
                "threshold": 0.7,
                "evidence_passed": True,
                "attributes": {"a": str(rng.choice(VALUES, p=SHARES))},
                "versions": {"judge": "j", "rubric": "r", "policy": "p", "router": "t"},
                "audit_p": audit if serve else 1.0,
                "label_requested": not serve or bool(rng.random() < audit),
            }
        )
    return made


def labels(decisions: Sequence[Event]) -> list[Event]:
    return [
        {
            "label_id": f"l-{one['decision_id']}",
            "decision_id": one["decision_id"],
            "decided_at": one["decided_at"],
            "version": 1,
            "ready": int(one["decision_id"].split("-")[1]) % 3 != 0,
            "kind": "initial",
            "reason": "audit",
            "reviewer": "r",
            "labelled_at": one["decided_at"],
        }
        for one in decisions
        if one["label_requested"]
    ]


class Desk:
    """A store, and the command."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url, self.files = folder, f"sqlite:///{folder}/store.db", 0
        bring_to_head(self.url)
        settings_for(self.url, folder, {"a": VALUES}, "a")

    def replay(self, decisions: Sequence[Event], *options: str) -> bytes:
        """Replay one more file of decisions and one of their labels; the newest Snapshot."""
        self.files += 1
        paths = []
        for name, rows in (("decisions", decisions), ("labels", labels(decisions))):
            path = self.folder / f"{name}{self.files}.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            paths.append(f"{name}={path}")
        arguments = ["-s", str(self.folder / "settings.toml"), *options, *paths]
        done = CliRunner(env={"SLICEWATCH__STORE__URL": self.url}).invoke(
            command, arguments, catch_exceptions=False
        )
        assert done.exit_code == 0, done.output
        engine = create_engine(self.url)
        newest = RecordStore(engine).newest_snapshot()
        engine.dispose()
        assert newest is not None
        return newest[1]


@pytest.fixture
def desks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Desk]:
    return lambda: Desk(tmp_path_factory.mktemp("desk"))


def shown(body: bytes | Snapshot) -> dict[str, set[Metric]]:
    """Of each slice, the rates shown in the week."""
    snapshot = decode(body) if isinstance(body, bytes) else body
    (window,) = (w for w in snapshot.contracts[0].windows if w.window == "7d")
    return {row.slice: {*row.rates} for group in window.groups for row in group.rows}


@pytest.mark.parametrize(("begins", "ends"), [(0.01, 23.9), (8.6, 17.2), (20.5, 21.4)])
@pytest.mark.parametrize("seed", [1])
def test_a_file_of_one_day_shows_every_value_that_has_k(
    desks: Callable[[], Desk], begins: float, ends: float, seed: int
) -> None:
    """Selection where a route has k decisions; TPR where a route has k labels of ready ones."""
    decided = events(3_000, begins, ends, seed)
    body = desks().replay(decided)

    found = shown(body)
    assert decode(body).watermark == START + DAY
    routes = Counter((one["attributes"]["a"], one["route"]) for one in decided)
    ready = {one["decision_id"] for one in labels(decided) if one["ready"]}
    served = Counter(
        (o["attributes"]["a"], o["route"]) for o in decided if o["decision_id"] in ready
    )
    for metric, counts, withheld in ((Metric.SELECTION, routes, 0), (Metric.TPR, served, 1)):
        shows = {value for value in VALUES if metric in found.get(f"a={value}", set())}
        most = {
            v: max(counts[v, route] for route in ("auto_serve", "human_review")) for v in VALUES
        }
        enough = {value for value in VALUES if most[value] >= K}
        assert shows <= enough
        # The table rule may withhold one row, lest sums give a count below k away.
        assert len(enough - shows) <= withheld, (metric, most)


def test_hourly_files_daily_files_and_one_file_publish_the_same(desks: Callable[[], Desk]) -> None:
    hours = [(9 + 24 * day, 17 + 24 * day) for day in range(3)]
    days = [events(2_000, *span, seed=day) for day, span in enumerate(hours)]
    one, daily, hourly = desks(), desks(), desks()

    at_once = one.replay([event for day in days for event in day])
    by_day = [daily.replay(day) for day in days]
    for day, (begins, _) in zip(days, hours, strict=True):
        ends = [iso(MONDAY + timedelta(hours=begins + h)) for h in (2, 4, 6)]
        cuts = np.searchsorted([event["decided_at"] for event in day], ends)
        *earlier, last = np.split(np.array(day, object), cuts)
        for part in earlier:
            hourly.replay(part.tolist(), "--more-to-come")
        by_hour = hourly.replay(last.tolist())

    assert by_day[-1] == at_once == by_hour
    assert {Metric.SELECTION, Metric.TPR} <= shown(at_once)["a=chat"]


def test_what_was_closed_stays_closed_and_the_rest_of_the_day_is_late(
    desks: Callable[[], Desk],
) -> None:
    """A day's tables are published once: what comes later is in longer spans alone."""
    desk, morning, late = desks(), events(800, 8, 12, 1), events(90, 12, 16, 2)
    first = desk.replay(morning)

    assert desk.replay(late) == first
    later = decode(desk.replay(events(800, 32, 40, 3)))
    (window,) = (w for w in later.contracts[0].windows if w.window == "7d")
    support = window.total.rates[Metric.SELECTION].support
    assert support < len(morning) + 800 + len(late) // 2  # bands are 20 wide


def test_a_day_that_lasts_is_not_closed(desks: Callable[[], Desk]) -> None:
    """Nothing of today is late because somebody looked at noon."""
    now = datetime.now(UTC)
    begins = (now - MONDAY) / timedelta(hours=1)
    decided = events(50, begins - 1, begins - 0.01, 1)

    reached = decode(desks().replay(decided)).watermark
    newest = to_micros(datetime.fromisoformat(decided[-1]["decided_at"]))
    assert reached is None or reached <= newest + HOUR
