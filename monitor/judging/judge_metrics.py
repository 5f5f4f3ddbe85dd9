"""Metrics and readiness of ``slicewatch judge``, read from its worker when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from alerts.exposition import catalogue
from alerts.exposition.exporter import metrics_body
from monitor.judging.judge_protocol import JudgeUse
from monitor.judging.output_events import Status
from monitor.judging.worker import Worker


class JudgeMetrics(Collector):
    """Collector of a worker's totals and of what its judge was asked."""

    def __init__(self, worker: Worker, use: JudgeUse) -> None:
        """Register the worker and its judge's totals, and the process, in a registry."""
        self._worker = worker
        self._use = use
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the judge's families of the catalogue, with a series for every result."""
        outputs = CounterMetricFamily(
            catalogue.JUDGE_OUTPUTS.name,
            catalogue.JUDGE_OUTPUTS.help,
            labels=catalogue.JUDGE_OUTPUTS.labels,
        )
        for status in get_args(Status):
            outputs.add_metric((status,), self._worker.counts[status])
        yield outputs
        for family, total in (
            (catalogue.JUDGE_REQUESTS, self._use.requests),
            (catalogue.JUDGE_SECONDS, self._use.seconds),
            (catalogue.JUDGE_TOKENS, self._use.tokens),
        ):
            yield CounterMetricFamily(family.name, family.help, value=total)
        waiting = catalogue.JUDGE_WAITING
        yield GaugeMetricFamily(waiting.name, waiting.help, value=bool(self._worker.trouble))

    def body(self, accept: str, gzip: bool) -> tuple[bytes, str]:
        """Return bytes and MIME type of all metrics, gzipped if asked."""
        return metrics_body(self._registry, accept, gzip)

    def ready(self) -> tuple[bool, str]:
        """Return True and ``ok`` while outputs are judged, else False and what they wait for."""
        return not self._worker.trouble, self._worker.trouble or "ok"
