"""Whether the versions that decided differ: between a slice and its reference, or inside a window.

A version is whatever a decision names (judge, rubric, policy, router, threshold). Two mixes differ
when the share of some version **surely** differs by more than :data:`SMALLEST_SHIFT`: the interval
of the difference (MOVER of Wilson's) lies beyond it, at 95 % over all versions that are looked at.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monitor.core.gaps import simultaneous_z
from monitor.core.intervals import Floats, divide, mover, wilson

SMALLEST_SHIFT = 0.05
"""A shift of less moves a rate by half a point at most if the versions are ten points apart."""


def versions_differ(
    slices: npt.ArrayLike, references: npt.ArrayLike, looks: int = 1
) -> npt.NDArray[np.bool_]:
    """Whether the version mix of each slice differs from its reference's, shape (S,).

    True where the share of some version differs by more than 0.05, at 95 % over all versions.
    Without decisions on one side nothing differs.

    Args:
        slices: decisions by (slice, version).
        references: the same of what each slice is compared with, disjoint from it.
        looks: how often it is asked; the 95 % hold for all of them together.
    """
    differs: npt.NDArray[np.bool_] = _shift(slices, references, looks) > SMALLEST_SHIFT
    return differs


def version_change(decisions: npt.ArrayLike) -> int | None:
    """Where the version mix changed inside a window: index of the first pane after; or None.

    The largest sure change of a version's share over all cuts between panes, above 0.05, at 95 %
    over all cuts and versions. Of several changes it is one.

    Args:
        decisions: of a window by (pane, version), panes in order.
    """
    so_far = np.cumsum(np.asarray(decisions, np.float64), axis=0)
    if len(so_far) < 2:  # noqa: PLR2004 - a cut has two sides
        return None
    before = so_far[:-1]
    shifts = _shift(before, so_far[-1] - before, len(before))
    cut = int(np.argmax(shifts))
    return cut + 1 if shifts[cut] > SMALLEST_SHIFT else None


def _shift(ones: npt.ArrayLike, others: npt.ArrayLike, looks: int) -> Floats:
    """How much the share of some version differs at least, by row; 0 where nothing is sure."""
    one, other = np.asarray(ones, np.float64), np.asarray(others, np.float64)
    n, m = (np.broadcast_to(x.sum(axis=1, keepdims=True), x.shape) for x in (one, other))
    z = simultaneous_z(looks * max(one.shape[1], 1))
    p, q = divide(one, n), divide(other, m)
    lower, upper = mover(p, *wilson(p, n, z), q, *wilson(q, m, z))
    surely = np.nan_to_num(np.maximum(lower, -upper), nan=0)
    return np.asarray(surely.max(axis=1, initial=0), np.float64)
