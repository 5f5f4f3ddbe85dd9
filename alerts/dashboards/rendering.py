"""Files for Grafana, as ``slicewatch render`` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

import yaml

from alerts.dashboards.declarations import PanelPlace, dashboards
from alerts.dashboards.grafana import document
from monitor.settings import Settings

Runbooks = Mapping[str, Sequence[tuple[str, str]]]
"""Names and addresses of runbooks, by the panel's name in their alerts."""


def rendered(
    settings: Settings, runbooks: Runbooks, to_yaml: Callable[[Any], str]
) -> dict[str, str]:
    """Return the text of every Grafana file, by its path below the output folder.

    Args:
        settings: settings of the installation.
        runbooks: runbooks that panels link to.
        to_yaml: writer of YAML files.
    """
    provisioning = (resources.files(__package__) / "provisioning.yaml").read_text(encoding="utf-8")
    files = {
        f"grafana/provisioning/{folder}/slicewatch.yaml": to_yaml(content)
        for folder, content in yaml.safe_load(provisioning).items()
    }
    for dashboard in dashboards(settings):
        links = {
            panel.key: [
                (f"Runbook: {name}", url)
                for panel_name in PanelPlace(dashboard, panel).names
                for name, url in runbooks.get(panel_name, ())
            ]
            for panel in dashboard.panels
        }
        board = document(dashboard, links, settings.alerting.external_url)
        text = json.dumps(board, indent=2, ensure_ascii=False)
        files[f"grafana/dashboards/{dashboard.uid}.json"] = text + "\n"
    return files
