"""The matched-pair audit: before a release, and on what probes brought back; pure, reads files."""

__all__ = [
    "audit_report", "audit_run", "dataset", "dataset_counts", "inputs", "record_files",
    "render", "set_files", "sign_off",
]  # fmt: skip
