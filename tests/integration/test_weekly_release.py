"""Releases of closed weeks as the real evaluator stores them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from adversary.worlds import AUTO, BLOCKED, DAY, ROUTES, START, World
from fairlearn.metrics import MetricFrame, selection_rate, true_positive_rate
from releasing import Releasing
from weekly import LAST_DAY, WEEK, report_of, revisions, weekly_store

from monitor.core.publish.act_input import ActInput
from monitor.core.publish.release import Release, Revision, Signature, decode, encode
from monitor.core.publish.snapshot import GroupTable, Period, WindowTable
from monitor.core.time import HOUR
from monitor.evaluate.publish.weeks import Weeks, WeekSources
from monitor.reports import as_json
from monitor.reports.frames import weekly
from monitor.service import Parts, Service
from monitor.store.evaluator import weekly_releases
from monitor.store.evaluator.published_values import forget_published

pytestmark = pytest.mark.full

GOLDEN = Path(__file__).parents[1] / "data" / "weekly_2026-W23.json"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Releasing]:
    with weekly_store(exact=False).releasing(tmp_path) as made:
        yield made


@pytest.fixture
def exact(tmp_path: Path) -> Iterator[Releasing]:
    with weekly_store(exact=True).releasing(tmp_path) as made:
        yield made


def newest(made: Releasing) -> Release:
    return revisions(made)[-1].release


def parts(release: Release) -> list[tuple[str, WindowTable | GroupTable]]:
    (table,) = release.contracts
    (window,) = table.windows
    return [("", window), *((group.group_by, group) for group in window.groups)]


def test_every_table_is_of_exactly_the_week(guarded: Releasing) -> None:
    for one in revisions(guarded):
        for name, part in parts(one.release):
            assert part.decisions == Period(WEEK.start, WEEK.end), name
            assert part.labelled in {None, part.decisions}, name


def test_late_labels_make_a_new_revision_that_has_more_of_them(guarded: Releasing) -> None:
    found = revisions(guarded)
    first, last = found[0].release, found[-1].release
    assert len(found) > 1
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    assert len({one.digest for one in found}) == len(found)
    assert WEEK.end <= found[0].as_of < WEEK.end + DAY, "as soon as the week is over"
    before, after = (dict(parts(one))[""] for one in (first, last))
    assert before.labelled is None
    assert after.labelled == before.decisions
    assert len({one.as_of // DAY for one in found}) == len(found), "once a day at most"


def _made_at(revision: Revision) -> int:
    """When the tables of a revision were made: the evaluator looks once a day."""
    return -(-revision.as_of // DAY) * DAY


def test_nothing_is_stored_while_nothing_changes_nor_after_a_restart(guarded: Releasing) -> None:
    before = [one.body for one in revisions(guarded)]
    guarded.restart()
    assert guarded.evaluator.cycle()
    assert [one.body for one in revisions(guarded)] == before
    assert encode(decode(before[-1])) == before[-1]


def test_weeks_are_looked_at_once_a_day_and_when_their_tables_are_made(
    guarded: Releasing, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []
    plain = Weeks.revisions

    def counted(weeks: Weeks, sources: WeekSources) -> list[Revision]:
        looked.append(sources.decisions)
        return plain(weeks, sources)

    monkeypatch.setattr(Weeks, "revisions", counted)
    for hour in range(1, 49, 2):
        guarded.until(START + (LAST_DAY - 1) * DAY + hour * HOUR)
    days = [at // DAY for at in looked]
    assert {*days} == {days[0], days[0] + 1}
    assert len(days) <= 3, "once more with the label tables of the week"


def test_the_week_that_is_not_over_has_no_release(guarded: Releasing) -> None:
    with guarded.engine.connect() as connection:
        weeks = connection.exec_driver_sql("SELECT DISTINCT week FROM weekly_release").scalars()
        assert sorted(weeks) == ["2026-W23", "2026-W24"]
    assert LAST_DAY < 21


def raw(world: World, tables_made: int, group_by: str) -> pd.DataFrame:
    """Decisions of the week, and labels that had come when its label tables were made."""
    labelled, ready = (np.zeros(len(world.at), np.int64) for _ in range(2))
    seen = world.said_at < tables_made
    np.add.at(labelled, world.says[seen], world.labelled[seen])
    np.add.at(ready, world.says[seen], world.ready[seen])
    events = pd.DataFrame(
        {
            "at": world.at,
            "route": world.route,
            "stratum": world.route * 100 + world.rate,
            "labelled": labelled,
            "ready": ready,
            "slice": [
                ",".join(
                    f"{n}={dict(zip(world.names, world.atoms[a], strict=True))[n]}"
                    for n in group_by.split("+")
                )
                for a in world.atom
            ],
        }
    )
    return events[(events["at"] >= WEEK.start) & (events["at"] < WEEK.end)]


@pytest.mark.parametrize("group_by", ["a", "b", "a+b"])
def test_synthetic_rates_are_those_of_the_raw_events(exact: Releasing, group_by: str) -> None:
    world, release = weekly_store(exact=True).world, newest(exact)
    frame = weekly(release)["rates"]
    shown = frame[frame["group_by"] == group_by].set_index(["slice", "metric"])["value"]
    decided = raw(world, _made_at(revisions(exact)[-1]), group_by)
    served = (decided["route"] == AUTO).astype(int)
    by = MetricFrame(
        metrics=selection_rate, y_true=served, y_pred=served, sensitive_features=decided["slice"]
    ).by_group
    blocked = (decided["route"] == BLOCKED).groupby(decided["slice"]).mean()
    for name, value in by.items():
        assert shown[name, "selection"] == pytest.approx(value, abs=1e-12)
        assert shown[name, "blocked"] == pytest.approx(blocked[name], abs=1e-12)
    reviewed = decided[decided["route"] != BLOCKED]
    keys = [reviewed["slice"], reviewed["stratum"]]
    weight = reviewed.groupby(keys)["at"].transform("count") / reviewed.groupby(keys)[
        "labelled"
    ].transform("sum")
    known = reviewed["labelled"] == 1
    tpr = MetricFrame(
        metrics=true_positive_rate,
        y_true=reviewed["ready"][known],
        y_pred=(reviewed["route"] == AUTO).astype(int)[known],
        sensitive_features=reviewed["slice"][known],
        sample_params={"sample_weight": weight[known]},
    ).by_group
    compared = 0
    for name, value in tpr.items():
        if not np.isnan(shown[name, "tpr"]):
            assert shown[name, "tpr"] == pytest.approx(value, abs=1e-9)
            compared += 1
    assert compared >= 2
    assert len(ROUTES) == 3


def test_a_gap_is_the_difference_of_the_shown_rates(guarded: Releasing) -> None:
    """Both are of the same table; the reference here is the complement, which is not a row."""
    frames = weekly(newest(guarded))
    gaps = frames["gaps"].dropna(subset=["value"])
    assert len(gaps) > 4
    assert (gaps["lower"] <= gaps["value"]).all()
    assert (gaps["value"] <= gaps["upper"]).all()
    rates = frames["rates"]
    known = rates.dropna(subset=["value"])
    assert ((known["value"] * 1000).round(6) % 1 == 0).all(), "three decimals, of people"
    assert rates[rates["state"] == "suppressed"]["value"].isna().all()


def test_the_golden_week(guarded: Releasing) -> None:
    """Whoever changes what is released sees it here; UPDATE_GOLDEN=1 writes it anew."""
    report = report_of(guarded)
    made = as_json.render(report).replace(report.facts.program.encode(), b"slicewatch")
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_bytes(made)
    assert made == GOLDEN.read_bytes()


def test_a_forgotten_value_is_in_no_revision(guarded: Releasing) -> None:
    digests = [one.digest for one in revisions(guarded)]
    assert all(b"a=a1" in one.body for one in revisions(guarded))
    with guarded.engine.begin() as connection:
        forget_published(connection, {("a", "a1")})
    assert not any(b"a1" in one.body for one in revisions(guarded))
    assert all(was != now.digest for was, now in zip(digests, revisions(guarded), strict=True))
    with guarded.engine.begin() as connection:
        forget_published(connection, {("a", None)})
    assert [name for name, _ in parts(newest(guarded))] == ["", "b"]


def test_a_serving_process_exports_when_the_newest_week_was_stored(guarded: Releasing) -> None:
    guarded.evaluator.release_lease()
    service = Service(guarded.settings, Parts(ingest=False))
    try:
        service.evaluate_once()
        name = "slicewatch_report_stored_timestamp_seconds"
        value = service.metrics.registry.get_sample_value(name, {"week": "2026-W24"})
        with guarded.engine.connect() as connection:
            newest = weekly_releases.newest_stored(connection)
        assert newest is not None
        assert (newest[0], value) == ("2026-W24", newest[1] / 1e6)
    finally:
        service.stop()


def test_retention_deletes_a_week_with_its_signatures(guarded: Releasing) -> None:
    for one in revisions(guarded)[:2]:
        weekly_releases.sign(guarded.engine, one, ActInput("tests"), START)
    weekly_releases.delete_before(guarded.engine, WEEK.end)
    assert len(signatures(guarded)) == 2
    weekly_releases.delete_before(guarded.engine, WEEK.end + 1)
    assert revisions(guarded) == []
    assert signatures(guarded) == []


def signatures(made: Releasing) -> list[Signature]:
    with made.engine.connect() as connection:
        return weekly_releases.read_signatures(connection, WEEK.name)
