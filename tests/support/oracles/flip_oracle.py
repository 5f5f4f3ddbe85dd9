"""The sequential flip test by its definition: every path of first flips, without recursions.

Written apart from what it checks: products over all starting points, summed as they are defined.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Paths = npt.NDArray[np.bool_]

ALTERNATIVES = (0.6, 0.75, 0.9, 1.0)
THRESHOLD = 200.0  # two directions share 0.01


def all_paths(length: int) -> Paths:
    """Every sequence of flips, shape (2^length, length): True goes the way that is tested."""
    numbers = np.arange(2**length)[:, None]
    return np.asarray((numbers >> np.arange(length)) % 2, np.bool_)


def evidence(path: Paths) -> Floats:
    """M after each flip of many paths, shape (paths, length + 1)."""
    paths, length = path.shape
    m = np.ones((paths, length + 1))
    for n in range(1, length + 1):
        begun = np.zeros(paths)
        for theta in ALTERNATIVES:
            e = np.where(path[:, :n], 2 * theta, 2 * (1 - theta))
            for j in range(1, n + 1):
                begun += np.prod(e[:, j - 1 :], axis=1) / (j * (j + 1)) / len(ALTERNATIVES)
        m[:, n] = begun + 1 - sum(1 / (j * (j + 1)) for j in range(1, n + 1))
    return m


@cache
def crossings(length: int) -> npt.NDArray[np.int64]:
    """After how many flips each path crosses; ``length + 1`` where it does not."""
    crossed = evidence(all_paths(length)) >= THRESHOLD
    return np.where(crossed.any(axis=1), crossed.argmax(axis=1), length + 1)


def path_chances(length: int, share: float) -> Floats:
    """Probability of every path where each flip goes the way that is tested by this share."""
    ahead = all_paths(length).sum(axis=1)
    return np.asarray(share**ahead * (1 - share) ** (length - ahead), np.float64)


def delay(length: int, share: float) -> float:
    """E[min(T, length + 1)] of the number T of flips that it takes to cross."""
    return float(path_chances(length, share) @ crossings(length))
