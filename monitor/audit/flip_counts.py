"""Flips of matched pairs: listed, counted by axis, tested for one direction, compared between runs.

Only comparisons whose variants both passed the evidence gate are tested. Two variants that the
gate stopped are no flip as long as they go the same way.
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
"""Axis, and True if the replies are expected to be ready."""


def shown_flips(compared: Sequence[Compared]) -> tuple[ShownFlip, ...]:
    """Return the flips among the comparisons, with their stage and cause, in the order given."""
    return tuple(_shown_flip(comparison) for comparison in compared if flipped(comparison))


def flipped(compared: Compared) -> bool:
    """Return True if the two variants of a comparison took different routes."""
    return is_flip(compared.reference.observed, compared.variant.observed)


def behind_gate(compared: Compared) -> bool:
    """Return True if both variants of a comparison passed the evidence gate."""
    return compared.reference.observed.evidence_passed and compared.variant.observed.evidence_passed


def stage_name(stage: FlipStage, cause: FlipCause | None) -> str:
    """Join stage and cause with a slash, as in the keys of :attr:`FlipCounts.stages`.

    Example:
        >>> stage_name(FlipStage.JUDGE_OR_ROUTE, FlipCause.THRESHOLD)
        'judge_or_route/threshold'
    """
    return str(stage) if cause is None else f"{stage}/{cause}"


def flip_counts(
    compared: Sequence[Compared], *, k: int, exact: bool, declared: Collection[str] = ()
) -> tuple[FlipCounts, ...]:
    """Return flip counts of each axis and expected outcome, sorted, ready replies first.

    Reviewed data of real people shows nothing below k. It counts pairs, not comparisons: a pair
    with ten variants is still one request. Every number is a lower bound: the lower edge of its
    band, and at least k below the number it is a part of, so that the rest stays hidden too. 0
    means fewer than k, or too close to all. Declared axes always have a line; other axes have one
    only if they have a number, since an empty line would reveal that a few pairs exist.

    Args:
        compared: comparisons.
        k: smallest cell that may be shown.
        exact: the set is synthetic, and numbers are shown as they are.
        declared: attributes that the contract compares.
    """
    by_kind: dict[_Kind, list[Compared]] = defaultdict(list)
    for comparison in compared:
        by_kind["+".join(comparison.by), bool(comparison.reference.item.expected_ready)].append(
            comparison
        )
    precision = Precision(k, exact)
    kinds_shown = (
        by_kind.keys() if exact else by_kind.keys() | set(product(declared, (True, False)))
    )
    ordered = sorted(kinds_shown, key=lambda kind: (kind[0], not kind[1]))
    lines = (_kind_counts(kind, by_kind[kind], precision) for kind in ordered)
    return tuple(line for line in lines if line.by in declared or not line.withheld)


def mcnemar(one_way: int, other_way: int) -> float:
    """Compute McNemar's exact two-sided p-value from both discordant counts; 1 if both are 0.

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
    # Terms of the lower tail shrink towards 0: after about sqrt(n) terms the rest is negligible.
    term = tail = 1.0
    for i in range(fewer, 0, -1):
        term *= i / (n - i + 1)
        tail += term
        if term < _NEGLIGIBLE:
            break
    return min(1.0, 2 * tail * (comb(n, fewer) / (1 << n)))


def _shown_flip(comparison: Compared) -> ShownFlip:
    """Return a flip as the report shows it: both outcomes, direction, stage and cause."""
    reference, variant = comparison.reference.observed, comparison.variant.observed
    return ShownFlip(
        pair=comparison.pair,
        by="+".join(comparison.by),
        expected_ready=bool(comparison.reference.item.expected_ready),
        reference=_outcome(comparison.reference, comparison.by),
        variant=_outcome(comparison.variant, comparison.by),
        direction=direction(reference, variant),
        stage=stage(reference, variant),
        cause=_cause(comparison),
    )


def _outcome(row: Row, by: tuple[str, ...]) -> VariantOutcome:
    """Return what the router decided for one variant, and the values that vary."""
    observed = row.observed
    return VariantOutcome(
        variant=row.item.variant,
        values=values(row, by),
        route=observed.route.name.lower(),
        score=observed.score,
        threshold=observed.threshold,
        evidence_passed=observed.evidence_passed,
    )


def _cause(comparison: Compared) -> FlipCause | None:
    """Return the cause of a flip; None if the pair diverged at the evidence gate."""
    reference, variant = comparison.reference.observed, comparison.variant.observed
    if stage(reference, variant) is FlipStage.EVIDENCE_GATE:
        return None
    return cause(reference, variant)


def _kind_counts(kind: _Kind, compared: Sequence[Compared], precision: Precision) -> FlipCounts:
    """Count pairs and flips of one axis and expected label; each number is shown or hidden."""
    behind = [comparison for comparison in compared if behind_gate(comparison)]
    flips = [comparison for comparison in compared if flipped(comparison)]
    flips_behind = [comparison for comparison in flips if behind_gate(comparison)]
    compared_behind = _shown_number(behind, compared, precision)
    stopped_flips = [comparison for comparison in flips if not behind_gate(comparison)]
    at_gate = _shown_number(stopped_flips, flips, precision)
    withheld = not (compared_behind or at_gate or precision.exact)
    return FlipCounts(
        by=kind[0],
        expected_ready=kind[1],
        compared=compared_behind,
        flips=_shown_number(flips_behind, behind, precision),
        directions=_direction_counts(flips_behind, precision),
        stages=_stage_counts(flips, precision),
        at_gate=at_gate,
        p_value=_p_value(behind) if precision.exact else None,
        withheld=withheld,
    )


def _shown_number(part: Sequence[Compared], whole: Sequence[Compared], precision: Precision) -> int:
    """Return the number of comparisons in ``part``; for real people, a guarded number of pairs.

    Neither the part nor the rest is then below k.
    """
    if precision.exact:
        return len(part)
    pairs, all_pairs = (
        len({comparison.pair for comparison in part}),
        len({comparison.pair for comparison in whole}),
    )
    return int(precision.support(min(pairs, all_pairs - precision.k)))


def _flip_direction(flip: Compared) -> FlipDirection:
    return direction(flip.reference.observed, flip.variant.observed)


def _direction_counts(flips: Sequence[Compared], precision: Precision) -> dict[FlipDirection, int]:
    """Count flips by direction; each number is shown or hidden."""
    return {
        way: _shown_number(
            [flip for flip in flips if _flip_direction(flip) is way], flips, precision
        )
        for way in FlipDirection
    }


def _stage_counts(flips: Sequence[Compared], precision: Precision) -> dict[str, int]:
    """Count flips by stage and cause, in the form shown; zeros are left out."""
    by_stage: dict[str, list[Compared]] = defaultdict(list)
    for flip in flips:
        flip_stage = stage(flip.reference.observed, flip.variant.observed)
        by_stage[stage_name(flip_stage, _cause(flip))].append(flip)
    numbers = {name: _shown_number(by_stage[name], flips, precision) for name in sorted(by_stage)}
    return {name: number for name, number in numbers.items() if number}


def _p_value(behind: Sequence[Compared]) -> float:
    """Compute McNemar's p-value over comparisons behind the gate, one comparison per pair.

    Several comparisons per pair: the smallest p-value times their number (Bonferroni).
    """
    nth: Counter[str] = Counter()
    tables: dict[int, Counter[FlipDirection]] = defaultdict(Counter)
    for comparison in behind:
        tables[nth[comparison.pair]][_flip_direction(comparison)] += flipped(comparison)
        nth[comparison.pair] += 1
    p_values = [
        mcnemar(t[FlipDirection.HELD_BACK], t[FlipDirection.SERVED]) for t in tables.values()
    ]
    return min([1.0, *(len(p_values) * p for p in p_values)])


@dataclass(frozen=True, slots=True)
class RunSide:
    """Pairs of one router's run with their comparisons, for comparing two runs.

    Attributes:
        pairs: complete pairs.
        compared: comparisons of their variants.
    """

    pairs: Sequence[Pair]
    compared: Sequence[Compared]


def compare_runs(baseline: RunSide, candidate: RunSide) -> Comparison:
    """Return names of repaired, remaining and new failures on pairs that both runs have.

    Flips are named by their pair (``pair/reference/variant`` where a pair has more than one
    comparison), single variants ``pair/variant``. Pairs and variants of one run only are in no
    list; the sentence then says so, and never says that the regression is repaired.
    """
    before, after = _flips_of(baseline), _flips_of(candidate)
    shared = sorted(before.keys() & after.keys())
    times = Counter(pair for pair, *_ in shared)

    def name(key: _Key) -> str:
        return key[0] if times[key[0]] == 1 else "/".join(key)

    lists = (
        tuple(name(key) for key in shared if before[key] and not after[key]),
        tuple(name(key) for key in shared if before[key] and after[key]),
        tuple(name(key) for key in shared if after[key] and not before[key]),
        _served_by_first_only(baseline, candidate, ready=True),
        _served_by_first_only(candidate, baseline, ready=False),
    )
    unmatched = len(before.keys() ^ after.keys())
    return Comparison(*lists, sentence=_repair_sentence(lists, unmatched))


def broken(comparison: Comparison) -> Iterator[str]:
    """Yield counts of the candidate's new failures as phrases, such as "2 newly failing".

    Rates may not show them: one reply newly held back and another newly served cancel out.
    """
    new_failures = comparison.newly_failing, comparison.newly_held_back, comparison.newly_served
    yield from _counted_phrases(new_failures, _FAILING[1:])


def _flips_of(side: RunSide) -> dict[_Key, bool]:
    """Map each comparison's pair, reference and variant to True if it flipped."""
    return {
        (
            comparison.pair,
            comparison.reference.item.variant,
            comparison.variant.item.variant,
        ): flipped(comparison)
        for comparison in side.compared
    }


def _served_by_first_only(served: RunSide, unserved: RunSide, *, ready: bool) -> tuple[str, ...]:
    """Return the names ``pair/variant`` of variants that only the first run serves."""
    served_rows, unserved_rows = _rows_of(served), _rows_of(unserved)
    return tuple(
        "/".join(key)
        for key in sorted(served_rows.keys() & unserved_rows.keys())
        if served_rows[key].item.expected_ready is ready
        and served_rows[key].served
        and not unserved_rows[key].served
    )


def _rows_of(side: RunSide) -> dict[tuple[str, str], Row]:
    return {(pair.id, row.item.variant): row for pair in side.pairs for row in pair.rows}


def _repair_sentence(lists: tuple[tuple[str, ...], ...], unmatched: int) -> str:
    """Return a sentence that says whether the flips are repaired, or counts what fails."""
    repaired, *failing = lists
    if not any(failing) and not unmatched:
        return REPAIRED_SENTENCE if repaired else NOTHING_SENTENCE
    failures = [*_counted_phrases(failing, _FAILING)]
    if unmatched:
        failures.append(f"{unmatched} in one of the runs only")
    return f"Not repaired: {', '.join(failures)}."


def _counted_phrases(lists: Sequence[Sequence[str]], words: Sequence[str]) -> Iterator[str]:
    return (f"{len(names)} {word}" for names, word in zip(lists, words, strict=True) if names)
