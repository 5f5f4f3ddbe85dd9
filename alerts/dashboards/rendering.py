"""Files for Grafana, as ``slicewatch render`` writes them."""

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
    """Return the text of every Grafana file, by its path below the output folder.

    Args:
        settings: settings of the installation.
        runbooks: runbooks that panels link to.
        to_yaml: writer of YAML files.
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
        board = document(dashboard, links, settings.alerting.external_url)
        text = json.dumps(board, indent=2, ensure_ascii=False)
        files[f"grafana/dashboards/{dashboard.uid}.json"] = text + "\n"
    return files
