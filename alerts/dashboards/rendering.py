"""Every file for Grafana, as ``slicewatch render`` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from alerts.dashboards.boards import dashboards
from alerts.dashboards.grafana import document
from alerts.dashboards.provisioning import data_sources, providers
from monitor.settings import Settings

Runbooks = Mapping[str, Sequence[tuple[str, str]]]
"""Names and addresses of runbooks, by the panel (``dashboard.name``) that shows their alert."""


def rendered(
    settings: Settings, runbooks: Runbooks, to_yaml: Callable[[Any], str]
) -> dict[str, str]:
    """Path below the output folder -> text.

    Args:
        settings: of the installation.
        runbooks: what panels link to.
        to_yaml: how all YAML files are written.
    """
    files = {
        "grafana/provisioning/dashboards/slicewatch.yaml": to_yaml(providers()),
        "grafana/provisioning/datasources/slicewatch.yaml": to_yaml(data_sources()),
    }
    for dashboard in dashboards(settings):
        links = {
            panel.key: [
                (f"Runbook: {name}", url)
                for name, url in runbooks.get(f"{dashboard.name}.{panel.key}", ())
            ]
            for panel in dashboard.panels
        }
        made = document(dashboard, links, settings.alerting.external_url)
        text = json.dumps(made, indent=2, ensure_ascii=False)
        files[f"grafana/dashboards/{dashboard.uid}.json"] = text + "\n"
    return files
