"""Probing: sends a probe set to the router, signs the answers, and publishes them as decisions."""

__all__ = ["http_router", "probe_events", "protocol", "rounds", "swap"]
