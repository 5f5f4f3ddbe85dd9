"""Incidents: how they begin, are acknowledged and end."""
