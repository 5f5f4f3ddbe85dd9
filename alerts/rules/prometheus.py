"""Files for Prometheus: the rules, and an example of a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from alerts.dashboards import places
from alerts.declared import filled
from alerts.exposition.renderer import MAX_SERIES
from alerts.rules.declarations import Alert, alerts, breach_runbook, declarations, groups, values
from alerts.rules.promql import AlertSubject, held_expression, held_name
from monitor.settings import Server, Settings, is_loopback
from monitor.settings.kinds import host_of, port_of

Document = dict[str, Any]
_INTERVAL = "30s"
"""Evaluation interval; records that read themselves need one far below Prometheus's lookback of
five minutes."""
_OWN_SERIES = 10_000
"""Room for the service's own series in the sample limit, enough for thousands of partitions."""
READER = "prometheus"
"""Name of Prometheus's token, if ``server.tokens`` has a token of that name."""
TOKEN_FILE = "/etc/prometheus/slicewatch.token"  # noqa: S105 - a path
CLIENT_CERTIFICATE = "/etc/prometheus/slicewatch-client.pem"
CLIENT_KEY = "/etc/prometheus/slicewatch-client.key"
_ANY_ADDRESS = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to


def rules(settings: Settings) -> Document:
    """Return the rules file of Prometheus: records of last verdicts, then the alerts."""
    # Records precede their readers: Prometheus evaluates rules of a group in order, but not groups.
    held = {alert.hold_while_absent for alert in alerts(settings)}
    records = [{"record": s.record, "expr": s.record_expr} for s in AlertSubject if s in held]
    records += [record for alert in alerts(settings) for record in _held_record(alert)]
    rules_by_group = {"slicewatch-held": records} | {
        name: [_rule(alert, settings) for alert in group]
        for name, group in groups(settings).items()
        if group
    }
    return {
        "groups": [
            {"name": name, "interval": _INTERVAL, "rules": rules}
            for name, rules in rules_by_group.items()
        ]
    }


def _held_record(alert: Alert) -> Iterator[dict[str, str]]:
    """Yield the recording rule that holds an alert while its series are absent, if it has one."""
    if alert.hold_while_absent:
        expr = held_expression(alert.key, alert.expr, alert.hold_while_absent)
        yield {"record": held_name(alert.key), "expr": expr}


def _rule(alert: Alert, settings: Settings) -> Document:
    """Return an alert as a Prometheus rule."""
    rule: Document = {"alert": alert.name, "expr": alert.rule_expr}
    if alert.for_:
        rule["for"] = alert.for_
    if alert.keep_firing_for:
        rule["keep_firing_for"] = alert.keep_firing_for
    condition = {"condition": alert.condition} if alert.condition else {}
    severity = {} if alert.by_severity else {"severity": alert.severity.value}
    rule["labels"] = {**severity, "about": alert.about.value, **condition}
    rule["annotations"] = dict(_annotations(alert, settings))
    return rule


def _annotations(alert: Alert, settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield name and template of an alert's annotations, with links where they are configured."""
    texts = {
        "summary": alert.summary,
        "description": alert.description + "".join(f"<< {name} >>" for name in alert.details),
    }
    if alert.page:
        texts["status_url"] = alert.page
    if settings.links.grafana:
        texts["dashboard_url"] = _panel_url_template(alert, settings.links.grafana, settings)
    placeholders = values(settings)
    for name, text in texts.items():
        yield name, _with_selectors(filled(text, placeholders))
    name = breach_runbook("{{ $labels.metric }}") if alert.by_metric else alert.name
    yield "runbook_url", runbook_url(alert, settings.alerting.runbooks_url, name)


def runbook_url(alert: Alert, runbooks: str, name: str) -> str:
    """Return the address of an alert's runbook, which has this name, at its condition."""
    section = f"#{alert.condition}" if alert.condition else ""
    return f"{runbooks}/{name}.md{section}"


def _with_selectors(text: str) -> str:
    """Return a text, preceded by Go definitions of the selectors that its queries use.

    A selector quotes every label with ``%q``: a quote in a value cannot break a query.
    """
    selectors = declarations().selectors.items()
    used = (_selector(name, labels) for name, labels in selectors if f"${name} " in text)
    return "".join(used) + text


def _selector(name: str, labels: tuple[str, ...]) -> str:
    matchers = ",".join(f"{label}=%q" for label in labels)
    label_values = " ".join(f"$labels.{label}" for label in labels)
    return f"{{{{ ${name} := printf `{matchers}` {label_values} }}}}"


def _panel_url_template(alert: Alert, grafana: str, settings: Settings) -> str:
    """Return a template of the panel's address; an alert's labels fill its variables."""
    place = places(settings)[alert.panel]
    variables = "".join(
        f"{{{{ with $labels.{variable.name} }}}}&var-{variable.name}="
        "{{ . | urlquery }}{{ end }}"
        for variable in place.dashboard.variables
    )
    chosen = "".join(f"<< {name} >>" for name in alert.choices)
    return f"{grafana.rstrip('/')}{place.path}{variables}{chosen}"


def example(settings: Settings) -> Document:
    """Return an example configuration of Prometheus for one process and one Alertmanager.

    It scrapes by the settings: over TLS, with a token or a client certificate, and a second port
    if there is one. Secrets are never written: Prometheus reads them from the named files
    (:func:`needed_files`).
    """
    return {
        "global": {"scrape_interval": "15s", "evaluation_interval": "30s"},
        "rule_files": ["rules.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": ["localhost:9093"]}]}]},
        "scrape_configs": list(_scrapes(settings)),
    }


def needed_files(settings: Settings) -> tuple[str, ...]:
    """Return paths of files that Prometheus needs and people must create."""
    paths = {
        path
        for job in _scrapes(settings)
        for part in ("authorization", "tls_config")
        for path in job.get(part, {}).values()
    }
    own_files = (TOKEN_FILE, CLIENT_CERTIFICATE, CLIENT_KEY)
    return tuple(path for path in own_files if path in paths)


def _scrapes(settings: Settings) -> Iterator[Document]:
    """Yield the scrape jobs of the service's ports."""
    server, operations = settings.server, settings.server.operations
    job, outside = settings.stream.group_id, settings.alerting.external_url
    yield {
        "job_name": job,
        # The exposition keeps to MAX_SERIES itself; this bound guards against errors.
        "sample_limit": MAX_SERIES + _OWN_SERIES,
        "label_limit": 30,
        "label_value_length_limit": 1024,
        **_tls_part(server.tls_cert_file, by_certificate=server.client_ca_file is not None),
        **_bearer(_token_file(server)),
        "static_configs": [{"targets": [_scrape_address(server.host, server.port, outside)]}],
    }
    if operations.port is not None:
        yield {
            **_plain_scrape(f"{job}-operations", operations.host, operations.port, outside),
            # Alerts know one job, whichever port its metrics come from.
            "relabel_configs": [{"target_label": "job", "replacement": job}],
        }
    if settings.judge.model is not None:
        yield _plain_scrape(
            f"{job}-judge", host_of(settings.judge.listen), port_of(settings.judge.listen), outside
        )


def _plain_scrape(name: str, host: str, port: int, outside: str) -> Document:
    """Return a scrape job for a port that serves a process's own series, without slices."""
    target = {"targets": [_scrape_address(host, port, outside)]}
    return {"job_name": name, "sample_limit": _OWN_SERIES, "static_configs": [target]}


def _tls_part(certificate: str | None, *, by_certificate: bool) -> Document:
    """Return the TLS part of a scrape job; empty if the port has no certificate."""
    if certificate is None:
        return {}
    tls = {"ca_file": certificate}
    if by_certificate:
        tls |= {"cert_file": CLIENT_CERTIFICATE, "key_file": CLIENT_KEY}
    return {"scheme": "https", "tls_config": tls}


def _bearer(file: str | None) -> Document:
    return {"authorization": {"credentials_file": file}} if file else {}


def _token_file(server: Server) -> str | None:
    """Return the path of the token that Prometheus sends; None if readers need none."""
    readers = [reader for reader in server.tokens if reader.name not in server.producers]
    readers_by_name = {reader.name: reader for reader in readers}
    token = server.token or next((reader.token for reader in readers), None)
    if READER in readers_by_name:
        token = readers_by_name[READER].token
    return None if token is None else token.file or TOKEN_FILE


def _scrape_address(host: str, port: int, outside: str) -> str:
    """Return the address to scrape: localhost if only this host reaches it, else the public one."""
    if is_loopback(host):
        name = "localhost"
    elif host in _ANY_ADDRESS:
        name = urlsplit(outside).hostname or "localhost"
    else:
        name = host
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
