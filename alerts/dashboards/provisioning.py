"""Files by which a Grafana takes the dashboards and knows their data sources when it starts."""

from __future__ import annotations

from typing import Any

from alerts.dashboards.model import Source

FOLDER = "/var/lib/grafana/dashboards/slicewatch"
"""Where the dashboards are expected on Grafana's machine."""
Document = dict[str, Any]


def providers() -> Document:
    """Folder that Grafana reads dashboards from."""
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
    """A Prometheus, and the published tables as the reporter reads them.

    Addresses and the password come from Grafana's environment: nothing secret is written.
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
