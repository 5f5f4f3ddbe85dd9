"""Conditions that hold now by the metrics of this process, in the words of their alerts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from alerts.declared import filled
from alerts.exposition.exporter import Exporter
from alerts.rules.declarations import alerts, values
from alerts.rules.prometheus import runbook_url
from monitor.core.metric import Metric
from monitor.core.publish.conditions import StandingCondition
from monitor.core.publish.words import age_text, moment_text, percent
from monitor.core.time import SECOND
from monitor.ports import Clock
from monitor.settings import Settings

_LABEL, _METRIC = re.compile(r"{{ \$labels\.(\w+) }}"), re.compile(r"slicewatch_\w+")


class Conditions:
    """Conditions of an installation's alerts that a process can tell from its own metrics."""

    def __init__(self, settings: Settings, runbooks: str, exporter: Exporter, clock: Clock) -> None:
        """Read the declarations; ``runbooks`` is the address below which the runbooks are."""
        self._texts, self._runbooks = values(settings), runbooks
        self._exporter, self._clock = exporter, clock
        self._told = [(alert.when, alert) for alert in alerts(settings) if alert.when]
        self._metrics = {name for _, alert in self._told for name in _METRIC.findall(alert.expr)}

    def standing(self) -> Sequence[StandingCondition]:
        """Return the conditions that hold now, in the order of their alerts."""
        samples, now = self._exporter.samples(self._metrics), self._clock.now() / SECOND
        return [
            StandingCondition(
                alert.key,
                self._sentence(alert.summary, labels, value),
                runbook_url(alert, self._runbooks, alert.name),
            )
            for when, alert in self._told
            for labels, value in when.holding(samples, now)
        ]

    def _sentence(self, summary: str, labels: dict[str, str], value: float) -> str:
        """Return an alert's summary with labels and value filled in."""
        # Prometheus adds these two; the page knows its own process alone.
        labels |= {"job": self._texts["job"], "instance": "This process"}
        texts = self._texts | {
            "value": f"{value:g}",
            "value_in_words": age_text(value),
            "value_percent": percent(value),
            "value_day": moment_text(int(value) * SECOND)[:10],
            "value_minute": moment_text(int(value) * SECOND),
            "metric": Metric(labels.get("metric", Metric.TPR)).row.name,
        }
        return _LABEL.sub(lambda match: labels[match[1]], filled(summary, texts))
