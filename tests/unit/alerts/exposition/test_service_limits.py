"""What the service says of limits that were reached: in bands, in always as many series."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from alerts.exposition.catalogue import FAMILIES
from alerts.exposition.service_metrics import HOLD_SECONDS, MANY_VALUES, ServiceMetrics
from monitor.records import Shard
from monitor.shard_status import Tallies


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def value(metrics: ServiceMetrics, name: str, **labels: str) -> float | None:
    found: float | None = metrics.registry.get_sample_value(f"slicewatch_{name}", labels)
    return found


def limited(metrics: ServiceMetrics) -> dict[str, float | None]:
    return {
        limit: value(metrics, "cardinality_limited", limit=limit)
        for limit in ("series", "versions", "values")
    }


@pytest.mark.parametrize(
    ("distinct", "shown"),
    [(0, 0), (1, 0), (10, 0), (11, 11), (20, 11), (21, 21), (1_000_000, 814_309)],
)
def test_distinct_unlisted_values_are_shown_in_bands(distinct: int, shown: int) -> None:
    metrics = ServiceMetrics()
    metrics.set_cardinality({"channel": distinct, "tier": 0}, 0)
    assert value(metrics, "attribute_values_unknown_distinct", attribute="channel") == shown
    assert value(metrics, "attribute_values_unknown_distinct", attribute="tier") == 0


def test_bands_begin_at_the_smallest_cell_that_may_be_shown() -> None:
    metrics = ServiceMetrics(k=2_000)
    metrics.set_cardinality({"channel": 1_999}, 0)
    assert value(metrics, "attribute_values_unknown_distinct", attribute="channel") == 0
    assert limited(metrics)["values"] == 0, "the condition says no more than the band"
    metrics.set_cardinality({"channel": 2_000}, 0)
    assert value(metrics, "attribute_values_unknown_distinct", attribute="channel") == 2_000
    assert limited(metrics)["values"] == 1


def test_the_first_value_makes_no_series() -> None:
    metrics = ServiceMetrics()
    metrics.add_unknown_values("channel", 0)
    before = generate_latest(metrics.registry).count(b"slicewatch_attribute_values")
    metrics.set_cardinality({"channel": 500}, 0)
    metrics.add_unknown_values("channel", 500)
    assert generate_latest(metrics.registry).count(b"slicewatch_attribute_values") == before


def test_a_limit_is_told_while_it_is_reached_and_for_an_hour_after() -> None:
    clock = Clock()
    metrics = ServiceMetrics(monotonic=clock)
    none = {"series": 0, "versions": 0, "values": 0}
    assert limited(metrics) == none
    metrics.rendered(0.1, 100, 7)
    metrics.set_cardinality({"channel": 2 * MANY_VALUES}, 0)
    clock.seconds = 10 * HOLD_SECONDS
    assert limited(metrics) == {"series": 1, "versions": 0, "values": 1}, "nothing was said since"
    metrics.rendered(0.1, 100, 0)
    metrics.set_cardinality({"channel": 0}, 0)
    assert limited(metrics) == {"series": 1, "versions": 0, "values": 1}
    clock.seconds += HOLD_SECONDS - 1
    metrics.rendered(0.1, 100, 0)
    metrics.set_cardinality({"channel": 0}, 0)
    assert limited(metrics) == {"series": 1, "versions": 0, "values": 1}
    clock.seconds += 1
    assert limited(metrics) == none


def test_version_tuples_without_room_are_a_limit() -> None:
    clock = Clock()
    metrics = ServiceMetrics(monotonic=clock)
    metrics.set_cardinality({}, 3)
    assert limited(metrics)["versions"] == 1
    metrics.set_cardinality({}, 3)
    clock.seconds = HOLD_SECONDS - 1
    metrics.set_cardinality({}, 3)
    assert limited(metrics)["versions"] == 1
    clock.seconds += 1
    assert limited(metrics)["versions"] == 0
    metrics.set_cardinality({}, 4)
    assert limited(metrics)["versions"] == 1


def test_the_help_names_every_limit_and_the_number() -> None:
    text = FAMILIES["cardinality_limited"].help
    assert all(f"{limit}" in text for limit in limited(ServiceMetrics()))
    assert f"over {MANY_VALUES} distinct" in text
    assert not set('"\\\n') & set(text)


def test_letters_not_kept_and_tombstones_are_counters_of_the_shard() -> None:
    metrics = ServiceMetrics()
    metrics.set_shard(Shard("decisions", 0), Tallies(unkept=41, tombstones=7), 0, 0.0)
    on = {"topic": "decisions", "partition": "0"}
    assert value(metrics, "dead_letters_unkept_total", **on) == 41
    assert value(metrics, "tombstones_total", **on) == 7
