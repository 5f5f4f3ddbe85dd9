"""Probes: sends a set to the router, signs what comes back, and publishes it as decisions."""

__all__ = ["http_router", "probe_events", "protocol", "rounds", "swap"]
