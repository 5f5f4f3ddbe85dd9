"""Output of the service: metric catalogue, exporter with HTTP server, and rules of alerts."""

__all__ = ["dashboards", "exposition", "http", "rules"]
