"""How many examples property tests try: all of them, or a share where somebody waits."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

SHARE = float(os.environ.get("SLICEWATCH_EXAMPLES", "1"))
"""``make test`` sets a third, ``make test-all`` runs all; above 1 is a longer search."""
FEWEST = 3


def examples(number: int, fewest: int = FEWEST) -> int:
    """Return the number of examples to try of ``number``, at least ``fewest``."""
    return max(round(number * SHARE), min(number, fewest))


def every_third(cases: Iterable[Any]) -> list[Any]:
    """Return the cases as parameters of a test; two of three are left to the full suite."""
    return [
        pytest.param(case, marks=pytest.mark.full if number % 3 else ())
        for number, case in enumerate(cases)
    ]
