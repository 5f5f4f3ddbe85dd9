"""Egress: the metric catalogue, the exporter and its HTTP server."""
