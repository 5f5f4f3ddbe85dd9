"""Metrics: their catalogue, their values from Snapshot and process, and their exposition."""

__all__ = ["catalogue", "exporter", "metrics_page", "renderer", "service_metrics"]
