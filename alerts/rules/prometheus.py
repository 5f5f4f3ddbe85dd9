"""Prometheus's files: the rules, and an example of a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from alerts.rules.declarations import (
    Alert,
    Dashboard,
    Severity,
    alerts,
    declarations,
    filled,
    groups,
    values,
)
from alerts.rules.promql import Shown, held, held_name
from monitor.settings import Settings

Document = dict[str, Any]
_INTERVAL = "30s"
"""Evaluation interval, far below Prometheus's lookback of five minutes: a record that reads itself
needs that."""
_OWN_SERIES = 10_000
"""Room for the service's own series in the sample limit: enough with thousands of partitions."""


def rules(settings: Settings) -> Document:
    """The rules file: records of the last verdicts, then the alerts."""
    # Records come before what reads them: the rules of a group are evaluated in order, groups not.
    records = [{"record": shown.record, "expr": shown.record_expr} for shown in Shown]
    records += [record for alert in alerts(settings) for record in _held_record(alert)]
    named = {"slicewatch-held": records} | {
        name: [rule for alert in group for rule in _rules(alert, settings)]
        for name, group in groups(settings).items()
    }
    return {
        "groups": [
            {"name": name, "interval": _INTERVAL, "rules": rules} for name, rules in named.items()
        ]
    }


def _held_record(alert: Alert) -> Iterator[dict[str, str]]:
    if alert.hold_while_absent:
        expr = held(alert.name, alert.expr, alert.hold_while_absent)
        yield {"record": held_name(alert.name), "expr": expr}


def _rules(alert: Alert, settings: Settings) -> Iterator[Document]:
    """One rule or, where a guardrail is less urgent, one for each severity."""
    if alert.guardrail is None:
        yield _rule(alert, alert.rule_expr, alert.severity, settings)
        return
    yield _rule(alert, f'{alert.rule_expr}{{role!="guardrail"}}', alert.severity, settings)
    yield _rule(alert, f'{alert.rule_expr}{{role="guardrail"}}', alert.guardrail, settings)


def _rule(alert: Alert, expr: str, severity: Severity, settings: Settings) -> Document:
    rule: Document = {"alert": alert.name, "expr": expr}
    if alert.for_:
        rule["for"] = alert.for_
    if alert.keep_firing_for:
        rule["keep_firing_for"] = alert.keep_firing_for
    rule["labels"] = {"severity": severity.value, "about": alert.about.value}
    rule["annotations"] = dict(_annotations(alert, settings))
    return rule


def _annotations(alert: Alert, settings: Settings) -> Iterator[tuple[str, str]]:
    texts = {
        "summary": alert.summary,
        "description": alert.description + "".join(f"<< {name} >>" for name in alert.details),
    }
    if alert.snapshot:
        texts["snapshot_url"] = "<< snapshot_url >>"
    if alert.dashboard:
        texts["dashboard_url"] = _dashboard_url(alert.dashboard, settings.alerting.dashboard_url)
    known = values(alert, settings)
    for name, text in texts.items():
        yield name, _with_selectors(filled(text, known))
    yield "runbook_url", f"{settings.alerting.runbooks.rstrip('/')}/{alert.name}.md"


def _with_selectors(text: str) -> str:
    """A text after the definitions of the selectors that its queries use.

    A selector quotes every label with ``%q``: a quote in a value cannot break a query.
    """
    selectors = declarations().selectors.items()
    used = (_selector(name, labels) for name, labels in selectors if f"${name} " in text)
    return "".join(used) + text


def _selector(name: str, labels: tuple[str, ...]) -> str:
    matchers = ",".join(f"{label}=%q" for label in labels)
    given = " ".join(f"$labels.{label}" for label in labels)
    return f"{{{{ ${name} := printf `{matchers}` {given} }}}}"


def _dashboard_url(dashboard: Dashboard, address: str | None) -> str:
    """The installation's dashboard or, where it has none, Prometheus's own graph."""
    if address is None:
        query = f"printf `{dashboard.graph}` ${dashboard.key} | graphLink"
        return f"{{{{ $externalURL }}}}{{{{ {query} }}}}"
    labels = declarations().selectors[dashboard.key]
    chosen = (f"var-{label}={{{{ $labels.{label} | urlquery }}}}" for label in labels)
    return f"{address}?{'&'.join(chosen)}"


def example(settings: Settings) -> Document:
    """An example of a Prometheus that scrapes one process and notifies one Alertmanager."""
    return {
        "global": {"scrape_interval": "15s", "evaluation_interval": "30s"},
        "rule_files": ["rules.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": ["localhost:9093"]}]}]},
        "scrape_configs": [
            {
                "job_name": settings.alerting.job,
                # The exposition keeps to max_series itself; this is for what it cannot know.
                "sample_limit": settings.server.max_series + _OWN_SERIES,
                "label_limit": 30,
                "label_value_length_limit": 1024,
                "static_configs": [{"targets": [f"localhost:{settings.server.port}"]}],
            }
        ],
    }
