"""slicewatch: watches a decision router in production, slice by slice."""

import os

__all__ = ["errors", "ports", "settings", "version"]


# Before numpy is imported. Its matrix products here are small: threads that wait for each other
# made them five times slower on a busy machine, and how many there are may change the last bits.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
