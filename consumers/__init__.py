"""Ingress: events, codec, record sources, the ingest loop."""
