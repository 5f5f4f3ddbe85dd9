"""Probes: sends a set to the router, signs what comes back, and publishes it as decisions."""
