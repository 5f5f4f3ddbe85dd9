"""Sequential test of first flips of a probe set: it pages when they go one way beyond chance.

A repeat is no new evidence: a deterministic router flips the same pair in every run, and a noisy
judge flips a pair near the threshold again and again in the same direction. So each comparison of a
variant with its reference bets only once, with its first flip behind the evidence gate.

For a variant v and a direction d, the n-th first flip has the e-value 2 theta if it goes that way,
else 2 (1 - theta). The evidence is a mixture over alternatives theta and over starting points::

    M_v = sum over theta of 1/K * ( sum over j <= n of w_j * e_j ... e_n ) + 1 / (n + 1),
    w_j = 1 / (j (j + 1)),      M = mean over variants of M_v

and a direction crosses when M reaches 2 / alpha. Every variant has its own mixture, and their mean
counts: within a pair all variants share one reference, so their flips are not independent, but each
variant alone is fair (a single product over all variants would not be fair even on average).

The claim is: *assume that, from the declaration of the set on, or from the resolve of a page in
this direction on, the first flip of a comparison goes this way with probability at most 1/2, given
all that was seen of the set before. Then the probability that the direction ever crosses from there
on is at most alpha / 2.* This is Ville's inequality, under any dependence between pairs, runs and
variants, and under any change of the alternatives over time. So a set whose directions are both
chance crosses at most 0.0101 times in its whole life on average. That is less than the 1/90 that
all streams of the contracts together are allowed in one day. After each true page that is resolved,
one direction begins with 0.005 anew. It is not a rate per time: bets are spent.

The assumption: where wording makes no difference, reference and variant of a pair could be swapped.
One router answers all variants of a pair, so they are to be sent together. The former treatment of
a pair by the evidence gate says nothing about its treatment by the judge.

Flips of replies expected to be ready and of other replies are two kinds of error, but bet in one
test: the claim is about the set, and holds for any mixture of them. The counters keep them apart.

A comparison that has bet never bets again, even after a page was resolved: by then it is known
which of its variants is nearer the threshold, and its next flip is no longer even.

**Pages of a probe set** are opened by an excess of flips, and closed when it is gone.

A page opens when the sequential test has crossed and flips of that direction are in excess: among
the newest comparisons of each pair and variant, behind the evidence gate, they outnumber the flips
of the other direction by more than chance easily produces. The page stays open until the excess is
no longer above that. Then the test begins anew in that direction, with the comparisons that have
not bet yet.

The bound of chance: of n pairs that flip either way, the excess of one direction is at least sqrt(2
n ln(1 / p)) with probability at most p. "Easily" means p = 1/2. (A router that always answers alike
has the same few flips near the threshold forever, slightly more in one direction: an end at an
excess of 0 would never come, however well it was repaired.)

Comparisons that have bet cannot cross again, although the same fault may return to the same pairs.
So a direction that has paged pages again when its excess reaches the shortest run of flips that
crosses, and a size that chance produces with probability at most alpha. (Otherwise a large set with
many pairs near the threshold would page every few rounds.) This is the old page's finding seen
again, tested after each round: a false one is rare, but has no bound over all rounds. A set that
never crosses never pages.

Source: Ville (1939); Shafer (2021), JRSS A 184, "Testing by betting"; Hoeffding (1963), JASA 58.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec
import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.probes.flips import FlipDirection
from monitor.core.probes.rounds import ComparedRound
from monitor.detection.arrays import Arrays
from monitor.detection.pages.mixture import SrMixture

ALPHA = 0.01
"""Probability that a set ever pages falsely, both directions together."""

ALTERNATIVES = np.array([0.6, 0.75, 0.9, 1.0])
"""Shares of first flips that go one way. The last gives the shortest run that pages, ten flips; the
first finds shares near chance: at .6 it halves the number of flips."""

_WAYS = tuple(FlipDirection)


class FlipTest:
    """Sequential test of one probe set's first flips, for both directions."""

    def __init__(self, variants: Sequence[str]) -> None:
        """Create a test without evidence.

        Args:
            variants: distinct names of the variants that are compared with the reference.
        """
        self._variants = tuple(variants)
        rows = len(_WAYS) * len(self._variants)
        self._mixture = SrMixture.empty(rows, len(ALTERNATIVES))
        self._bets = np.zeros(rows, np.int64)

    def bet(self, first: Sequence[tuple[str, FlipDirection]]) -> None:
        """Bet on the first flips of one round: (variant, direction), each variant once."""
        for variant, way in first:
            column = self._variants.index(variant)
            for number, tested in enumerate(_WAYS):
                self._bet(number * len(self._variants) + column, ahead=way is tested)

    def _bet(self, row: int, *, ahead: bool) -> None:
        """Bet one flip, ahead or behind; bet n has the prior weight 1 / (n (n + 1))."""
        self._bets[row] += 1
        n = int(self._bets[row])
        self._mixture.pending[row] = 1 / (n * (n + 1))
        log_e = _LOG_AHEAD if ahead else _LOG_BEHIND
        self._mixture.bet(np.array([row]), log_e[None], _WEIGHTS)

    def log_evidence(self, way: FlipDirection) -> float:
        """Return the evidence ln M of a direction; 0 without any bet."""
        rows = self._rows(way)
        begun, unbegun = self._mixture.statistic()[rows], -np.log1p(self._bets[rows])
        log_m = np.logaddexp(begun, unbegun)
        return float(np.logaddexp.reduce(log_m) - np.log(len(self._variants)))

    def has_crossed(self, way: FlipDirection) -> bool:
        """Return True when the evidence of a direction is enough to open a page."""
        return self.log_evidence(way) >= _LOG_THRESHOLD

    def reset(self, way: FlipDirection) -> None:
        """Erase the evidence and bets of a direction, as after a resolved page."""
        self._mixture.reset(self._rows(way))
        self._bets[self._rows(way)] = 0

    def _rows(self, way: FlipDirection) -> Int64s:
        size = len(self._variants)
        return np.arange(size) + _WAYS.index(way) * size

    def to_arrays(self) -> Arrays:
        """Return the whole state as arrays by name."""
        return {**self._mixture.to_arrays(), "bets": self._bets.copy()}

    @classmethod
    def from_arrays(cls, variants: Sequence[str], arrays: Arrays) -> Self:
        """Return the test that :meth:`to_arrays` wrote, bit for bit.

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
    """Return the smallest number of first flips that crosses: all of one variant, one way.

    Args:
        variants: number of variants that are compared with the reference.

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


EASILY = 0.5
"""Probability of an excess that counts as chance and ends a page."""


@dataclass(frozen=True, slots=True)
class FlipPage:
    """An open page on one direction of a probe set.

    Attributes:
        at: event time of the round that opened it, or that first showed it (microseconds).
        live: whether it may be shown. A page of a round loaded in bulk is not, though the round
            moves the test; it is shown from the first live round that finds it still open.
    """

    at: int
    live: bool


@dataclass(slots=True)
class FlipWatch:
    """Sequential test and open pages of one probe set.

    Attributes:
        test: the test of first flips.
        fewest: smallest number of flips that crosses.
        pages: open pages by direction.
        paged: directions that have ever paged.
    """

    test: FlipTest
    fewest: int
    pages: dict[FlipDirection, FlipPage] = field(default_factory=dict)
    paged: set[FlipDirection] = field(default_factory=set)

    @classmethod
    def start(cls, variants: Sequence[str]) -> Self:
        """Return a watch for these variants, without comparisons.

        Args:
            variants: distinct names of the variants that are compared with the reference.
        """
        return cls(FlipTest(variants), fewest_flips(len(variants)))

    def follow(self, compared: ComparedRound, *, live: bool) -> None:
        """Bet on one round, then open and close pages, restarting the test of a closed one."""
        self.test.bet(compared.first)
        excess = {FlipDirection.HELD_BACK: compared.excess, FlipDirection.SERVED: -compared.excess}
        for way in FlipDirection:
            if way in self.pages:
                self._look_again(way, excess[way], compared, live=live)
            elif self._pages_at(way, excess[way], compared.spread):
                self.pages[way] = FlipPage(compared.at, live)
                self.paged.add(way)

    def _look_again(
        self, way: FlipDirection, excess: int, compared: ComparedRound, *, live: bool
    ) -> None:
        """End a page whose excess may be chance again; date it anew at its first live round."""
        if excess <= _chance_excess(compared.spread, EASILY):
            del self.pages[way]
            self.test.reset(way)
        elif live and not self.pages[way].live:
            self.pages[way] = FlipPage(compared.at, live)

    def _pages_at(self, way: FlipDirection, excess: int, spread: int) -> bool:
        """Return True if a direction pages: its test has crossed, or an old excess is back."""
        if excess <= _chance_excess(spread, EASILY):
            return False
        return self.test.has_crossed(way) or (way in self.paged and self._is_back(excess, spread))

    def _is_back(self, excess: int, spread: int) -> bool:
        """Return True when the flips of a direction that paged before exceed chance again."""
        return excess >= max(self.fewest, _chance_excess(spread, ALPHA))

    def shown(self) -> dict[FlipDirection, int]:
        """Return the event time of each open page that may be shown, by direction."""
        return {way: page.at for way, page in self.pages.items() if page.live}

    def to_facts(self) -> dict[str, Any]:
        """Return pages and directions that ever paged, as JSON types; the test is not included."""
        return {
            "pages": msgspec.to_builtins(self.pages, order="deterministic"),
            "paged": sorted(self.paged),
        }

    @classmethod
    def from_state(cls, variants: Sequence[str], arrays: Arrays, facts: Mapping[str, Any]) -> Self:
        """Return the watch from the test's arrays and :meth:`to_facts`.

        Raises:
            ValueError: they are of other variants.
        """
        test = FlipTest.from_arrays(variants, arrays)
        pages = msgspec.convert(facts["pages"], dict[FlipDirection, FlipPage])
        paged = {FlipDirection(way) for way in facts["paged"]}
        return cls(test, fewest_flips(len(variants)), pages, paged)


def _chance_excess(spread: int, probability: float) -> float:
    """Return the excess that chance reaches with at most this probability."""
    return math.sqrt(2 * spread * math.log(1 / probability))
