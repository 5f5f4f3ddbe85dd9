"""Metrics: the catalogue, what fills it from a Snapshot and the process, and their exposition."""

__all__ = ["catalogue", "exporter", "metrics_page", "service_metrics"]
