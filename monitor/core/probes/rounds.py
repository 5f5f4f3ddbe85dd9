"""Rounds of a declared probe set: probe decisions become comparisons, in event time.

A round of a pair has each declared variant once. Decisions have their turn after the watermark has
passed them, in order of event time, so the result depends neither on batches nor on restarts. A
late decision joins its pair's open round if it still fits; otherwise it is counted as incomplete.
Copies of a decision are also counted as incomplete, and leave the round unchanged.

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

from monitor.core.probes.flips import Expected, FlipDirection, FlipStage, cause, direction, stage
from monitor.core.probes.probe_decisions import ProbeDecision
from monitor.core.time import DAY, HOUR

MAX_WAITING = 32
"""Runs of a set that may wait for the watermark. More come only while the watermark stands still;
they are counted as incomplete."""

_FORMAT = 3  # version of the facts
_NEVER = -(1 << 62)  # before every event


PAIR_TIMEOUT = HOUR
"""Longest wait for the other variants of a pair: a paced round takes minutes; a longer wait would
compare answers of two versions of the router."""


@dataclass(frozen=True, slots=True)
class DeclaredSet:
    """Probe set as declared in the settings; times in microseconds.

    Attributes:
        digest: content hash.
        pairs: number of pairs.
        variants: variants of every pair, including the reference.
        reference: variant that the others are compared with.
        every: interval of sending (microseconds).
        max_flip_ratio: largest share of flips within a day.
        timeout: longest wait after the first variant of a round for the others.
    """

    name: str
    digest: str
    pairs: int
    variants: tuple[str, ...]
    reference: str
    every: int = DAY
    max_flip_ratio: float = 0.05
    timeout: int = PAIR_TIMEOUT

    @property
    def compared(self) -> tuple[str, ...]:
        """Return the names of the variants compared with the reference, sorted."""
        return tuple(sorted(set(self.variants) - {self.reference}))


FlipKey = tuple[str, FlipDirection, str, Expected]
"""Variant, direction, stage (``evidence_gate``, or the cause behind it), and expected readiness."""


class _Flip(msgspec.Struct, frozen=True, array_like=True):
    """Direction, stage (or cause) and expected readiness of a flip, as stored in the facts."""

    direction: FlipDirection
    stage: str
    expected: Expected

    @property
    def behind_gate(self) -> bool:
        return self.stage != FlipStage.EVIDENCE_GATE


@dataclass(frozen=True, slots=True)
class FlippingPair:
    """Variant of a pair that flips at its newest comparison, as reported for investigation.

    Attributes:
        pair: id.
        variant: variant that was compared with the reference.
        stage: ``evidence_gate``, or the cause behind it.
        expected: readiness that the set expects of both; the error is to delay a ready reply, or
            to serve an unready one.
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
    """Outcome of a complete round: every variant of one pair against its reference.

    Attributes:
        at: event time of its last decision.
        first: variants, with direction, that flipped behind the evidence gate for the first time
            since the declaration, sorted.
        excess: over the newest comparison of each pair and variant, flips behind the gate that
            held back, minus those that served.
        spread: sum of the squared number of these flips per pair, which bounds the excess by
            chance. Variants of one pair share a reference, and may flip together.
    """

    at: int
    first: tuple[tuple[str, FlipDirection], ...]
    excess: int
    spread: int


@dataclass(slots=True)
class _Pair:
    """State of one matched pair: its open round, its newest flips and which variants ever flipped.

    Attributes:
        at: event time of the last comparison.
        round: decisions of the open round, by variant.
        flips: flips at the newest comparison, by variant.
        flipped: variants that ever flipped behind the gate.
    """

    at: int = _NEVER
    round: dict[str, ProbeDecision] = field(default_factory=dict)
    flips: dict[str, _Flip] = field(default_factory=dict)
    flipped: set[str] = field(default_factory=set)

    @property
    def began(self) -> int:
        """Return the event time of the open round's first decision; there must be one."""
        return min(decision.at for decision in self.round.values())

    @property
    def behind_gate(self) -> list[_Flip]:
        """Return the flips behind the evidence gate at the newest comparison."""
        return [flip for flip in self.flips.values() if flip.behind_gate]

    def is_past(self, decision: ProbeDecision) -> bool:
        """Return True when the pair is past the decision's time, or already has it."""
        if decision.at <= self.at or decision.at < self.newest:
            return True
        return decision == self.round.get(decision.variant)

    @property
    def newest(self) -> int:
        """Return the newest event time in the open round, else that of the last comparison."""
        return max((decision.at for decision in self.round.values()), default=self.at)

    def fits(self, decision: ProbeDecision, timeout: int) -> bool:
        """Return True when a decision can join the open round, within ``timeout`` microseconds."""
        if not self.round or decision.variant in self.round or decision.at <= self.at:
            return False
        return max(self.newest, decision.at) - min(self.began, decision.at) <= timeout


@dataclass(slots=True)
class ProbePairs:
    """State of one declared set's pairs and rounds, and totals since its declaration.

    Memory is bounded by the declared pairs and variants: the first ids get the places. Decisions of
    further pairs, or of undeclared variants, count as incomplete.

    Attributes:
        declared: the set.
        since: first watermark after the declaration; None before.
        compared: number of comparisons of a variant with the reference.
        incomplete: number of rounds whose other variants did not come in time, and of decisions
            without a round, including copies.
        flips: number of flips by variant, direction, stage and expected readiness.
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
        """Queue decisions for the watermark; count copies and excess ones as incomplete.

        Copies and decisions compared before take no room, because any reader of the topic can send
        them again without a key.
        """
        room = MAX_WAITING * self.declared.pairs * len(self.declared.variants)
        waiting = set(self._waiting)
        for decision in decisions:
            pair = self._pairs.get(decision.pair)
            is_compared = pair is not None and decision.at <= pair.at
            if is_compared or decision in waiting or len(waiting) >= room:
                self.incomplete += 1
            else:
                waiting.add(decision)
        self._waiting = sorted(waiting, key=_sort_key)

    def is_due(self, watermark: int) -> bool:
        """Return True when ``advance`` to this watermark would change anything."""
        if self.since is None or (self._waiting and self._waiting[0].at < watermark):
            return True
        return any(self._is_over(pair, watermark) for pair in self._pairs.values())

    def advance(self, watermark: int) -> list[ComparedRound]:
        """Process decisions before the watermark, drop timed-out rounds, return complete ones.

        Args:
            watermark: event time; decisions of exactly that time may still be on their way.

        Returns:
            The completed rounds, in the order of their last decisions.
        """
        if self.since is None:
            self.since = watermark
        due = [decision for decision in self._waiting if decision.at < watermark]
        del self._waiting[: len(due)]
        complete = [
            compared for decision in due if (compared := self._join_round(decision)) is not None
        ]
        for pair in self._pairs.values():
            if self._is_over(pair, watermark):
                self._give_up(pair)
        return complete

    @property
    def covered(self) -> int | None:
        """Return the event time since which all pairs were compared, else of the declaration."""
        times = sorted((p.at for p in self._pairs.values() if p.at > _NEVER), reverse=True)
        pairs = self.declared.pairs
        return times[pairs - 1] if len(times) >= pairs else self.since

    @property
    def flipping(self) -> list[FlippingPair]:
        """Return the variants that flip at a pair's newest comparison, by pair and variant."""
        return [
            FlippingPair(name, variant, flip.direction, flip.stage, flip.expected, pair.at)
            for name, pair in sorted(self._pairs.items())
            for variant, flip in sorted(pair.flips.items())
        ]

    @property
    def standing(self) -> Counter[FlipKey]:
        """Return the number of flips at the newest comparisons, by the keys of ``flips``."""
        return Counter(
            (variant, flip.direction, flip.stage, flip.expected)
            for pair in self._pairs.values()
            for variant, flip in pair.flips.items()
        )

    def _is_over(self, pair: _Pair, watermark: int) -> bool:
        """Return True if a round was begun longer ago than the set's timeout."""
        return bool(pair.round) and pair.began + self.declared.timeout < watermark

    def _give_up(self, pair: _Pair) -> None:
        pair.round = {}
        self.incomplete += 1

    def _join_round(self, decision: ProbeDecision) -> ComparedRound | None:
        """Add a decision to its pair's round or count it as incomplete; return a complete round."""
        pair = self._pair_of(decision)
        if pair is None:
            self.incomplete += 1
            return None
        if not pair.fits(decision, self.declared.timeout):
            if pair.is_past(decision):
                self.incomplete += 1
                return None
            if pair.round:
                self._give_up(pair)
        pair.round[decision.variant] = decision
        return self._compare(pair) if len(pair.round) == len(self.declared.variants) else None

    def _pair_of(self, decision: ProbeDecision) -> _Pair | None:
        """Return a decision's pair, new if there is room; None without room or if undeclared."""
        if decision.variant not in self.declared.variants:
            return None
        if decision.pair not in self._pairs and len(self._pairs) >= self.declared.pairs:
            return None
        return self._pairs.setdefault(decision.pair, _Pair())

    def _compare(self, pair: _Pair) -> ComparedRound:
        """Compare a pair's finished round, add its flips to the sums, and begin its next round."""
        decided, pair.at, pair.round = pair.round, pair.newest, {}
        reference = decided[self.declared.reference]
        self._excess -= _excess(pair)
        self._spread -= _spread(pair)
        flips = {v: _flip(reference, decided[v]) for v in self.declared.compared}
        pair.flips = {variant: flip for variant, flip in flips.items() if flip is not None}
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
        """Return the state as JSON-serialisable values, the same for equal states."""
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
        """Return the state that :meth:`to_facts` wrote.

        Raises:
            ValueError: the facts are of another set, variants, reference or program version.
        """
        if facts.get("format") != _FORMAT:
            raise ValueError("the stored state is of another version")
        if facts["of"] != _identity(declared):
            raise ValueError("the stored state is of another probe set")
        pairs = msgspec.convert(facts["pairs"], dict[str, _Pair])
        return cls(
            declared,
            facts["since"],
            facts["compared"],
            facts["incomplete"],
            Counter(dict(msgspec.convert(facts["flips"], list[tuple[FlipKey, int]]))),
            pairs,
            msgspec.convert(facts["waiting"], list[ProbeDecision]),
            sum(map(_excess, pairs.values())),
            sum(map(_spread, pairs.values())),
        )


def _excess(pair: _Pair) -> int:
    ways = [flip.direction for flip in pair.behind_gate]
    return sum(1 if way is FlipDirection.HELD_BACK else -1 for way in ways)


def _spread(pair: _Pair) -> int:
    return len(pair.behind_gate) ** 2


def _flip(reference: ProbeDecision, variant: ProbeDecision) -> _Flip | None:
    """Return how a variant differs from the reference in one round; None if it does not."""
    reference_observed, variant_observed = reference.observed, variant.observed
    flip_stage = stage(reference_observed, variant_observed)
    if flip_stage is FlipStage.NO_OBSERVED_FLIP:
        return None
    stage_or_cause = (
        flip_stage
        if flip_stage is FlipStage.EVIDENCE_GATE
        else cause(reference_observed, variant_observed)
    )
    expected = Expected.shared(reference.expected_ready, variant.expected_ready)
    return _Flip(direction(reference_observed, variant_observed), stage_or_cause.value, expected)


def _sort_key(decision: ProbeDecision) -> tuple[object, ...]:
    """Return the sort key of a decision: event time, then fields that separate equal times."""
    observed = decision.observed
    score = -1.0 if observed.score is None else observed.score
    treatment = (
        observed.route,
        score,
        observed.threshold,
        observed.evidence_passed,
        str(decision.expected_ready),
    )
    return (decision.at, decision.pair, decision.variant, *treatment)


def _identity(declared: DeclaredSet) -> list[object]:
    """Return digest, variants and reference, which must match for stored counts to be used."""
    return [declared.digest, sorted(declared.variants), declared.reference]
