"""Renderers for people and pipelines: each module renders an AuditReport in one format."""
