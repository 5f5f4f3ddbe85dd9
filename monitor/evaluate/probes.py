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
    """A declared probe set: its rounds and the flips they have shown."""

    pairs: ProbePairs
    watch: FlipWatch

    @classmethod
    def start(cls, declared: DeclaredSet) -> Self:
        """Return a set without compared decisions."""
        return cls(ProbePairs(declared), FlipWatch.start(declared.compared))

    @classmethod
    def read(cls, declared: DeclaredSet, stored: StoredProbeSet) -> Self | None:
        """Return the stored set; None if it is another set's, or unreadable."""
        try:
            test_arrays, facts = arrays.decode(stored.body)
            pairs = ProbePairs.from_facts(declared, facts["pairs"])
            return cls(pairs, FlipWatch.from_state(declared.compared, test_arrays, facts["watch"]))
        except (ValueError, KeyError):
            return None

    @classmethod
    def load(cls, declared: DeclaredSet, stored: StoredProbeSet | None) -> Self:
        """Return the stored set, or a new one where nothing usable is stored."""
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
        """Encode the whole state; equal states have equal bytes."""
        facts = {"pairs": self.pairs.to_facts(), "watch": self.watch.to_facts()}
        body = arrays.encode(self.watch.test.to_arrays(), facts)
        return StoredProbeSet(self.pairs.declared.digest, body)

    def shown(self) -> ShownProbeSet | None:
        """Return the set as it is published; None before the first watermark."""
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
            covered=_published(pairs.covered),
            pages=self.watch.shown(),
            standing=_shown(pairs.standing),
        )


@dataclass(slots=True)
class ProbeSets:
    """The declared probe sets; always equal to the stored state.

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
        """Return the sets as they were last committed."""
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
        """Add the probe decisions of deltas to their sets; they wait to be compared."""
        decisions = [decision for delta in deltas for decision in delta.payload.probes]
        digests = {decision.probe_set for decision in decisions} & self.sets.keys()
        for digest in digests:
            self.sets[digest].pairs.add(
                decision for decision in decisions if decision.probe_set == digest
            )
        return self._change(digests)

    def advance(self, watermark: int | None) -> ProbeSetsChange | None:
        """Compare the probes that are due; None if there is nothing to commit.

        Only probes of full panes are due, as the watermark is published by panes. Otherwise the
        number of compared probes, whose times are known, would reveal the instant of the newest
        decision.
        """
        if watermark is None:
            return None
        watermark = _published(watermark)
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
        """Log the committed changes."""
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


def _published(at: int) -> int:
    """Round an instant down to the precision of a published watermark."""
    return pane_start(pane_of(at, Grain.MINUTES5), Grain.MINUTES5)
