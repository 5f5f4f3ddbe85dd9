"""The order in which metrics are shown."""

from __future__ import annotations

from published_lesson import lesson

from monitor.core.metric import USUAL_METRICS, Metric
from monitor.core.publish.lines import all_metrics


def test_every_metric_is_shown_once_and_those_with_a_limit_first() -> None:
    (table,) = lesson().contracts
    first, rest = all_metrics(table)[:2], all_metrics(table)[2:]
    assert set(first) == {Metric.TPR, Metric.FPR}
    assert rest == tuple(metric for metric in USUAL_METRICS if metric not in first)
