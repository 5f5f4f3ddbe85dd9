"""Egress: the metric catalogue, the exporter with its HTTP server, and the rules of alerts."""

__all__ = ["dashboards", "exposition", "http", "rules"]
