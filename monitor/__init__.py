"""slicewatch: fairness monitor of a decision router in production, slice by slice."""

import os

__all__ = [
    "errors", "flushes", "id_key", "ports", "records", "settings", "shard_status", "version",
]  # fmt: skip


# Must run before numpy is imported. Matrix products are small here: on a busy machine, threads
# waiting for each other made them five times slower, and their number may change the last bits.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
