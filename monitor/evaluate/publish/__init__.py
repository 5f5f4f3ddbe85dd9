"""The Snapshot is put together from rates, findings, diagnosis and incidents."""
