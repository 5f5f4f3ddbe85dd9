"""From probe decisions to comparisons: rounds of a declared set, in event time.

A round of a pair is its declared variants, each once. Decisions have their turn once the watermark
has passed them, by event time; so the result does not depend on how they were batched, nor on
restarts. What comes later than the watermark allows joins its pair's open round where it still
fits, and is counted as incomplete where its pair has gone on without it. So is every copy of a
decision: it is compared with nothing, and leaves the round as it is.

Example:
    >>> from monitor.core.counts.cells import Route
    >>> from monitor.core.probes.flips import Observed
    >>> declared = DeclaredSet("tone", "0" * 64, 1, ("casual", "formal"), "formal", timeout=60)
    >>> pairs = ProbePairs(declared)
    >>> served = Observed(Route.AUTO_SERVE, 0.78, 0.70)
    >>> reviewed = Observed(Route.HUMAN_REVIEW, 0.67, 0.70)
    >>> pairs.add([ProbeDecision(declared.digest, "p4", "formal", 100, served)])
    >>> pairs.add([ProbeDecision(declared.digest, "p4", "casual", 101, reviewed)])
    >>> [compared] = pairs.advance(200)
    >>> compared.first, compared.excess
    ((('casual', <FlipDirection.HELD_BACK: 'held_back'>),), 1)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from monitor.core.probes.flips import (
    Expected,
    FlipDirection,
    FlipStage,
    cause,
    direction,
    stage,
)
from monitor.core.probes.probe_decisions import ProbeDecision
from monitor.core.time import DAY, HOUR

MAX_WAITING = 32
"""Runs of a whole set that may wait for the watermark: more wait only while it stands still, and
then the rest is counted as incomplete."""

_FORMAT = 3  # of the facts
_WITHOUT_EXPECTED = 2  # its flips do not say what the set expects
_NEVER = -(1 << 62)  # before every event


@dataclass(frozen=True, slots=True)
class DeclaredSet:
    """A probe set as the settings declare it.

    Attributes:
        name: of the set.
        digest: content hash.
        pairs: how many it has.
        variants: of every pair, the reference among them.
        reference: what the others are compared with.
        every: how often it is to be sent (microseconds).
        max_flip_ratio: largest share of flips within a day.
        timeout: how long after the first variant of a round the others are waited for.
    """

    name: str
    digest: str
    pairs: int
    variants: tuple[str, ...]
    reference: str
    every: int = DAY
    max_flip_ratio: float = 0.05
    timeout: int = HOUR

    @property
    def compared(self) -> tuple[str, ...]:
        """The variants that are compared with the reference, sorted."""
        return tuple(sorted(set(self.variants) - {self.reference}))


FlipKey = tuple[str, FlipDirection, str, Expected]
"""Variant, direction, where the two part (``evidence_gate``, or the cause behind it), and what the
set expects."""


class _Flip(msgspec.Struct, frozen=True, array_like=True):
    """Direction of a flip, the stage at which the two diverged, and what the set expects."""

    direction: FlipDirection
    stage: str
    expected: Expected = Expected.UNKNOWN  # of earlier versions

    @property
    def behind_gate(self) -> bool:
        return self.stage != FlipStage.EVIDENCE_GATE


@dataclass(frozen=True, slots=True)
class FlippingPair:
    """A variant of a pair that flips at its newest comparison.

    Attributes:
        pair: id.
        variant: the one that was compared with the reference.
        direction: which way.
        stage: ``evidence_gate``, or the cause behind it.
        expected: what the set expects of the two.
        at: event time of the comparison.
    """

    pair: str
    variant: str
    direction: FlipDirection
    stage: str
    expected: Expected
    at: int


@dataclass(frozen=True, slots=True)
class ComparedRound:
    """A round that is complete: every variant of one pair against its reference.

    Attributes:
        at: event time of its last decision.
        first: the variants that flipped behind the evidence gate for the first time since the set
            was declared, sorted, and which way.
        excess: over the newest comparison of each pair and variant, flips behind the gate that
            held back, less those that served.
        spread: of these flips, their number in each pair squared and summed: how far apart the two
            ways can be by chance. Variants of one pair share a reference, and may go together.
    """

    at: int
    first: tuple[tuple[str, FlipDirection], ...]
    excess: int
    spread: int


@dataclass(slots=True)
class _Pair:
    """State kept of one pair: never more than its variants.

    Attributes:
        at: when it was compared last.
        round: the decisions of its open round, by variant.
        flips: variants that flip at their newest comparison, and how.
        flipped: variants that ever did behind the gate.
    """

    at: int = _NEVER
    round: dict[str, ProbeDecision] = field(default_factory=dict)
    flips: dict[str, _Flip] = field(default_factory=dict)
    flipped: set[str] = field(default_factory=set)

    @property
    def began(self) -> int:
        """Event time of the first decision of the open round."""
        return min(one.at for one in self.round.values())

    @property
    def behind_gate(self) -> list[_Flip]:
        """Those of its flips in which the gate has no part."""
        return [flip for flip in self.flips.values() if flip.behind_gate]

    def is_past(self, one: ProbeDecision) -> bool:
        """Return True when the pair has gone on without a decision, or has this very one."""
        if one.at <= self.at or one.at < self.newest:
            return True
        return one == self.round.get(one.variant)

    @property
    def newest(self) -> int:
        """Event time that the pair has come to."""
        return max((one.at for one in self.round.values()), default=self.at)

    def fits(self, one: ProbeDecision, timeout: int) -> bool:
        """Return True when a decision joins the open round; none of a round before it does."""
        if not self.round or one.variant in self.round or one.at <= self.at:
            return False
        return max(self.newest, one.at) - min(self.began, one.at) <= timeout


@dataclass(slots=True)
class ProbePairs:
    """The rounds of one declared set, and what was counted since it was declared.

    Memory is bounded by the declared pairs and variants: the first ids that come have their
    places, and decisions of further pairs, or of variants that are not declared, count as
    incomplete.

    Attributes:
        declared: the set.
        since: the first watermark that was seen with it; None before.
        compared: comparisons of a variant with the reference.
        incomplete: rounds whose other variants did not come in time, and decisions that belong to
            no round, copies among them.
        flips: how many, by variant, direction, stage and what the set expects.
    """

    declared: DeclaredSet
    since: int | None = None
    compared: int = 0
    incomplete: int = 0
    flips: Counter[FlipKey] = field(default_factory=Counter)
    _pairs: dict[str, _Pair] = field(default_factory=dict)
    _waiting: list[ProbeDecision] = field(default_factory=list)
    _excess: int = 0
    _spread: int = 0

    def add(self, decisions: Iterable[ProbeDecision]) -> None:
        """Let decisions of the set wait for the watermark; their order does not matter.

        Copies, and what was compared before, take no room: whoever reads the topic can send them
        again without a key.
        """
        room = MAX_WAITING * self.declared.pairs * len(self.declared.variants)
        waiting = set(self._waiting)
        for one in decisions:
            pair = self._pairs.get(one.pair)
            over = pair is not None and one.at <= pair.at
            if over or one in waiting or len(waiting) >= room:
                self.incomplete += 1
            else:
                waiting.add(one)
        self._waiting = sorted(waiting, key=_order)

    def is_due(self, watermark: int) -> bool:
        """Return True when a watermark would change anything."""
        if self.since is None or (self._waiting and self._waiting[0].at < watermark):
            return True
        return any(self._is_over(pair, watermark) for pair in self._pairs.values())

    def advance(self, watermark: int) -> list[ComparedRound]:
        """Let the decisions before the watermark have their turn, and give up what is too old.

        Args:
            watermark: event time; one of exactly that time may still be on its way.

        Returns:
            The rounds that are complete by them, in the order of their last decisions.
        """
        if self.since is None:
            self.since = watermark
        due = [one for one in self._waiting if one.at < watermark]
        del self._waiting[: len(due)]
        complete = [done for one in due if (done := self._take(one)) is not None]
        for pair in self._pairs.values():
            if self._is_over(pair, watermark):
                self._give_up(pair)
        return complete

    @property
    def covered(self) -> int | None:
        """Event time since which every pair was compared; until then, when it was declared."""
        times = sorted((p.at for p in self._pairs.values() if p.at > _NEVER), reverse=True)
        wanted = self.declared.pairs
        return times[wanted - 1] if len(times) >= wanted else self.since

    @property
    def flipping(self) -> list[FlippingPair]:
        """Flips at the newest comparison of each pair, by pair and variant."""
        return [
            FlippingPair(name, variant, flip.direction, flip.stage, flip.expected, pair.at)
            for name, pair in sorted(self._pairs.items())
            for variant, flip in sorted(pair.flips.items())
        ]

    @property
    def standing(self) -> Counter[FlipKey]:
        """Number of flips at the newest comparisons, as in ``flips``."""
        return Counter(
            (variant, flip.direction, flip.stage, flip.expected)
            for pair in self._pairs.values()
            for variant, flip in pair.flips.items()
        )

    def _is_over(self, pair: _Pair, watermark: int) -> bool:
        return bool(pair.round) and pair.began + self.declared.timeout < watermark

    def _give_up(self, pair: _Pair) -> None:
        pair.round = {}
        self.incomplete += 1

    def _take(self, one: ProbeDecision) -> ComparedRound | None:
        """Put a decision into a round of its pair; returns the round if that completes it."""
        pair = self._place(one)
        if pair is None:
            self.incomplete += 1
            return None
        if not pair.fits(one, self.declared.timeout):
            if pair.is_past(one):
                self.incomplete += 1
                return None
            if pair.round:
                self._give_up(pair)
        pair.round[one.variant] = one
        return self._compare(pair) if len(pair.round) == len(self.declared.variants) else None

    def _place(self, one: ProbeDecision) -> _Pair | None:
        """Pair that a decision belongs to; None where it is not of the set."""
        if one.variant not in self.declared.variants:
            return None
        if one.pair not in self._pairs and len(self._pairs) >= self.declared.pairs:
            return None
        return self._pairs.setdefault(one.pair, _Pair())

    def _compare(self, pair: _Pair) -> ComparedRound:
        decided, pair.at, pair.round = pair.round, pair.newest, {}
        reference = decided[self.declared.reference]
        self._excess -= _excess(pair)
        self._spread -= _spread(pair)
        found = {v: _flip(reference, decided[v]) for v in self.declared.compared}
        pair.flips = {variant: flip for variant, flip in found.items() if flip is not None}
        self.flips.update(
            (variant, flip.direction, flip.stage, flip.expected)
            for variant, flip in pair.flips.items()
        )
        first = [
            (variant, flip.direction)
            for variant, flip in pair.flips.items()
            if flip.behind_gate and variant not in pair.flipped
        ]
        pair.flipped.update(variant for variant, _ in first)
        self._excess += _excess(pair)
        self._spread += _spread(pair)
        self.compared += len(self.declared.compared)
        return ComparedRound(pair.at, tuple(first), self._excess, self._spread)

    def to_facts(self) -> dict[str, Any]:
        """All that the state consists of, as JSON has it; equal states give equal facts."""
        return {
            "format": _FORMAT,
            "of": _identity(self.declared),
            "since": self.since,
            "compared": self.compared,
            "incomplete": self.incomplete,
            "flips": [[[*key], count] for key, count in sorted(self.flips.items())],
            "pairs": msgspec.to_builtins(self._pairs, order="deterministic"),
            "waiting": msgspec.to_builtins(self._waiting),
        }

    @classmethod
    def from_facts(cls, declared: DeclaredSet, facts: Mapping[str, Any]) -> Self:
        """The state that :meth:`to_facts` gave, of this version or the one before.

        Flips that were stored before it was known what the set expects stay unknown.

        Raises:
            ValueError: it is of another set, of other variants or another reference of it, or of
                another version of this program.
        """
        if facts.get("format") not in (_FORMAT, _WITHOUT_EXPECTED):
            raise ValueError("the stored state is of another version")
        if facts["of"] != _identity(declared):
            raise ValueError("the stored state is of another probe set")
        pairs = msgspec.convert(facts["pairs"], dict[str, _Pair])
        return cls(
            declared,
            facts["since"],
            facts["compared"],
            facts["incomplete"],
            _counted(facts),
            pairs,
            msgspec.convert(facts["waiting"], list[ProbeDecision]),
            sum(map(_excess, pairs.values())),
            sum(map(_spread, pairs.values())),
        )


def _counted(facts: Mapping[str, Any]) -> Counter[FlipKey]:
    rows = facts["flips"]
    if facts["format"] == _WITHOUT_EXPECTED:
        rows = [[[*key, Expected.UNKNOWN], count] for *key, count in rows]
    flips = msgspec.convert(rows, list[tuple[FlipKey, int]])
    return Counter(dict(flips))


def _excess(pair: _Pair) -> int:
    ways = [flip.direction for flip in pair.behind_gate]
    return sum(1 if way is FlipDirection.HELD_BACK else -1 for way in ways)


def _spread(pair: _Pair) -> int:
    return len(pair.behind_gate) ** 2


def _flip(reference: ProbeDecision, variant: ProbeDecision) -> _Flip | None:
    ours, seen = reference.observed, variant.observed
    where = stage(ours, seen)
    if where is FlipStage.NO_OBSERVED_FLIP:
        return None
    part = where if where is FlipStage.EVIDENCE_GATE else cause(ours, seen)
    expected = Expected.of(reference.expected_ready, variant.expected_ready)
    return _Flip(direction(ours, seen), part.value, expected)


def _order(one: ProbeDecision) -> tuple[object, ...]:
    """By event time; the rest is for decisions of the same microsecond."""
    seen = one.observed
    score = -1.0 if seen.score is None else seen.score
    told = (seen.route, score, seen.threshold, seen.evidence_passed, str(one.expected_ready))
    return (one.at, one.pair, one.variant, *told)


def _identity(declared: DeclaredSet) -> list[object]:
    """Facts that make counts of one set comparable; everything else may be set anew."""
    return [declared.digest, sorted(declared.variants), declared.reference]
