"""Flips of matched pairs: listed, counted by axis, tested for one direction, compared by run.

The evidence gate is held outside: a comparison counts behind it only if both variants passed it,
and only such comparisons are tested. Two variants that it stopped both are no flip as long as
they go the same way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import comb

from monitor.audit.audit_report import (
    REPAIRED_SENTENCE,
    Comparison,
    FlipCounts,
    ShownFlip,
    VariantOutcome,
)
from monitor.audit.inputs import Compared, Pair, Row
from monitor.audit.matching import values
from monitor.core.privacy.bands import Precision
from monitor.core.probes.flips import (
    FlipCause,
    FlipDirection,
    FlipStage,
    cause,
    direction,
    is_flip,
    stage,
)

NOTHING_SENTENCE = "No flips before or after: nothing to repair, and not validated for release."
_FAILING = ("still failing", "newly failing", "newly held back", "newly served though not ready")
_NEGLIGIBLE = 1e-18
_Key = tuple[str, str, str]
_Kind = tuple[str, bool]
"""An axis, and whether the replies are expected to be ready."""


def shown_flips(compared: Sequence[Compared]) -> tuple[ShownFlip, ...]:
    """Comparisons whose variants took different routes, in the order they come."""
    return tuple(_shown(one) for one in compared if flipped(one))


def flipped(compared: Compared) -> bool:
    """Return True when the two variants took different routes."""
    return is_flip(compared.reference.observed, compared.variant.observed)


def behind_gate(compared: Compared) -> bool:
    """Return True when both variants passed the evidence gate."""
    return compared.reference.observed.evidence_passed and compared.variant.observed.evidence_passed


def stage_name(stage: FlipStage, cause: FlipCause | None) -> str:
    """Stage and cause in one word, the key of :attr:`FlipCounts.stages`.

    Example:
        >>> stage_name(FlipStage.JUDGE_OR_ROUTE, FlipCause.THRESHOLD)
        'judge_or_route/threshold'
    """
    return str(stage) if cause is None else f"{stage}/{cause}"


def flip_counts(
    compared: Sequence[Compared], *, k: int, exact: bool, declared: Collection[str] = ()
) -> tuple[FlipCounts, ...]:
    """Flips of each axis, sorted by axis; of each those of ready replies first, then the others.

    Of reviewed data of real people nothing below k is shown. Pairs are counted there, not
    comparisons (a pair with ten variants is still one request), and every number is one that the
    truth is at least: the lower edge of its band, and at least k short of the number it is a part
    of, so that the rest is hidden too. 0 says fewer than k or too close to all. Declared axes
    have a line whether anything was compared along them or not, others only if they have a
    number: an empty line would reveal that there are a few.

    Args:
        compared: comparisons.
        k: smallest cell that may be shown.
        exact: the set is synthetic, and numbers are shown as they are.
        declared: attributes that the contract compares.
    """
    kinds: dict[_Kind, list[Compared]] = defaultdict(list)
    for one in compared:
        kinds["+".join(one.by), bool(one.reference.item.expected_ready)].append(one)
    precision = Precision(k, exact)
    every = kinds.keys() if exact else kinds.keys() | set(product(declared, (True, False)))
    ordered = sorted(every, key=lambda kind: (kind[0], not kind[1]))
    lines = (_counts(kind, kinds[kind], precision) for kind in ordered)
    return tuple(line for line in lines if line.by in declared or not line.withheld)


def mcnemar(one_way: int, other_way: int) -> float:
    """Two-sided exact p-value of McNemar's test on discordant pairs; 1 without any.

    ``min(1, 2 P(X <= min(a, b)))`` with X binomial of a + b trials at 1/2: if neither variant
    fares worse, a flip goes either way with the same probability.

    Example:
        >>> mcnemar(3, 0), mcnemar(0, 0), mcnemar(2, 2)
        (0.25, 1.0, 1.0)

    Source: McNemar (1947), Psychometrika 12; exact form by the binomial distribution.
    """
    n, fewer = one_way + other_way, min(one_way, other_way)
    if 2 * fewer + 1 >= n:
        return 1.0
    # Terms of the lower tail shrink towards 0: after some sqrt(n) of them none counts.
    term = tail = 1.0
    for i in range(fewer, 0, -1):
        term *= i / (n - i + 1)
        tail += term
        if term < _NEGLIGIBLE:
            break
    return min(1.0, 2 * tail * (comb(n, fewer) / (1 << n)))


def _shown(one: Compared) -> ShownFlip:
    reference, variant = one.reference.observed, one.variant.observed
    return ShownFlip(
        pair=one.pair,
        by="+".join(one.by),
        expected_ready=bool(one.reference.item.expected_ready),
        reference=_outcome(one.reference, one.by),
        variant=_outcome(one.variant, one.by),
        direction=direction(reference, variant),
        stage=stage(reference, variant),
        cause=_cause(one),
    )


def _outcome(row: Row, by: tuple[str, ...]) -> VariantOutcome:
    seen = row.observed
    return VariantOutcome(
        variant=row.item.variant,
        values=values(row, by),
        route=seen.route.name.lower(),
        score=seen.score,
        threshold=seen.threshold,
        evidence_passed=seen.evidence_passed,
    )


def _cause(one: Compared) -> FlipCause | None:
    """Cause of a flip behind the gate; None at the gate."""
    reference, variant = one.reference.observed, one.variant.observed
    if stage(reference, variant) is FlipStage.EVIDENCE_GATE:
        return None
    return cause(reference, variant)


def _counts(kind: _Kind, compared: Sequence[Compared], precision: Precision) -> FlipCounts:
    behind = [one for one in compared if behind_gate(one)]
    flips = [one for one in compared if flipped(one)]
    tested = [one for one in flips if behind_gate(one)]
    shown = _number(behind, compared, precision)
    stopped = [one for one in flips if not behind_gate(one)]
    at_gate = _number(stopped, flips, precision)
    withheld = not (shown or at_gate or precision.exact)
    return FlipCounts(
        by=kind[0],
        expected_ready=kind[1],
        compared=shown,
        flips=_number(tested, behind, precision),
        directions=_directions(tested, precision),
        stages=_stages(flips, precision),
        at_gate=at_gate,
        p_value=_p_value(behind) if precision.exact else None,
        withheld=withheld,
    )


def _number(part: Sequence[Compared], whole: Sequence[Compared], precision: Precision) -> int:
    """The exact number; or a lower bound in pairs, where neither part nor rest is below k."""
    if precision.exact:
        return len(part)
    pairs, all_pairs = len({one.pair for one in part}), len({one.pair for one in whole})
    return int(precision.support(min(pairs, all_pairs - precision.k)))


def _way(flip: Compared) -> FlipDirection:
    return direction(flip.reference.observed, flip.variant.observed)


def _directions(flips: Sequence[Compared], precision: Precision) -> dict[FlipDirection, int]:
    return {
        way: _number([one for one in flips if _way(one) is way], flips, precision)
        for way in FlipDirection
    }


def _stages(flips: Sequence[Compared], precision: Precision) -> dict[str, int]:
    """Flips by stage; a stage whose number is 0 is absent, so that the reason is not revealed."""
    found: dict[str, list[Compared]] = defaultdict(list)
    for one in flips:
        at = stage(one.reference.observed, one.variant.observed)
        found[stage_name(at, _cause(one))].append(one)
    numbers = {name: _number(found[name], flips, precision) for name in sorted(found)}
    return {name: number for name, number in numbers.items() if number}


def _p_value(behind: Sequence[Compared]) -> float:
    """McNemar's test; one comparison of each pair at a time, since a pair's hang together.

    With several comparisons a pair it is the smallest p-value times their number (Bonferroni).
    """
    nth: Counter[str] = Counter()
    tables: dict[int, Counter[FlipDirection]] = defaultdict(Counter)
    for one in behind:
        tables[nth[one.pair]][_way(one)] += flipped(one)
        nth[one.pair] += 1
    each = [mcnemar(t[FlipDirection.HELD_BACK], t[FlipDirection.SERVED]) for t in tables.values()]
    return min([1.0, *(len(each) * p for p in each)])


@dataclass(frozen=True, slots=True)
class RunSide:
    """One router on the set.

    Attributes:
        pairs: complete pairs.
        compared: the comparisons of their variants.
    """

    pairs: Sequence[Pair]
    compared: Sequence[Compared]


def compare_runs(baseline: RunSide, candidate: RunSide) -> Comparison:
    """Compare two runs on the pairs and variants that both have.

    Flips are named by their pair (``pair/reference/variant`` where a pair has more than one
    comparison), single variants ``pair/variant``. What only one of the runs has is in no list,
    but then the sentence says so, and never that the regression is repaired.
    """
    before, after = _flips_of(baseline), _flips_of(candidate)
    both = sorted(before.keys() & after.keys())
    times = Counter(pair for pair, *_ in both)

    def name(key: _Key) -> str:
        return key[0] if times[key[0]] == 1 else "/".join(key)

    lists = (
        tuple(name(key) for key in both if before[key] and not after[key]),
        tuple(name(key) for key in both if before[key] and after[key]),
        tuple(name(key) for key in both if after[key] and not before[key]),
        _served_by_one(baseline, candidate, ready=True),
        _served_by_one(candidate, baseline, ready=False),
    )
    unmatched = len(before.keys() ^ after.keys())
    return Comparison(*lists, sentence=_repair_sentence(lists, unmatched))


def broken(comparison: Comparison) -> Iterator[str]:
    """Counts of what the candidate does worse than the baseline, in the words of the sentence.

    No rate need show it: one reply newly held back and another newly served cancel out.
    """
    newly = comparison.newly_failing, comparison.newly_held_back, comparison.newly_served
    yield from _numbered(newly, _FAILING[1:])


def _flips_of(side: RunSide) -> dict[_Key, bool]:
    """Map each comparison to True if it flipped."""
    return {
        (one.pair, one.reference.item.variant, one.variant.item.variant): flipped(one)
        for one in side.compared
    }


def _served_by_one(served: RunSide, unserved: RunSide, *, ready: bool) -> tuple[str, ...]:
    """Variants that one run serves and the other does not."""
    theirs, ours = _rows_of(served), _rows_of(unserved)
    return tuple(
        "/".join(key)
        for key in sorted(theirs.keys() & ours.keys())
        if theirs[key].item.expected_ready is ready and theirs[key].served and not ours[key].served
    )


def _rows_of(side: RunSide) -> dict[tuple[str, str], Row]:
    return {(pair.id, row.item.variant): row for pair in side.pairs for row in pair.rows}


def _repair_sentence(lists: tuple[tuple[str, ...], ...], unmatched: int) -> str:
    """The comparison in one sentence; at most it says that invented pairs pass now."""
    repaired, *failing = lists
    if not any(failing) and not unmatched:
        return REPAIRED_SENTENCE if repaired else NOTHING_SENTENCE
    said = [*_numbered(failing, _FAILING)]
    if unmatched:
        said.append(f"{unmatched} in one of the runs only")
    return f"Not repaired: {', '.join(said)}."


def _numbered(lists: Sequence[Sequence[str]], words: Sequence[str]) -> Iterator[str]:
    return (f"{len(one)} {word}" for one, word in zip(lists, words, strict=True) if one)
