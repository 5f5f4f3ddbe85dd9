"""Metrics and readiness of ``slicewatch judge``, read from its worker when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from alerts.exposition.catalogue import FAMILIES
from alerts.exposition.exporter import metrics_body
from alerts.exposition.service_metrics import metric_of
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
        counts, use = self._worker.counts, self._use
        samples: dict[str, dict[tuple[str, ...], float]] = {
            "judge_outputs_total": {(status,): counts[status] for status in get_args(Status)},
            "judge_requests_total": {(): use.requests},
            "judge_request_seconds_total": {(): use.seconds},
            "judge_tokens_total": {(): use.tokens},
            "judge_waiting": {(): bool(self._worker.trouble)},
        }
        yield from (metric_of(FAMILIES[name], values) for name, values in samples.items())

    def body(self, accept: str, gzip: bool) -> tuple[Sequence[bytes], str]:
        """Return parts and MIME type of all metrics, gzipped if asked."""
        return metrics_body(self._registry, accept, gzip)

    def ready(self) -> tuple[bool, str]:
        """Return True and ``ok`` while outputs are judged, else False and what they wait for."""
        return not self._worker.trouble, self._worker.trouble or "ok"
