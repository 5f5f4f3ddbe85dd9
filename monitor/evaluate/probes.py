"""Declared probe sets between cycles: decisions in, flips and pages out.

Decisions join a set's state in the transaction that moves the cursors of the deltas they came
with; they have their turn, in event time, once everything up to the watermark is folded.
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
from monitor.ports import StoredDelta
from monitor.store.evaluator.probe_sets import ProbeSetsChange, StoredProbeSet

log = logging.getLogger("slicewatch.evaluate")


@dataclass(slots=True)
class WatchedSet:
    """One declared set: its rounds and what they have come to."""

    pairs: ProbePairs
    watch: FlipWatch

    @classmethod
    def start(cls, declared: DeclaredSet) -> Self:
        """Nothing was compared yet."""
        return cls(ProbePairs(declared), FlipWatch.start(declared.compared))

    @classmethod
    def read(cls, declared: DeclaredSet, stored: StoredProbeSet) -> Self | None:
        """As it was stored last; None where that is of another set, or cannot be read."""
        try:
            kept, facts = arrays.decode(stored.body)
            pairs = ProbePairs.from_facts(declared, facts["pairs"])
            return cls(pairs, FlipWatch.from_state(declared.compared, kept, facts["watch"]))
        except (ValueError, KeyError):
            return None

    @classmethod
    def load(cls, declared: DeclaredSet, stored: StoredProbeSet | None) -> Self:
        """As it was stored last; anew where that is of no use."""
        if stored is None:
            return cls.start(declared)
        found = cls.read(declared, stored)
        if found is None:
            log.warning(
                "a probe set begins anew: what is stored under its name is of other content,"
                " variants or version",
                extra={"probe_set": declared.name},
            )
        return found or cls.start(declared)

    def stored(self) -> StoredProbeSet:
        """Its whole state; equal ones have equal bytes."""
        facts = {"pairs": self.pairs.to_facts(), "watch": self.watch.to_facts()}
        body = arrays.encode(self.watch.test.to_arrays(), facts)
        return StoredProbeSet(self.pairs.declared.digest, body)

    def shown(self) -> ShownProbeSet | None:
        """As it is published; None before the first watermark."""
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
    """All declared sets; always equal to what the store holds.

    Attributes:
        live: whether they may page; what is loaded in bulk never does.
        sets: by content hash.
        gone: names of stored sets that nothing declares any more.
        shown: as they are published, by name.
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
        """As they were committed last."""
        sets = {
            one.digest: WatchedSet.load(one, stored.get(one.name))
            for one in sorted(declared, key=lambda one: one.name)
        }
        known = cls(live, sets, frozenset(stored.keys() - {one.name for one in declared}))
        known._show()
        return known

    def take(self, deltas: Iterable[StoredDelta]) -> ProbeSetsChange:
        """Let the probe decisions of some deltas wait for their turn."""
        decisions = [one for delta in deltas for one in delta.probes]
        fed = {one.probe_set for one in decisions} & self.sets.keys()
        for digest in fed:
            self.sets[digest].pairs.add(one for one in decisions if one.probe_set == digest)
        return self._change(fed)

    def advance(self, watermark: int | None) -> ProbeSetsChange | None:
        """Compare what has its turn by now; None where there is nothing to commit.

        Full panes have theirs, as the watermark is published: otherwise the number of compared
        probes, whose times are known, would reveal the instant of the newest decision, perhaps
        the only one.
        """
        if watermark is None:
            return None
        watermark = _published(watermark)
        due = [digest for digest, one in self.sets.items() if one.pairs.is_due(watermark)]
        for digest in due:
            self._follow(self.sets[digest], watermark)
        if not due and not self.gone:
            return None
        self._show()
        dropped, self.gone = self.gone, frozenset()
        return self._change(due, dropped)

    def _follow(self, one: WatchedSet, watermark: int) -> None:
        before = one.watch.shown()
        for compared in one.pairs.advance(watermark):
            one.watch.follow(compared, live=self.live)
        changed = before.keys() ^ (after := one.watch.shown()).keys()
        self._news += [(one.pairs.declared.name, way, way in after) for way in sorted(changed)]

    def _change(self, digests: Iterable[str], dropped: Iterable[str] = ()) -> ProbeSetsChange:
        changed = [self.sets[digest] for digest in digests]
        states = {one.pairs.declared.name: one.stored() for one in changed}
        return ProbeSetsChange(states, frozenset(dropped))

    def _show(self) -> None:
        shown = (one.shown() for one in self.sets.values())
        self.shown = tuple(one for one in shown if one is not None)

    def log_changes(self) -> None:
        """Log what has been committed."""
        for name, way, stands in self._news:
            of = way.value
            if stands:
                log.warning(
                    "flips of a probe set go one way beyond chance",
                    extra={"probe_set": name, "direction": of},
                )
            else:
                log.warning(
                    "the excess of flips of a probe set is gone",
                    extra={"probe_set": name, "direction": of},
                )
        self._news.clear()


def _shown(flips: Mapping[FlipKey, int]) -> tuple[ShownFlips, ...]:
    return tuple(
        ShownFlips(variant, way, where, count, expected)
        for (variant, way, where, expected), count in sorted(flips.items())
    )


def _published(at: int) -> int:
    """An instant, as coarse as a watermark may be published."""
    return pane_start(pane_of(at, Grain.MINUTES5), Grain.MINUTES5)
