"""The census employment predictions through Kafka: every number against brute force.

Twice: all rows inside 28 days with every label there, so that one window holds the data set; and
spread over their three years with one in five auto_serve decisions audited, as a back-fill
(``stream.clock = history``).
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from pathlib import Path

import census_oracle as oracle
import pytest
from brokers import Broker
from census import ROWS, History
from census_page import NEW_YEAR_2019, WINDOWS, shown, window_rows
from census_run import SETTINGS, Consumed, consume, replay, stored_cells, stored_counts, tallies
from fairlearn.metrics import MetricFrame, false_positive_rate, selection_rate, true_positive_rate
from id_keys import WITH_KEY

from monitor.core.counts.rollup import roll_up
from monitor.core.metric import Metric
from monitor.core.rates.estimates import estimate
from monitor.core.time import Grain
from monitor.settings import load

pytestmark = pytest.mark.full

GROUPS: dict[str, list[str]] = {
    "": [],
    "sex": ["sex"],
    "rac1p": ["rac1p"],
    "rac1p+sex": ["rac1p", "sex"],
}
METRICS = ("selection", "tpr", "fpr")
ENDS = ("lower", "upper")


def _consume(broker: Broker, folder: Path, history: History, *, apart: bool = False) -> Consumed:
    run = consume(broker, history, f"census-{uuid.uuid4().hex[:8]}", folder, apart=apart)
    rows = len(history.decisions) + len(history.labels)
    parts = ", ".join(
        f"{what} {seconds:.1f} s ({rows / seconds:,.0f}/s)" for what, seconds in run.seconds.items()
    )
    print(f"\n{history.spread}: {rows} events {parts}")  # noqa: T201 - shown with -s and on failure
    return run


@pytest.fixture(scope="module")
def month(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Consumed:
    """All rows in the last 28 days of 2018, every decision labelled; evaluated when all are read.

    How much of a month is shown depends on where evaluations fall while it is loaded. That is so
    in ``years``, with the default cycle.
    """
    return _consume(kafka, tmp_path_factory.mktemp("month"), History("28d", 1.0), apart=True)


@pytest.fixture(scope="module")
def years(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Consumed:
    """All rows in their own years, one in five auto_serve decisions labelled."""
    return _consume(kafka, tmp_path_factory.mktemp("years"), History("years", 0.2))


@pytest.fixture(scope="module", params=["month", "years"])
def either(request: pytest.FixtureRequest) -> Consumed:
    run: Consumed = request.getfixturevalue(request.param)
    return run


def _estimates(run: Consumed, attributes: list[str]) -> Iterator[tuple[str, str, float, float]]:
    """(metric, slice, estimate, rate over labelled rows) from the store's counts."""
    counts, index = stored_counts(run)
    coding = load(SETTINGS, WITH_KEY).coding
    table = roll_up(counts, index, attributes)
    for metric in map(Metric, METRICS):
        rates = estimate(table, coding, metric)
        yield from zip(
            [metric.value] * len(table.slices), table.slices,
            rates.value.tolist(), rates.as_labelled.tolist(), strict=True,
        )  # fmt: skip


def test_every_decision_and_label_is_counted_in_its_cell(either: Consumed) -> None:
    expected = oracle.cells(either.history.frame)
    assert sum(values[0] for values in expected.values()) == ROWS
    for grain in (Grain.DAY, Grain.WEEK):
        assert stored_cells(either.url, grain) == expected


def test_nothing_was_refused_and_the_books_close(either: Consumed) -> None:
    shards = tallies(either.url)
    assert len(shards) == 6
    for shard in shards.values():
        assert shard["dead_letters"] == {}
        assert shard["unmatched"] == {}
        assert shard["duplicates"] == shard["thinned"] == shard["stale"] == shard["waiting"] == 0
        assert shard["events"] == shard["counted"]


@pytest.mark.parametrize("group", GROUPS)
def test_rates_inside_are_brute_force_and_fairlearn_exactly(month: Consumed, group: str) -> None:
    frame = month.history.frame
    names = oracle.slice_names(frame, GROUPS[group])
    theirs = MetricFrame(
        metrics={
            "selection": selection_rate,
            "tpr": true_positive_rate,
            "fpr": false_positive_rate,
        },
        y_true=frame["ready"],
        y_pred=frame["auto"],
        sensitive_features=names,
    ).by_group
    brute = {name: oracle.plain(rows) for name, rows in frame.groupby(names)}
    seen = 0
    for metric, name, value, labelled in _estimates(month, GROUPS[group]):
        expected = brute[name][metric].value
        if math.isnan(expected):  # fairlearn says 0.0 where there is no trial
            assert math.isnan(value)
        else:
            assert value == expected == theirs.loc[name, metric] == labelled
        seen += 1
    assert seen == len(METRICS) * len(brute)


@pytest.mark.parametrize("group", GROUPS)
def test_audited_rates_inside_are_post_stratified(years: Consumed, group: str) -> None:
    frame = years.history.frame
    by_slice = dict(list(frame.groupby(oracle.slice_names(frame, GROUPS[group]))))
    for metric, name, value, labelled in _estimates(years, GROUPS[group]):
        rows = by_slice[name]
        if metric == "selection":
            assert value == oracle.plain(rows)[metric].value
            continue
        assert labelled == pytest.approx(oracle.as_labelled(rows)[metric].value, nan_ok=True)
        expected = oracle.post_stratified(rows)[metric]
        assert value == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("group", GROUPS)
def test_audited_rates_are_near_the_truth_and_labelled_rows_far_off(
    years: Consumed, group: str
) -> None:
    frame = years.history.frame
    counts, index = stored_counts(years)
    table = roll_up(counts, index, GROUPS[group])
    by_slice = dict(list(frame.groupby(oracle.slice_names(frame, GROUPS[group]))))
    coding = load(SETTINGS, WITH_KEY).coding
    for metric in (Metric.TPR, Metric.FPR):
        found = estimate(table, coding, metric, z=4)
        off: list[tuple[float, float]] = []
        for i, name in enumerate(table.slices):
            if found.support[i] >= 500:
                truth = oracle.plain(by_slice[name])[metric.value].value
                assert found.lower[i] < truth < found.upper[i]
                off.append((abs(found.value[i] - truth), abs(found.as_labelled[i] - truth)))
        ours, theirs = zip(*off, strict=True)
        assert min(theirs) > 0.08
        assert sum(ours) < 0.1 * sum(theirs)
        print(f"{group} {metric}: off by {max(ours):.3f}, labelled rows {max(theirs):.3f}")  # noqa: T201


# What is published


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("window", WINDOWS)
def test_published_intervals_hold_what_was_counted(
    month: Consumed, window: str, group: str
) -> None:
    """Every number of a named slice, by brute force over the rows of the period beside it."""
    for metric in METRICS[: 1 if window == "1h" else 3]:
        kind = "decisions" if metric == "selection" else "labelled"
        labels = {"window": window, "group_by": group, "metric": metric}
        found = shown(month, "slice_rate_ratio", **labels)
        lower, upper = (shown(month, f"slice_rate_{end}_ratio", **labels) for end in ENDS)
        rows = window_rows(month, window, group, kind)
        if rows is None:
            assert not lower
            continue
        by_slice = dict(list(rows.groupby(oracle.slice_names(rows, GROUPS[group]))))
        for name in lower.keys() | upper.keys():
            rate = oracle.plain(by_slice[name])[metric]
            assert rate.hits + rate.misses >= oracle.K
            assert lower.get(name, 0) <= rate.value <= upper.get(name, 1)
            if rate.hits + rate.misses >= 5_000:
                assert found[name] == pytest.approx(rate.value, abs=0.01)


def test_the_whole_data_set_is_shown_in_one_window(month: Consumed) -> None:
    """The comparison above is not of nothing: 28d shows all slices but the rare ones."""
    for metric in METRICS:
        found = shown(month, "slice_support_band", window="28d", group_by="rac1p", metric=metric)
        assert set(found) >= {f"rac1p={value}" for value in ("1", "2", "6", "8", "9")}
    both = shown(month, "slice_support_band", window="28d", group_by="rac1p+sex", metric="tpr")
    assert len(both) >= 10
    for group in GROUPS:
        rows = window_rows(month, "28d", group)
        assert rows is not None
        # Rare values make it the newest four weeks that have ended, which hold six of the days.
        assert len(rows) > 0.2 * ROWS


def test_audited_published_rates_are_post_stratified(years: Consumed) -> None:
    rows = window_rows(years, "28d", "rac1p", "labelled")
    assert rows is not None
    by_slice = {f"rac1p={value}": group for value, group in rows.groupby("rac1p")}
    for metric in ("tpr", "fpr"):
        labels = {"window": "28d", "group_by": "rac1p", "metric": metric}
        lower, upper = (shown(years, f"slice_rate_{end}_ratio", **labels) for end in ENDS)
        assert lower.keys() <= {*by_slice, f"rac1p={oracle.OTHER}"}
        assert len(lower) > 2
        for name, bound in lower.items():
            expected = oracle.post_stratified(by_slice[name])[metric]
            assert bound <= expected <= upper[name]


def test_tiny_cells_never_appear_with_a_number(either: Consumed) -> None:
    """No series of a slice with 1 to k - 1 decisions, in any window, group-by and family."""
    numbers: set[tuple[str, str, str]] = set()
    for (family, having), value in either.series.items():
        labels = dict(having)
        name = labels.get("slice", "")
        if family != "slicewatch_slice_state":
            assert "rac1p=4" not in name
            if family.startswith("slicewatch_slice"):
                numbers.add((labels["window"], labels["group_by"], name))
        elif "rac1p=4" in name:
            assert (value == 1) == (labels["state"] == "suppressed")
    assert len(numbers) > 25
    for window, group, name in numbers:
        rows = window_rows(either, window, group)
        if rows is not None and name and oracle.OTHER not in name:
            assert (oracle.slice_names(rows, GROUPS[group]) == name).sum() >= oracle.K


# The history clock


def test_the_years_count_and_are_complete(years: Consumed) -> None:
    """Years of event time in one go: no event is late, and the watermark is at the end."""
    by_year = years.history.frame["year"].value_counts()
    assert set(by_year.index) == {2016, 2017, 2018}
    # The closing probes are half an hour into 2019: the last hour that is complete ends before.
    ends = {family: value for (family, _), value in years.series.items()}
    assert ends["slicewatch_watermark_timestamp_seconds"] == NEW_YEAR_2019
    assert ends["slicewatch_label_frontier_timestamp_seconds"] == NEW_YEAR_2019


def test_replay_counts_the_same(years: Consumed, tmp_path: Path) -> None:
    url, said = replay(years.history, tmp_path)
    print(said)  # noqa: T201 - the rate, shown with -s
    for grain in (Grain.DAY, Grain.WEEK):
        assert stored_cells(url, grain) == stored_cells(years.url, grain)
