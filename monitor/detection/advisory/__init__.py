"""Detectors that advise: drift, baselines, label delays, river's alarms. None of them pages."""
