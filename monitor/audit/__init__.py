"""Matched-pair audit, before a release or on the results of probes; never reads the store."""

__all__ = [
    "audit_report", "audit_run", "dataset", "dataset_counts", "inputs", "record_files",
    "render", "set_files", "sign_off",
]  # fmt: skip
