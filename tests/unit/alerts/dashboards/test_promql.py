"""PromQL made from the catalogue: what does not exist cannot be asked."""

from __future__ import annotations

import pytest

from alerts.dashboards.promql import decided, increase, newest, oldest, per_second, series
from alerts.exposition import catalogue


def test_series_are_those_of_the_chosen_job() -> None:
    chosen = series(catalogue.MAX_GAP, "contract", where='metric="tpr"')
    assert chosen == (
        'slicewatch_contract_max_gap_ratio{job="$job", contract="$contract", metric="tpr"}'
    )


@pytest.mark.parametrize("labels", [("slice",), ("metric", "partition")])
def test_a_label_that_a_family_has_not_is_refused(labels: tuple[str, ...]) -> None:
    for ask in (newest, oldest, decided):
        with pytest.raises(ValueError, match="slicewatch_contract_max_gap_ratio has no label"):
            ask(catalogue.MAX_GAP, labels)
    with pytest.raises(ValueError, match="has no label"):
        series(catalogue.MAX_GAP, *labels)


def test_counters_are_added_up_after_the_highest_of_all_processes() -> None:
    asked = per_second(catalogue.MESSAGES, ["topic"], split=["partition"])
    assert asked == (
        "sum by (topic) (max by (topic, partition) "
        '(rate(slicewatch_messages_consumed_total{job="$job"}[$__rate_interval])))'
    )
    assert increase(catalogue.MESSAGES, ["topic"], "1h").startswith("max by (topic) (increase(")


def test_a_gauge_has_no_pace() -> None:
    with pytest.raises(ValueError, match="is no counter"):
        per_second(catalogue.MAX_GAP, ["metric"])
