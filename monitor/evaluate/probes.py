"""Declared probe sets between cycles: decisions in, flips and pages out.

Decisions join the state of a set in the transaction that moves the cursors of their deltas. They
are compared in event time, once everything up to the watermark is folded.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from monitor.core.probes.flips import FlipDirection
from monitor.core.probes.rounds import DeclaredSet, FlipKey, ProbePairs
from monitor.core.publish.snapshot import ShownFlips, ShownProbeSet
from monitor.core.time import Grain, pane_of, pane_start
from monitor.detection import arrays
from monitor.detection.flip_test import FlipWatch
from monitor.store.deltas import StoredDelta
from monitor.store.evaluator.probe_sets import ProbeSetsChange, StoredProbeSet

log = logging.getLogger("slicewatch.evaluate")


@dataclass(slots=True)
class WatchedSet:
    """State of a declared probe set: its pairs of decisions, and the watch on their flips."""

    pairs: ProbePairs
    watch: FlipWatch

    @classmethod
    def start(cls, declared: DeclaredSet) -> Self:
        """Return the state of a declared set before its first decision."""
        return cls(ProbePairs(declared), FlipWatch.start(declared.compared))

    @classmethod
    def read(cls, declared: DeclaredSet, stored: StoredProbeSet) -> Self | None:
        """Return the set decoded from ``stored``; None if it is of another set or unreadable."""
        try:
            test_arrays, facts = arrays.decode(stored.body)
            pairs = ProbePairs.from_facts(declared, facts["pairs"])
            return cls(pairs, FlipWatch.from_state(declared.compared, test_arrays, facts["watch"]))
        except (ValueError, KeyError):
            return None

    @classmethod
    def load(cls, declared: DeclaredSet, stored: StoredProbeSet | None) -> Self:
        """Return the set decoded from ``stored``; a new one, with a warning, if that fails."""
        if stored is None:
            return cls.start(declared)
        restored = cls.read(declared, stored)
        if restored is None:
            log.warning(
                "a probe set begins anew: what is stored under its name is of other content,"
                " variants or version",
                extra={"probe_set": declared.name},
            )
        return restored or cls.start(declared)

    def stored(self) -> StoredProbeSet:
        """Return the digest and encoded state for the store; equal states have equal bytes."""
        facts = {"pairs": self.pairs.to_facts(), "watch": self.watch.to_facts()}
        body = arrays.encode(self.watch.test.to_arrays(), facts)
        return StoredProbeSet(self.pairs.declared.digest, body)

    def shown(self) -> ShownProbeSet | None:
        """Return the set's published counts, flips and pages; None before the first watermark."""
        pairs, declared = self.pairs, self.pairs.declared
        if pairs.covered is None:
            return None
        return ShownProbeSet(
            name=declared.name,
            digest=declared.digest,
            variants=declared.compared,
            compared=pairs.compared,
            flips=_shown(pairs.flips),
            incomplete=pairs.incomplete,
            every=declared.every,
            max_flip_ratio=declared.max_flip_ratio,
            covered=_rounded_down(pairs.covered),
            pages=self.watch.shown(),
            standing=_shown(pairs.standing),
        )


@dataclass(slots=True)
class ProbeSets:
    """Declared probe sets of the evaluator; equal to the stored state.

    Attributes:
        live: whether they may page; decisions loaded in bulk never do.
        sets: watched sets by content hash.
        gone: names of stored sets that are no longer declared.
        shown: published sets, by name.
    """

    live: bool
    sets: Mapping[str, WatchedSet]
    gone: frozenset[str] = frozenset()
    shown: tuple[ShownProbeSet, ...] = ()
    _news: list[tuple[str, FlipDirection, bool]] = field(default_factory=list)

    @classmethod
    def load(
        cls, stored: Mapping[str, StoredProbeSet], declared: Sequence[DeclaredSet], *, live: bool
    ) -> Self:
        """Return the declared sets with their stored states; unusable states begin anew."""
        sets = {
            declared_set.digest: WatchedSet.load(declared_set, stored.get(declared_set.name))
            for declared_set in sorted(declared, key=lambda declared_set: declared_set.name)
        }
        probe_sets = cls(
            live, sets, frozenset(stored.keys() - {declared_set.name for declared_set in declared})
        )
        probe_sets._show()
        return probe_sets

    def take(self, deltas: Iterable[StoredDelta]) -> ProbeSetsChange:
        """Add the probe decisions of deltas to their sets; return the new states to commit."""
        decisions = [decision for delta in deltas for decision in delta.payload.probes]
        digests = {decision.probe_set for decision in decisions} & self.sets.keys()
        for digest in digests:
            self.sets[digest].pairs.add(
                decision for decision in decisions if decision.probe_set == digest
            )
        return self._change(digests)

    def advance(self, watermark: int | None) -> ProbeSetsChange | None:
        """Compare probes that are due at the watermark; return the changes to commit, or None.

        Only probes of full panes are due, as the watermark is published by panes. Otherwise the
        number of compared probes, whose times are known, would reveal the instant of the newest
        decision.
        """
        if watermark is None:
            return None
        watermark = _rounded_down(watermark)
        due = [digest for digest, watched in self.sets.items() if watched.pairs.is_due(watermark)]
        for digest in due:
            self._follow(self.sets[digest], watermark)
        if not due and not self.gone:
            return None
        self._show()
        dropped, self.gone = self.gone, frozenset()
        return self._change(due, dropped)

    def _follow(self, watched: WatchedSet, watermark: int) -> None:
        before = watched.watch.shown()
        for compared in watched.pairs.advance(watermark):
            watched.watch.follow(compared, live=self.live)
        changed = before.keys() ^ (after := watched.watch.shown()).keys()
        self._news += [(watched.pairs.declared.name, way, way in after) for way in sorted(changed)]

    def _change(self, digests: Iterable[str], dropped: Iterable[str] = ()) -> ProbeSetsChange:
        watched_sets = [self.sets[digest] for digest in digests]
        states = {watched.pairs.declared.name: watched.stored() for watched in watched_sets}
        return ProbeSetsChange(states, frozenset(dropped))

    def _show(self) -> None:
        shown = (watched_set.shown() for watched_set in self.sets.values())
        self.shown = tuple(watched_set for watched_set in shown if watched_set is not None)

    def log_changes(self) -> None:
        """Log pages on flips that opened or ended since the last call."""
        for name, way, is_open in self._news:
            direction = way.value
            if is_open:
                log.warning(
                    "flips of a probe set go one way beyond chance",
                    extra={"probe_set": name, "direction": direction},
                )
            else:
                log.warning(
                    "the excess of flips of a probe set is gone",
                    extra={"probe_set": name, "direction": direction},
                )
        self._news.clear()


def _shown(flips: Mapping[FlipKey, int]) -> tuple[ShownFlips, ...]:
    return tuple(
        ShownFlips(variant, way, where, count, expected)
        for (variant, way, where, expected), count in sorted(flips.items())
    )


def _rounded_down(at: int) -> int:
    """Return an instant rounded down to five minutes, the precision of published watermarks."""
    return pane_start(pane_of(at, Grain.MINUTES5), Grain.MINUTES5)
