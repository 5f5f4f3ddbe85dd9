"""How many examples property tests try: all of them, or a share where somebody waits."""

from __future__ import annotations

import os

SHARE = float(os.environ.get("SLICEWATCH_EXAMPLES", "1"))
"""``make test`` sets a third, ``make test-all`` runs all; above 1 is a longer search."""
FEWEST = 3


def examples(number: int, fewest: int = FEWEST) -> int:
    """Return the number of examples to try of ``number``, at least ``fewest``."""
    return max(round(number * SHARE), min(number, fewest))
