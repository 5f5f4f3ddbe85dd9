"""Provisioning files, from which Grafana loads dashboards and data sources at its start."""

from __future__ import annotations

from typing import Any

from alerts.dashboards.model import Source

FOLDER = "/var/lib/grafana/dashboards/slicewatch"
"""Folder of the dashboards on Grafana's machine."""
Document = dict[str, Any]


def providers() -> Document:
    """Return Grafana's provisioning document that names the folder of dashboards."""
    return {
        "apiVersion": 1,
        "providers": [
            {
                "name": "slicewatch",
                "folder": "slicewatch",
                "type": "file",
                "disableDeletion": True,
                "allowUiUpdates": False,
                "updateIntervalSeconds": 60,
                "options": {"path": FOLDER},
            }
        ],
    }


def data_sources() -> Document:
    """Return Grafana's provisioning document of data sources: Prometheus and the published tables.

    Addresses and password come from Grafana's environment; no secret is written.
    """
    return {
        "apiVersion": 1,
        "datasources": [
            {
                "name": "slicewatch metrics",
                "uid": "slicewatch-metrics",
                "type": Source.PROMETHEUS.value,
                "access": "proxy",
                "url": "$SLICEWATCH_PROMETHEUS_URL",
                "editable": False,
                "jsonData": {"httpMethod": "POST", "timeInterval": "15s"},
            },
            {
                "name": "slicewatch published tables",
                "uid": "slicewatch-published",
                "type": Source.POSTGRESQL.value,
                "access": "proxy",
                "url": "$SLICEWATCH_POSTGRESQL_ADDRESS",
                "user": "slicewatch_reader",
                "editable": False,
                "jsonData": {
                    "database": "slicewatch",
                    "sslmode": "verify-full",
                    "postgresVersion": 1500,
                    "timescaledb": False,
                },
                "secureJsonData": {"password": "$SLICEWATCH_READER_PASSWORD"},
            },
        ],
    }
