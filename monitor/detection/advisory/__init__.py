"""Detectors that advise: drift, baselines, label delays, river's alarms. None of them pages."""

__all__ = [
    "advisors", "contract_advisor", "finding_log", "label_delays", "label_requests",
    "river_advisory", "river_detectors", "slice_labels", "versions",
]  # fmt: skip
