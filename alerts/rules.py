"""Prometheus's rules: records that hold what was said last, and the alerts."""

from __future__ import annotations

from typing import Any

from alerts.alert import Alert
from alerts.data_alerts import labels, pipeline
from alerts.fairness import fairness
from alerts.monitor_alerts import monitor
from alerts.probe_alerts import probes
from alerts.promql import CONTRACT, PROBE_SET, held, held_name
from alerts.texts import filled
from monitor.settings import Settings

Document = dict[str, Any]
_INTERVAL = "30s"
"""Far below the five minutes that Prometheus looks back: a record that holds itself needs that."""


def groups(settings: Settings) -> dict[str, tuple[Alert, ...]]:
    """All alerts by the group that they are evaluated in."""
    return {
        "slicewatch-fairness": fairness(settings.alerting),
        "slicewatch-probes": probes(settings.alerting),
        "slicewatch-labels": labels(settings),
        "slicewatch-pipeline": pipeline(),
        "slicewatch-monitor": monitor(settings),
    }


def alerts(settings: Settings) -> tuple[Alert, ...]:
    """All of them."""
    return tuple(alert for group in groups(settings).values() for alert in group)


def rules(settings: Settings) -> Document:
    """The rules file as a document."""
    # Records stand before what reads them: a group is evaluated in its order, several are not.
    records = [{"record": s.record, "expr": s.record_expr} for s in (CONTRACT, PROBE_SET)]
    records += [record for alert in alerts(settings) for record in _records(alert)]
    return {
        "groups": [
            {"name": "slicewatch-held", "interval": _INTERVAL, "rules": records},
            *(
                {
                    "name": name,
                    "interval": _INTERVAL,
                    "rules": [_rule(alert, settings.alerting.runbooks) for alert in group],
                }
                for name, group in groups(settings).items()
            ),
        ]
    }


def _records(alert: Alert) -> list[dict[str, str]]:
    if alert.held is None:
        return []
    expr = held(alert.name, alert.expr, alert.held)
    return [{"record": held_name(alert.name), "expr": expr}]


def _rule(alert: Alert, runbooks: str) -> Document:
    rule: Document = {"alert": alert.name, "expr": alert.watched}
    if alert.wait:
        rule["for"] = duration(alert.wait)
    if alert.keep:
        rule["keep_firing_for"] = duration(alert.keep)
    rule["labels"] = {"severity": alert.severity.value, "about": alert.about.value}
    said = {"summary": alert.summary, "description": alert.description, **alert.links}
    rule["annotations"] = {name: filled(text) for name, text in said.items()}
    rule["annotations"]["runbook_url"] = f"{runbooks.rstrip('/')}/{alert.name}.md"
    return rule


def duration(minutes: int) -> str:
    """Minutes as Prometheus writes them.

    Example:
        >>> duration(15), duration(60), duration(1440)
        ('15m', '1h', '1d')
    """
    for unit, size in (("d", 1440), ("h", 60)):
        if minutes % size == 0:
            return f"{minutes // size}{unit}"
    return f"{minutes}m"
