"""What each published group-by waits for, from the newest Snapshot alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from monitor.cli import cli
from monitor.commands import check
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    Period,
    SliceRow,
    Snapshot,
    WindowTable,
    encode,
)
from monitor.core.time import DAY, HOUR, to_datetime
from monitor.store.schema import snapshot as stored
from monitor.store.upkeep.published_ages import (
    FIRST_DECISIONS,
    FIRST_LABELS,
    PublishedReport,
    published_ages,
)

NOW = 20_000 * DAY + 11 * HOUR
FRONTIER = NOW - 3 * DAY


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


def group(name: str, decisions: int | None, labels: int | None) -> GroupTable:
    """Published up to so long ago."""
    ends = [None if age is None else Period(0, NOW - age) for age in (decisions, labels)]
    return GroupTable(name, (), decisions=ends[0], labelled=ends[1])


def put(engine: sa.Engine, number: int, *groups: GroupTable) -> None:
    row = SliceRow("", {})
    ends = {"decisions": Period(0, NOW - HOUR), "labelled": Period(0, FRONTIER)}
    other = WindowTable("24h", row, (group("ignored", None, None),))
    window = WindowTable("7d", row, groups, **ends)
    limits = {Metric.TPR: 0.1}
    table = ContractTable(
        *("replies", "1", "team", False, 11, "7d"), limits, {}, {}, {}, (other, window)
    )
    body = encode(Snapshot(NOW, FRONTIER, (table,)))
    values = {"id": number, "stored_at": NOW, "watermark": NOW, "body": body}
    with engine.begin() as connection:
        connection.execute(stored.insert().values(**values))


def waits(engine: sa.Engine) -> dict[str, tuple[str, ...]]:
    return {one.group_by: one.waits_for for one in published_ages(engine)}


def test_before_the_first_snapshot_there_is_nothing(engine: sa.Engine) -> None:
    assert list(published_ages(engine)) == []


def test_what_is_as_new_as_it_can_be_waits_for_nothing(engine: sa.Engine) -> None:
    put(engine, 1, group("channel", 11 * HOUR, 4 * DAY))

    assert list(published_ages(engine)) == [
        PublishedReport("replies", "", to_datetime(NOW - HOUR), to_datetime(FRONTIER), ()),
        PublishedReport(
            "replies", "channel", to_datetime(NOW - 11 * HOUR), to_datetime(NOW - 4 * DAY), ()
        ),
    ]


def test_each_group_by_says_what_it_waits_for(engine: sa.Engine) -> None:
    put(
        engine,
        1,
        group("age", 3 * DAY, 4 * DAY),
        group("tone", None, None),
        group("variety", DAY, None),
    )

    assert waits(engine) == {
        "": (),
        "age": (),
        "tone": (FIRST_DECISIONS, FIRST_LABELS),
        "variety": (FIRST_LABELS,),
    }


def test_the_newest_snapshot_counts(engine: sa.Engine) -> None:
    put(engine, 1, group("channel", None, None))
    put(engine, 2, group("channel", DAY, 4 * DAY))

    assert waits(engine) == {"": (), "channel": ()}


def test_check_says_the_same_of_what_waits(
    url: str, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_topics", lambda _: iter(()))
    put(engine, 1, group("channel", 11 * HOUR, None), group("city", DAY, 4 * DAY))
    environment = {
        "SLICEWATCH__STORE__URL": url,
        "SLICEWATCH__PRIVACY__ID_KEY": "a-key-of-a-test-that-is-long-enough",
    }
    settings = Path(__file__).parents[3] / "deploy" / "examples" / "ten_pairs.toml"

    said = CliRunner(env=environment).invoke(cli, ["check", "--connect", "-s", str(settings)])

    notes = [line for line in said.output.splitlines() if line.startswith("note: contract")]
    assert notes == [
        f"note: contract replies, group-by channel: publishing waits for {FIRST_LABELS}"
    ]
