"""Service metrics above k = 1: no scrape differs from the one before by one decision or label."""

from __future__ import annotations

import random

import pytest
from prometheus_client import generate_latest

from alerts.exposition.service_metrics import ServiceMetrics
from monitor.core.privacy.bands import SHOWN_STEP, edges
from monitor.records import Shard
from monitor.shard_status import Tallies

SHARD = Shard("decisions", 0)
LABELS = Shard("labels", 0)
STILL = ("process_", "python_")


def page(metrics: ServiceMetrics) -> dict[str, float]:
    lines = generate_latest(metrics.registry).decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith(("#", *STILL)))
    return {series.removeprefix("slicewatch_"): float(value) for series, value in pairs}


def on(outcome: str, shard: Shard = SHARD) -> str:
    where = f'partition="{shard.partition}",topic="{shard.topic}"'
    return f'events_total{{outcome="{outcome}",{where}}}'


def test_totals_move_in_steps_and_only_when_a_step_of_events_has_come() -> None:
    metrics = ServiceMetrics()
    seen = []
    for number in range(451):
        tallies = Tallies(messages=number, events=number, counted=number)
        metrics.set_shard(SHARD, tallies, 0, 0.0)
        seen.append(page(metrics)[on("counted")])
    assert sorted(set(seen)) == [0, 100, 200, 300, 400]
    assert [seen.index(shown) for shown in (100, 200, 300, 400)] == [100, 200, 300, 400]


def test_a_worker_that_begins_in_between_does_not_count_on_from_there() -> None:
    """Its steps are as long as any other's, and where they begin is not to be seen."""
    metrics = ServiceMetrics()
    metrics.set_shard(SHARD, Tallies(messages=150, events=150, counted=150), 0, 0.0)
    assert page(metrics)[on("counted")] == 100
    metrics.set_shard(SHARD, Tallies(messages=249, events=249, counted=249), 0, 0.0)
    assert page(metrics)[on("counted")] == 100
    metrics.set_shard(SHARD, Tallies(messages=250, events=250, counted=250), 0, 0.0)
    assert page(metrics)[on("counted")] == 200


def test_no_change_is_of_one_event_alone() -> None:
    """Whatever an event was: the page is the same before and after it, but for every hundredth."""
    pick, metrics, tallies = random.Random(5), ServiceMetrics(), Tallies()
    metrics.add_unknown_values("channel", 0)  # as the service does: the series is there
    changed: list[int] = []
    before: dict[str, float] = {}
    for number in range(1, 1_000):
        tallies.messages, tallies.events = number, number
        match pick.randrange(5):
            case 0:
                tallies.thinned += 1
            case 1:
                tallies.duplicates += 1
                tallies.late += 1
                tallies.cross_partition += 2
            case 2:
                tallies.waiting += 1
            case 3:
                tallies.unmatched["no_decision"] = tallies.unmatched.get("no_decision", 0) + 1
                metrics.add_unknown_values("channel", 1)
            case 4:
                tallies.counted += 1
                tallies.requested["auto_serve"] = 2_000 + number
                tallies.repeated["auto_serve"] = 200
        metrics.set_cardinality({"channel": number}, 0)
        metrics.set_shard(SHARD, tallies, number % 3, 0.0)
        metrics.flushed(0.01)
        now = page(metrics)
        now = {name: x for name, x in now.items() if not name.startswith(("flushes", "consumer"))}
        if before and now != before:
            changed.append(number)
        before = now
    assert changed
    assert set(changed) <= {1 + SHOWN_STEP * i for i in range(10)}


def test_dead_letters_are_told_one_by_one_since_nobody_was_counted() -> None:
    metrics = ServiceMetrics(("json",))
    metrics.set_shard(SHARD, Tallies(messages=1, events=1, counted=1), 0, 0.0)
    metrics.set_shard(SHARD, Tallies(2, events=2, counted=1, dead_letters={"json": 1}), 0, 0.0)
    told = page(metrics)
    assert told[on("dead_letter")] == 1
    assert told['dead_letters_total{partition="0",reason="json",topic="decisions"}'] == 1
    assert told['conservation_imbalance{equation="events",partition="0",topic="decisions"}'] == 0


@pytest.mark.parametrize(("messages", "shown"), [(0, 0), (1, 100), (100, 100), (101, 200)])
def test_lag_is_rounded_up_so_that_some_is_never_none(messages: int, shown: int) -> None:
    metrics = ServiceMetrics()
    metrics.set_shard(SHARD, Tallies(), messages, 0.0)
    assert page(metrics)['consumer_lag_messages{partition="0",topic="decisions"}'] == shown


@pytest.mark.parametrize(("unsigned", "shown"), [(0, 0), (1, 100), (100, 100), (101, 200)])
def test_unsigned_probes_are_rounded_up_since_they_count_as_production(
    unsigned: int, shown: int
) -> None:
    metrics = ServiceMetrics()
    metrics.add_doubtful_probes(unsigned, 3)
    assert page(metrics)["probes_unsigned_total"] == shown
    assert page(metrics)["probes_undeclared_total"] == 3, "signed: of nobody"


def test_a_bucket_of_few_label_delays_waits_for_more() -> None:
    metrics = ServiceMetrics()
    quick, slow = 'label_delay_seconds_bucket{le="60.0"}', "label_delay_seconds_count"
    metrics.observe_label_delays([1.0] * 10 + [1e6] * 90)
    assert (page(metrics)[quick], page(metrics)[slow]) == (0, 90)
    metrics.observe_label_delays([1.0] * 99)
    assert (page(metrics)[quick], page(metrics)[slow]) == (0, 90), "not the eleventh by itself"
    metrics.observe_label_delays([1.0])
    assert (page(metrics)[quick], page(metrics)[slow]) == (110, 200)
    assert page(metrics)["label_delay_seconds_sum"] == 110 + 90e6


def test_repeated_ids_are_a_quotient_of_bands() -> None:
    metrics, name = ServiceMetrics(), 'duplicate_ratio{route="auto_serve"}'
    bands = [0, *edges(11)]
    for repeated in (0, 10, 11, 200, 900):
        tallies = Tallies(requested={"auto_serve": 5_000}, repeated={"auto_serve": repeated})
        metrics.drop_shard(SHARD)
        metrics.set_shard(SHARD, tallies, 0, 0.0)
        lower = [max(e for e in bands if e <= number) for number in (repeated, 5_000)]
        assert page(metrics)[name] == round(lower[0] / lower[1], 4)


def test_unlisted_values_are_told_with_the_next_hundred_decisions() -> None:
    metrics, name = ServiceMetrics(), 'attribute_values_unknown_total{attribute="channel"}'
    metrics.set_shard(SHARD, Tallies(events=10), 0, 0.0)
    metrics.add_unknown_values("channel", 300)
    metrics.set_cardinality({"channel": 300}, 0)
    metrics.set_shard(LABELS, Tallies(events=0), 0, 0.0)
    metrics.set_shard(LABELS, Tallies(events=500), 0, 0.0)
    assert page(metrics)[name] == 0, "labels hide no decision"
    metrics.set_shard(SHARD, Tallies(events=110), 0, 0.0)
    assert page(metrics)[name] == 300
    assert page(metrics)['attribute_values_unknown_distinct{attribute="channel"}'] in edges(11)


def test_pending_decisions_are_told_by_the_hundred() -> None:
    metrics = ServiceMetrics()
    metrics.set_pending(199)
    assert page(metrics)["pending_decisions"] == 100


def test_test_conditions_are_shown_exactly() -> None:
    metrics = ServiceMetrics(k=1)
    metrics.set_shard(SHARD, Tallies(messages=3, events=3, counted=2, thinned=1), 7, 0.0)
    metrics.set_shard(SHARD, Tallies(messages=4, events=4, counted=2, thinned=2), 7, 0.0)
    metrics.set_pending(12)
    told = page(metrics)
    assert (told[on("counted")], told[on("thinned")], told["pending_decisions"]) == (2, 2, 12)
    assert told['consumer_lag_messages{partition="0",topic="decisions"}'] == 7
