"""All files about alerts, as ``slicewatch render`` writes them."""

from __future__ import annotations

from alerts.notifications import MESSAGE, configuration
from alerts.rules import Document, alerts, rules
from alerts.runbooks import runbook
from alerts.yaml_text import to_yaml
from monitor.settings import Settings


def rendered(settings: Settings) -> dict[str, str]:
    """Path below the output folder -> text.

    Runbooks are beside the rules, not among the manuals: an installation renders both with its own
    settings, and alerts link to where it puts them.
    """
    return {
        "prometheus/prometheus.yml": to_yaml(prometheus(settings)),
        "prometheus/rules.yml": to_yaml(rules(settings)),
        "alertmanager/alertmanager.yml": to_yaml(configuration(settings)),
        "alertmanager/templates/slicewatch.tmpl": MESSAGE,
        **{f"runbooks/{alert.name}.md": runbook(alert) for alert in alerts(settings)},
    }


def prometheus(settings: Settings) -> Document:
    """An example of a Prometheus that scrapes one process and tells one Alertmanager."""
    most = settings.server.max_series
    return {
        "global": {"scrape_interval": "15s", "evaluation_interval": "30s"},
        "rule_files": ["rules.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": ["localhost:9093"]}]}]},
        "scrape_configs": [
            {
                "job_name": settings.alerting.job,
                # The page keeps to max_series itself; this is for what it cannot know.
                "sample_limit": most + _OWN_SERIES,
                "label_limit": 30,
                "label_value_length_limit": 1024,
                "static_configs": [{"targets": [f"localhost:{settings.server.port}"]}],
            }
        ],
    }


_OWN_SERIES = 10_000
"""More than the service says of itself, with thousands of partitions."""
