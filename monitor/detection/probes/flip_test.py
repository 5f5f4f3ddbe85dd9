"""Sequential test of first flips: whether flips of a probe set go one way beyond chance.

A repeat is no new evidence: a deterministic router flips the same pair in every run, and a noisy
judge flips a pair near the threshold again and again the same way. So each comparison of a variant
with its reference bets once in its life, with its first flip behind the evidence gate.

For a variant v and a direction d, the n-th first flip has the e-value 2 theta if it goes that way,
else 2 (1 - theta). The evidence is a mixture over alternatives theta and over starting points::

    M_v = sum over theta of 1/K * ( sum over j <= n of w_j * e_j ... e_n ) + 1 / (n + 1),
    w_j = 1 / (j (j + 1)),      M = mean over variants of M_v

and a direction crosses when M reaches 2 / alpha. Every variant has a mixture of its own, and their
mean counts: within a pair all variants share one reference, so their flips are not independent,
but each of them alone is fair (to let them all bet in one product is not even fair on average).

The claim, in these words: *let it be true, from the declaration of the set on, or from the resolve
of a page in this direction on, that the first flip of a comparison goes this way with probability
at most 1/2, given all that was seen of the set before. Then the probability that the direction
ever crosses from there on is at most alpha / 2.* It is so by Ville's inequality, whatever the
dependence between pairs, runs and variants, and however the alternatives change with time. A set
for which both directions are chance alone therefore crosses 0.0101 times in its whole life on
average at most, which is less than the 1/90 that all streams of the contracts together are allowed
in one day; after each true page that is resolved, one direction begins with 0.005 anew. There is
no rate per time in it: bets are spent.

What it rests on: where wording makes no difference, reference and variant of a pair could as well
be swapped. One router answers all variants of a pair, so they are to be sent together; what the
evidence gate did with a pair before says nothing of what the judge does with it.

A comparison that has bet never bets again, also after a page was resolved: it is known then which
of its variants is nearer the threshold, and its next flip is not even any more.

Source: Ville (1939); Shafer (2021), JRSS A 184, "Testing by betting".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.probes.flips import FlipDirection
from monitor.detection.pages.mixture import SrMixture

ALPHA = 0.01
"""Probability that a set ever pages falsely, both directions together."""

ALTERNATIVES = np.array([0.6, 0.75, 0.9, 1.0])
"""Shares of first flips that go one way. The last one gives the shortest run that pages, of ten
flips; the first finds what is near chance: at .6 it takes half as many as without it."""

_WAYS = tuple(FlipDirection)


class FlipTest:
    """The evidence of one probe set, for both directions."""

    def __init__(self, variants: Sequence[str]) -> None:
        """A test without evidence.

        Args:
            variants: distinct names of those that are compared with the reference.
        """
        self._variants = tuple(variants)
        rows = len(_WAYS) * len(self._variants)
        self._mixture = SrMixture.empty(rows, len(ALTERNATIVES))
        self._bets = np.zeros(rows, np.int64)

    def bet(self, first: Sequence[tuple[str, FlipDirection]]) -> None:
        """Add the first flips of one round: variant and direction, each variant once."""
        for variant, way in first:
            at = self._variants.index(variant)
            for number, tested in enumerate(_WAYS):
                self._bet(number * len(self._variants) + at, ahead=way is tested)

    def _bet(self, row: int, *, ahead: bool) -> None:
        self._bets[row] += 1
        n = int(self._bets[row])
        self._mixture.pending[row] = 1 / (n * (n + 1))
        log_e = _LOG_AHEAD if ahead else _LOG_BEHIND
        self._mixture.bet(np.array([row]), log_e[None], _WEIGHTS)

    def log_evidence(self, way: FlipDirection) -> float:
        """The evidence ln M of a direction; 0 without any bet."""
        rows = self._rows(way)
        begun, unbegun = self._mixture.statistic()[rows], -np.log1p(self._bets[rows])
        log_m = np.logaddexp(begun, unbegun)
        return float(np.logaddexp.reduce(log_m) - np.log(len(self._variants)))

    def has_crossed(self, way: FlipDirection) -> bool:
        """Return True when the evidence of a direction suffices for a page."""
        return self.log_evidence(way) >= _LOG_THRESHOLD

    def reset(self, way: FlipDirection) -> None:
        """Begin anew in one direction, as after a page was resolved."""
        self._mixture.reset(self._rows(way))
        self._bets[self._rows(way)] = 0

    def _rows(self, way: FlipDirection) -> Int64s:
        size = len(self._variants)
        return np.arange(size) + _WAYS.index(way) * size

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All that the state consists of."""
        return {**self._mixture.to_arrays(), "bets": self._bets.copy()}

    @classmethod
    def from_arrays(cls, variants: Sequence[str], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The state that :meth:`to_arrays` gave, bit for bit.

        Raises:
            ValueError: if the shapes are not those of these variants.
        """
        test = cls(variants)
        if arrays["log_r"].shape != test._mixture.log_r.shape:
            raise ValueError("the stored test is of other variants or alternatives")
        test._mixture = SrMixture.from_arrays(arrays)
        test._bets = np.array(arrays["bets"], np.int64)
        return test


def fewest_flips(variants: int) -> int:
    """Smallest number of first flips that pages: of one variant, all one way, from the first on.

    Args:
        variants: how many are compared with the reference.

    Example:
        >>> fewest_flips(1), fewest_flips(3)
        (10, 12)
    """
    names = [str(number) for number in range(variants)]
    test, way, flips = FlipTest(names), FlipDirection.HELD_BACK, 0
    while not test.has_crossed(way):
        test.bet([(names[0], way)])
        flips += 1
    return flips


_LOG_AHEAD = np.log(2 * ALTERNATIVES)
_LOG_BEHIND = np.log(2 * (1 - ALTERNATIVES), out=np.full(4, -np.inf), where=ALTERNATIVES < 1)
_WEIGHTS = np.full(len(ALTERNATIVES), 1 / len(ALTERNATIVES))
_LOG_THRESHOLD = float(np.log(len(_WAYS) / ALPHA))
