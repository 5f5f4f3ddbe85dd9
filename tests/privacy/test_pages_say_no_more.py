"""Pages, files and answers say no number that their Snapshot does not have."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from migrated import bring_to_head
from published_lesson import T0, hidden, lesson
from served_site import ServedSite, publish, served_site
from set_clock import SetClock

from monitor.core.metric import Metric
from monitor.core.publish.annotations import Annotation, Stage
from monitor.core.publish.release import Release, Revision, encode
from monitor.core.publish.side_by_side import VersionGroup
from monitor.core.publish.snapshot import (
    CalibrationCell,
    Noted,
    ShownAgreement,
    ShownGap,
    ShownRate,
    ShownStage,
    SliceRow,
    Snapshot,
)
from monitor.core.state import State
from monitor.core.time import DAY, HOUR, IsoWeek
from monitor.reports.weekly_report import TABLES
from monitor.store import database
from monitor.store.evaluator.weekly_releases import write_revisions
from monitor.web import SiteFacts

LIMITS = {"50.0", "20.0", "60.0", "30.0", "1.2"}
"""Of the contract, and of the version."""
NAMES = ("chat", "email", "fax", "mail")
FACTS = SiteFacts("1", versions=(VersionGroup("lesson", "channel", {"channel": "chat"}),))
"""As if the channel were a version: its slices stand side by side, too."""


def numbered_rows() -> Iterator[SliceRow]:
    """Rows in which no number stands twice, so that each can be told from all others."""
    number = iter(range(10_000, 99_999))

    def share() -> float:
        return next(number) / 100_000

    def rate() -> ShownRate:
        return ShownRate(share(), share(), share(), next(number))

    def gap() -> ShownGap:
        return ShownGap("channel=chat", share(), share(), share(), share(), share(), share())

    for name in NAMES:
        yield SliceRow(
            f"channel={name}",
            dict.fromkeys(Metric, State.INCONCLUSIVE),
            {metric: rate() for metric in Metric},
            {metric: gap() for metric in Metric},
            {Metric.TPR: share()},
            (CalibrationCell("below 0.70", rate()), CalibrationCell("no score", None)),
            share(),
            noted=(Noted(Annotation.DRIFT, Metric.TPR, next(number), T0),),
            stages={Metric.TPR: ShownStage(Stage.NONE)},
            agreement=ShownAgreement(share(), None, share(), share()),
        )


def numbers(value: Any) -> set[float]:
    """All fractions and large whole numbers below a value."""
    if isinstance(value, dict):
        return set().union(*map(numbers, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(numbers, value))
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return {float(value)} if plain and (value % 1 or value >= 10_000) else set()


@pytest.fixture
def snapshot() -> Snapshot:
    made = lesson(*numbered_rows(), hidden("channel=tty"))
    (table,) = made.contracts
    return replace(made, contracts=(replace(table, max_gaps={Metric.TPR: 0.5}),))


@pytest.fixture
def site(tmp_path: Path, snapshot: Snapshot) -> Iterator[ServedSite]:
    url = f"sqlite:///{tmp_path}/store.db"
    bring_to_head(url)
    engine: sa.Engine = database.create_engine(url)
    publish(engine, snapshot, T0)
    with served_site(engine, SetClock(T0 + HOUR), FACTS) as site:
        yield site
    engine.dispose()


def queries() -> list[str]:
    return [f"?group_by=channel&slice=channel%3D{name}" for name in (*NAMES, "tty")]


def test_answers_have_no_number_that_the_snapshot_has_not(
    site: ServedSite, snapshot: Snapshot
) -> None:
    known = numbers(msgspec.to_builtins(snapshot))
    said: set[float] = set()
    for path in ("/api/v1/snapshot", *(f"/api/v1/slice{q}" for q in queries())):
        said |= numbers(site.json(path)) - {HOUR / 1e6}
    assert said - known == set()
    assert len(said) > 200, "and nearly all of them"


def test_files_have_no_number_that_the_snapshot_has_not(
    site: ServedSite, snapshot: Snapshot
) -> None:
    known = numbers(msgspec.to_builtins(snapshot))
    paths = ["/overview.csv", "/versions.csv"]
    paths += [f"/{f}.csv{q}" for f in ("slice", "history") for q in queries()]
    said: set[float] = set()
    for path in paths:
        for row in csv.reader(io.StringIO(site.get(path)[1])):
            said |= numbers([float(v) for v in row if re.fullmatch(r"-?[0-9.]+", v)])
    assert said - known == set()
    assert len(said) > 100


def test_pages_write_no_number_that_is_not_the_snapshot_s(
    site: ServedSite, snapshot: Snapshot
) -> None:
    """Pages round to tenths of a per cent: nothing finer than that is written or drawn."""
    known = {f"{100 * one:.1f}" for one in numbers(msgspec.to_builtins(snapshot)) if one < 1}
    for path in ("/", *(f"/slice{q}" for q in queries())):
        _, page = site.get(path)
        text = re.sub(r"<svg.*?</svg>|<style.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)
        tenths = set(re.findall(r"(?<![\d.:-])\d{1,2}\.\d(?![\d.])", text))
        assert tenths - known - LIMITS == set(), path
        exact = set(map(float, re.findall(r"0\.\d{3,}", text)))  # of two reviewers' agreement
        assert exact <= numbers(msgspec.to_builtins(snapshot))


def test_reports_have_no_number_that_their_release_has_not(
    site: ServedSite, tmp_path: Path, snapshot: Snapshot
) -> None:
    week = IsoWeek.named("2024-W39")
    release = Release(week.name, week.start, week.end, snapshot.contracts)
    engine = database.create_engine(f"sqlite:///{tmp_path}/store.db")
    with database.writing(engine) as connection:
        write_revisions(connection, [Revision(week.name, 1, T0, encode(release))], T0)
    engine.dispose()
    # What the planners make of the Release, they make of it alone: no report sees the store.
    document = site.json("/api/v1/report")
    planned = numbers(document.pop("planned"))
    known = numbers(msgspec.to_builtins(release)) | {float(T0), *numbers(document["facts"])}
    known.add(float(T0 // DAY * DAY))  # the day of the newest Snapshot
    said = numbers(document)
    for name in TABLES:
        for row in csv.reader(io.StringIO(site.get(f"/report.csv?table={name}")[1])):
            said |= numbers([float(v) for v in row if re.fullmatch(r"-?[0-9.]+", v)])
    assert said - known == set()
    assert len(said) > 200
    assert numbers(site.json("/api/v1/reports")) == set()
    shares = {f"{100 * one:.1f}" for one in known | planned if abs(one) < 1}
    for path in ("/report", "/reports"):
        page = re.sub(
            r"<svg.*?</svg>|<style.*?</style>|<[^>]*>", " ", site.get(path)[1], flags=re.S
        )
        tenths = set(re.findall(r"(?<![\d.:-])\d{1,2}\.\d(?![\d.])", page))
        assert tenths - shares - LIMITS == set(), path


def test_an_hour_later_nothing_but_ages_has_changed(
    site: ServedSite, tmp_path: Path, snapshot: Snapshot
) -> None:
    engine = database.create_engine(f"sqlite:///{tmp_path}/store.db")
    before = site.json("/api/v1/snapshot")
    with served_site(engine, SetClock(T0 + DAY), FACTS) as later:
        after = later.json("/api/v1/snapshot")
    engine.dispose()
    for one in (before, after):
        del one["moment"]["age_seconds"]
    assert before == after
