from __future__ import annotations

import threading

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse

from alerts.exposition.catalogue import SERVICE
from alerts.exposition.service_metrics import ServiceMetrics
from monitor.core.bias_scores import BiasDimension, BiasScore, CurrentScore
from monitor.records import Shard
from monitor.shard_status import ConsumerState, Tallies

SHARD = Shard("decisions", 0)
OTHER = Shard("decisions", 1)
ON = {"topic": "decisions", "partition": "0"}


def value(metrics: ServiceMetrics, name: str, **labels: str) -> float | None:
    found: float | None = metrics.registry.get_sample_value(f"slicewatch_{name}", labels)
    return found


def tallies(**more: object) -> Tallies:
    return Tallies(
        **{  # type: ignore[arg-type]
            **{"messages": 10, "gaps": 2, "events": 21, "counted": 9, "duplicates": 1},
            **{"thinned": 2, "waiting": 3, "stale": 1, "unmatched": {"late": 2}},
            **{"dead_letters": {"json": 3}, **more},
        }
    )


def test_totals_of_a_shard() -> None:
    metrics = ServiceMetrics(reasons=("json", "type"), k=1)
    metrics.set_shard(SHARD, tallies(), 5, 1.5, offsets=13)

    assert value(metrics, "messages_consumed_total", **ON) == 10
    outcomes = {
        o: value(metrics, "events_total", **ON, outcome=o)
        for o in ("counted", "duplicate", "thinned", "stale", "unmatched", "dead_letter")
    }
    assert outcomes == {
        **{"counted": 9, "duplicate": 1, "thinned": 2},
        **{"stale": 1, "unmatched": 2, "dead_letter": 3},
    }
    assert value(metrics, "waiting_labels") == 3
    assert sum(filter(None, outcomes.values())) + 3 == 21
    assert value(metrics, "dead_letters_total", **ON, reason="json") == 3
    assert value(metrics, "dead_letters_total", **ON, reason="type") == 0, "known beforehand"
    assert value(metrics, "labels_unmatched_total", **ON, reason="late") == 2
    assert value(metrics, "conservation_imbalance", **ON, equation="events") == 0
    assert value(metrics, "conservation_imbalance", **ON, equation="offsets") == 1
    assert value(metrics, "consumer_lag_messages", **ON) == 5
    assert value(metrics, "consumer_lag_seconds", **ON) == 1.5


def test_copies_that_were_counted_again_are_rounded_up_and_no_part_of_the_equation() -> None:
    metrics, name = ServiceMetrics(), "duplicates_counted_total"
    metrics.set_shard(SHARD, tallies(), 5, 1.5)
    assert value(metrics, name, **ON, kind="late") == 0, "known beforehand"
    metrics.set_shard(SHARD, tallies(events=121, counted=109, late=1, cross_partition=101), 5, 1.5)
    assert value(metrics, name, **ON, kind="late") == 100
    assert value(metrics, name, **ON, kind="cross_partition") == 200
    assert value(metrics, "conservation_imbalance", **ON, equation="events") == 0


def test_totals_are_copied_when_they_are_told() -> None:
    metrics, told = ServiceMetrics(k=1), tallies()
    metrics.set_shard(SHARD, told, None, None)
    told.messages += 5
    told.dead_letters["json"] += 1

    assert value(metrics, "messages_consumed_total", **ON) == 10
    assert value(metrics, "dead_letters_total", **ON, reason="json") == 3


def test_lag_is_clamped_and_unknown_lag_is_absent() -> None:
    metrics = ServiceMetrics(k=1)
    metrics.set_shard(SHARD, tallies(), -4, -0.5)
    metrics.set_shard(OTHER, tallies(), None, None)

    assert value(metrics, "consumer_lag_messages", **ON) == 0
    assert value(metrics, "consumer_lag_seconds", **ON) == 0
    assert value(metrics, "consumer_lag_messages", topic="decisions", partition="1") is None


def test_a_revoked_shard_vanishes_and_leaves_the_others_alone() -> None:
    metrics = ServiceMetrics(k=1)
    metrics.set_shard(SHARD, tallies(), 1, 1.0)
    metrics.set_shard(OTHER, tallies(messages=7, waiting=1), 1, 1.0)
    metrics.drop_shard(SHARD)
    metrics.drop_shard(SHARD)

    text = generate_latest(metrics.registry).decode()
    assert 'partition="0"' not in text
    assert value(metrics, "messages_consumed_total", topic="decisions", partition="1") == 7
    assert value(metrics, "waiting_labels") == 1

    metrics.drop_shard(OTHER)
    assert value(metrics, "waiting_labels") is None


def test_duplicate_ratio_by_route_over_all_own_shards() -> None:
    metrics = ServiceMetrics(k=1)
    asked, again = {"auto_serve": 3_000, "human_review": 999}, {"auto_serve": 3}
    metrics.set_shard(SHARD, tallies(requested=asked, repeated=again), 0, 0.0)
    metrics.set_shard(OTHER, tallies(requested={"auto_serve": 1_000}), 0, 0.0)

    assert value(metrics, "duplicate_ratio", route="auto_serve") == round(3 / 4_000, 4)
    assert value(metrics, "duplicate_ratio", route="human_review") is None, "too few to say"


def test_one_consumer_state_at_a_time() -> None:
    metrics = ServiceMetrics()
    assert value(metrics, "consumer_state", state="starting") is None, "serve has no consumer"
    metrics.set_consumer_state("starting")
    metrics.set_consumer_state("stuck")

    states = {s: value(metrics, "consumer_state", state=s.value) for s in ConsumerState}
    assert states == {s: float(s is ConsumerState.STUCK) for s in ConsumerState}
    with pytest.raises(ValueError, match="asleep"):
        metrics.set_consumer_state("asleep")


def test_label_delays_against_a_plain_count() -> None:
    metrics = ServiceMetrics(k=1)
    rng = np.random.default_rng(7)
    delays = np.concatenate([rng.lognormal(9, 3, 500), [60.0, 604_800.0, 0.0, -5.0, 1e9]])
    metrics.observe_label_delays(delays[:100])
    metrics.observe_label_delays(delays[100:], joined_at=905_000_000)
    metrics.observe_label_delays([], joined_at=9_000_000_000)

    buckets = {
        s.labels["le"]: s.value
        for family in parse(generate_latest(metrics.registry).decode())
        for s in family.samples
        if s.name == "slicewatch_label_delay_seconds_bucket"
    }
    assert set(buckets) > {"60.0", "604800.0", "+Inf"}
    for edge, count in buckets.items():
        assert count == int((delays <= float(edge)).sum()), edge
    assert value(metrics, "label_delay_seconds_count") == 505
    assert value(metrics, "label_delay_seconds_sum") == pytest.approx(delays.clip(0).sum())
    assert value(metrics, "label_last_joined_timestamp_seconds") == 900


def test_a_few_labels_do_not_move_the_histogram() -> None:
    metrics = ServiceMetrics()
    metrics.observe_label_delays([1.0] * 99, joined_at=1_000_000)
    assert value(metrics, "label_delay_seconds_count") == 0
    metrics.observe_label_delays([1.0])
    assert value(metrics, "label_delay_seconds_count") == 100


def test_the_small_facts() -> None:
    metrics = ServiceMetrics(k=1)
    assert value(metrics, "store_write_failures_total") == 0
    assert value(metrics, "flushes_total") == 0
    assert value(metrics, "server_insecure") == 0

    metrics.store_failed()
    metrics.flushed(0.25)
    metrics.flushed(0.5)
    metrics.set_pending(12)
    metrics.set_watermark_lag(-3.0)
    metrics.set_label_health(0.12345, None)
    metrics.set_unpublished_labels(234)
    metrics.add_unknown_values("channel", 97)
    metrics.add_unknown_values("channel", 4)
    assert value(metrics, "probes_unsigned_total") == 0
    metrics.add_doubtful_probes(1, 2)
    metrics.add_doubtful_probes(100, 1)

    assert value(metrics, "store_write_failures_total") == 1
    assert value(metrics, "flushes_total") == 2
    assert value(metrics, "flush_duration_seconds") == 0.5
    assert value(metrics, "pending_decisions") == 12
    assert value(metrics, "watermark_lag_seconds") == 0
    assert value(metrics, "label_coverage_ratio") == 0.12
    assert value(metrics, "label_completeness_ratio") is None
    assert value(metrics, "unpublished_labels") == 234
    assert value(metrics, "attribute_values_unknown_total", attribute="channel") == 100
    assert value(metrics, "probes_unsigned_total") == 101
    assert value(metrics, "probes_undeclared_total") == 3
    metrics.set_pending(None)
    assert value(metrics, "pending_decisions") is None


def test_only_what_is_about_the_process_is_shown_as_it_is() -> None:
    metrics = ServiceMetrics()
    assert value(metrics, "retention_refused") is None
    metrics.show_process("retention_refused", True)
    assert value(metrics, "retention_refused") == 1
    with pytest.raises(ValueError, match="pending_decisions is not about the process alone"):
        metrics.show_process("pending_decisions", 12)


def everything() -> ServiceMetrics:
    metrics = ServiceMetrics()
    metrics.set_shard(SHARD, tallies(requested={"auto_serve": 9_000}), 0, 0.0, offsets=12)
    metrics.set_consumer_state("consuming")
    metrics.flushed(0.1)
    metrics.observe_label_delays([1.0] * 100, joined_at=1)
    metrics.set_pending(1)
    metrics.set_watermark_lag(1.0)
    metrics.add_unknown_values("channel", 1)
    metrics.set_label_health(0.5, 0.5)
    metrics.set_unpublished_labels(5)
    metrics.set_clusters(2, 64, repeats=True)
    metrics.rendered(0.1, 5, 0)
    metrics.set_ahead(SHARD, 1)
    metrics.set_blind(())
    metrics.set_report(("2026-W47", 1))
    for name in ("evaluation_timestamp_seconds", "evaluation_duration_seconds"):
        metrics.show_process(name, 1)
    metrics.show_process("exposition_withheld", 0)
    metrics.show_process("retention_refused", False)
    metrics.show_process("certificate_not_after_timestamp_seconds", 1e-6, "server")
    dimension = BiasDimension("refusals", 0.05, at_least=False, drift=0.03)
    score = BiasScore("refusals", 20_000, 0.04, 400, "hiring", "1", "m-1")
    metrics.set_bias_scores([CurrentScore(dimension, score, 0.01, 20_007)])
    metrics.add_unreadable({("invalid_value", "route"): 3})
    metrics.add_unknown_fields("decision", {"comment": 1})
    return metrics


def test_facts_on_clusters_are_those_of_the_process_that_evaluates() -> None:
    metrics = everything()
    assert value(metrics, "detection_cluster_size", size="setting") == 2
    assert value(metrics, "detection_cluster_size", size="used") == 64
    assert value(metrics, "decisions_repeated") == 1
    metrics.set_clusters(2, None, repeats=None)
    assert value(metrics, "detection_cluster_size", size="setting") is None
    assert value(metrics, "detection_cluster_size", size="used") is None
    assert value(metrics, "decisions_repeated") is None


def test_the_registry_exports_the_catalogue_and_the_process_only() -> None:
    families = list(everything().registry.collect())
    own = [f for f in families if f.name.startswith("slicewatch_")]

    assert [f.name for f in own] == [f.stem for f in SERVICE]
    assert [f.documentation for f in own] == [f.help for f in SERVICE]
    for metric, family in zip(own, SERVICE, strict=True):
        for sample in metric.samples:
            assert set(sample.labels) - {"le"} == set(family.labels)
    assert all(f.name.startswith("process_") for f in families if f not in own)


def test_what_producers_send_wrongly_is_counted_and_no_decision_can_be_told_by_it() -> None:
    metrics = ServiceMetrics(k=11)
    for _ in range(3):
        metrics.add_unreadable({("invalid_value", "route"): 3, ("wrong_type", ""): 1})
        metrics.add_unknown_fields("label", {"comment": 50})
        metrics.add_unknown_fields("decision", {"comment": 33})
        metrics.add_below_threshold(99)
    assert value(metrics, "unreadable_events_total", reason="invalid_value", field="route") == 9
    assert value(metrics, "unreadable_events_total", reason="wrong_type", field="") == 3
    assert value(metrics, "unknown_fields_total", event="label", field="comment") == 100
    assert value(metrics, "unknown_fields_total", event="decision", field="comment") == 0
    assert value(metrics, "auto_serve_below_threshold_total") == 200


def test_registries_are_apart_and_registration_runs_nothing() -> None:
    first, second = ServiceMetrics(), ServiceMetrics()
    first.store_failed()

    assert value(second, "store_write_failures_total") == 0
    other = CollectorRegistry()
    other.register(first)
    assert first.describe() == ()


def test_threads_lose_nothing() -> None:
    metrics = ServiceMetrics(k=1)

    def work() -> None:
        for i in range(200):
            metrics.flushed(0.1)
            metrics.observe_label_delays([float(i)])
            metrics.set_shard(SHARD, tallies(messages=i), i, 0.0)
            metrics.drop_shard(OTHER)
            generate_latest(metrics.registry)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert value(metrics, "flushes_total") == 800
    assert value(metrics, "label_delay_seconds_count") == 800


def test_a_parked_shard_is_told_also_when_it_was_never_read() -> None:
    metrics = ServiceMetrics()
    assert value(metrics, "shard_parked", **ON) is None
    metrics.set_shard(OTHER, tallies(), None, None)
    metrics.set_parked(SHARD, True)
    assert value(metrics, "shard_parked", **ON) == 1
    assert value(metrics, "shard_parked", topic="decisions", partition="1") == 0
    assert value(metrics, "messages_consumed_total", **ON) is None
    metrics.set_parked(SHARD, False)
    assert value(metrics, "shard_parked", **ON) is None
    metrics.set_parked(OTHER, True)
    metrics.drop_shard(OTHER)
    assert value(metrics, "shard_parked", topic="decisions", partition="1") is None


def test_only_the_newest_week_s_report_is_told() -> None:
    metrics, name = ServiceMetrics(), "report_stored_timestamp_seconds"
    for newest in (("2026-W46", 5_000_000), ("2026-W47", 9_000_000)):
        metrics.set_report(newest)
    assert value(metrics, name, week="2026-W46") is None
    assert value(metrics, name, week="2026-W47") == 9
    metrics.set_report(None)
    assert value(metrics, name, week="2026-W47") is None
