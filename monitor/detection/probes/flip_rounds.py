"""Pages of a probe set: opened by an excess of flips, and closed when it is gone.

A page opens when the sequential test has crossed and flips of that direction are in excess: over
the newest comparison of each pair and variant, behind the evidence gate, more of them than of the
other direction, and by more than chance easily makes. It stays open until the excess is no more
than that; then the test begins anew in that direction, with the comparisons that have not bet yet.

What chance makes is taken from how far the two ways can be apart: of n pairs that flip either way,
the excess of one is at least sqrt(2 n ln(1 / p)) with probability p at most. Easily is one half. (A
router that always answers alike has the same few flips near the threshold for ever, of which some
more go one way: an end at an excess of nought would never come, however well it was repaired.)

Those that have bet cannot cross again, though the same fault may well come back to the same pairs.
So a direction that has paged pages again when its excess is as large as the shortest run of flips
that crosses, and as chance makes it with probability alpha at most. (A large set of which many
pairs lie near the threshold would page every few rounds for the length of the run alone.) It is the
old page's finding seen again, and tested after each round: that it is wrong is rare, and has no
bound over all of them. A set that never crosses never pages.

Source: Hoeffding (1963), JASA 58.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec
import numpy.typing as npt

from monitor.core.probes.flips import FlipDirection
from monitor.core.probes.rounds import ComparedRound
from monitor.detection.probes.flip_test import ALPHA, FlipTest, fewest_flips

EASILY = 0.5
"""Probability of an excess that is nothing: what chance makes as often as not ends a page."""


@dataclass(frozen=True, slots=True)
class FlipPage:
    """A direction that pages.

    Attributes:
        at: event time of the round that opened it, or that first showed it (microseconds).
        live: whether it may be shown. What is loaded in bulk never is, though it moves the test; a
            page that came of it is shown from the first live round that finds it standing still.
    """

    at: int
    live: bool


@dataclass(slots=True)
class FlipWatch:
    """The test and the pages of one probe set.

    Attributes:
        test: of first flips.
        fewest: flips that cross at the least.
        pages: those that are open.
        paged: directions that ever did.
    """

    test: FlipTest
    fewest: int
    pages: dict[FlipDirection, FlipPage] = field(default_factory=dict)
    paged: set[FlipDirection] = field(default_factory=set)

    @classmethod
    def start(cls, variants: Sequence[str]) -> Self:
        """Nothing was compared yet.

        Args:
            variants: distinct names of those that are compared with the reference.
        """
        return cls(FlipTest(variants), fewest_flips(len(variants)))

    def follow(self, compared: ComparedRound, *, live: bool) -> None:
        """Let a round bet, and open and end pages by it."""
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
        if excess <= _chance(compared.spread, EASILY):
            del self.pages[way]
            self.test.reset(way)
        elif live and not self.pages[way].live:
            self.pages[way] = FlipPage(compared.at, live)

    def _pages_at(self, way: FlipDirection, excess: int, spread: int) -> bool:
        if excess <= _chance(spread, EASILY):
            return False
        return self.test.has_crossed(way) or (way in self.paged and self._is_back(excess, spread))

    def _is_back(self, excess: int, spread: int) -> bool:
        """Return True when flips in one direction again exceed what chance makes."""
        return excess >= max(self.fewest, _chance(spread, ALPHA))

    def shown(self) -> dict[FlipDirection, int]:
        """Open pages that may be shown, with their event time."""
        return {way: page.at for way, page in self.pages.items() if page.live}

    def to_facts(self) -> dict[str, Any]:
        """The state other than the test's, in the types of JSON."""
        return {
            "pages": msgspec.to_builtins(self.pages, order="deterministic"),
            "paged": sorted(self.paged),
        }

    @classmethod
    def from_state(
        cls,
        variants: Sequence[str],
        arrays: Mapping[str, npt.NDArray[Any]],
        facts: Mapping[str, Any],
    ) -> Self:
        """The state that the test's arrays and :meth:`to_facts` gave.

        Raises:
            ValueError: they are of other variants.
        """
        test = FlipTest.from_arrays(variants, arrays)
        pages = msgspec.convert(facts["pages"], dict[FlipDirection, FlipPage])
        paged = {FlipDirection(way) for way in facts["paged"]}
        return cls(test, fewest_flips(len(variants)), pages, paged)


def _chance(spread: int, probability: float) -> float:
    """An excess that chance makes, or a larger one, with a probability of at most this."""
    return math.sqrt(2 * spread * math.log(1 / probability))
