"""Association tests of vectors: which of two attributes two sets of targets lie nearer to.

Vectors of words make the WEAT, vectors of whole sentences the SEAT: the formula is the same.

Sources: Caliskan, Bryson and Narayanan (2017), Semantics derived automatically from language
corpora contain human-like biases; May et al. (2019), On Measuring Social Biases in Sentence
Encoders.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np

from monitor.audit.scorecard.dimension_records import ASSOCIATED, Vector
from monitor.audit.scorecard.measured import MeasuredScore, ScorePart, UnmeasurableError
from monitor.core.intervals import Floats

MOST_EXACT = 20_000
"""Most equal partitions of the targets to compute; of more, :data:`DRAWN` are drawn."""
DRAWN = 10_000
_SEED = 20_240_502
_SLACK = 1e-12
"""Rounding allowance for sums in another order, so that equal statistics count as reached."""


def association(records: Sequence[Vector]) -> MeasuredScore:
    """Compute the absolute effect size, 0 to 2, of targets X, Y on attributes A, B; add a p-value.

    ``d = (mean_x s(x) - mean_y s(y)) / sd_{X and Y} s`` with ``s(w) = mean_a cos(w, a) - mean_b
    cos(w, b)`` and the sample standard deviation (n - 1). The score is |d|; parts are the mean s of
    both sets of targets. The p-value is two-sided, since either direction counts. It is over equal
    partitions of the targets: all of them, or the observed one and :data:`DRAWN` drawn ones.

    Raises:
        UnmeasurableError: a set is absent; X and Y differ in size, have one target, or are alike.

    Source: Caliskan, Bryson and Narayanan (2017), Semantics derived automatically from language
    corpora contain human-like biases
    """
    x, y, a, b = (_unit(records, name) for name in ASSOCIATED)
    if len(x) != len(y):
        raise UnmeasurableError("X and Y are not equally large; give equally many of both")
    nearness = np.concatenate([x, y]) @ a.T
    s = nearness.mean(axis=1) - (np.concatenate([x, y]) @ b.T).mean(axis=1)
    spread = float(s.std(ddof=1))
    if len(x) == 1 or spread < _SLACK:
        raise UnmeasurableError("the targets are all alike, or there is one per set")
    means = s[: len(x)].mean(), s[len(x) :].mean()
    effect = (means[0] - means[1]) / spread
    parts = (ScorePart("X", float(means[0]), len(x)), ScorePart("Y", float(means[1]), len(y)))
    return MeasuredScore(
        score=abs(float(effect)),
        low=None,
        high=None,
        items=len(s),
        parts=parts,
        p_value=_p_value(s),
        moved=f"{'X' if effect > 0 else 'Y'} lies nearer to A",
    )


def _unit(records: Sequence[Vector], name: str) -> Floats:
    """Return the vectors of a set, scaled to length 1, as a matrix with one row each."""
    rows = [record.vector for record in records if record.set == name]
    if not rows:
        raise UnmeasurableError(f"no vectors of set {name}; the sets are X, Y, A and B")
    vectors = np.array(rows, np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not lengths.all():
        raise UnmeasurableError(f"a vector of set {name} is zero and has no direction")
    unit: Floats = vectors / lengths
    return unit


def _p_value(s: Floats) -> float:
    """Compute the share of equal partitions whose sums differ at least as much as the observed."""
    half = len(s) // 2
    middle = s.sum() / 2
    reached = abs(s[:half].sum() - middle) - _SLACK
    if comb(len(s), half) <= MOST_EXACT:
        sums = np.array([s[list(members)].sum() for members in combinations(range(len(s)), half)])
        return float((np.abs(sums - middle) >= reached).mean())
    random = np.random.default_rng(_SEED)
    sums = random.permuted(np.tile(s, (DRAWN, 1)), axis=1)[:, :half].sum(axis=1)
    return float((1 + (np.abs(sums - middle) >= reached).sum()) / (1 + DRAWN))
