"""Comparison of a candidate with the baseline: flips repaired, remaining and new.

Also selects the pairs that hold both a slice and its reference, over which the gaps of a synthetic
set are computed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from monitor.audit.flips import flipped
from monitor.audit.model import Compared, Pair, Row
from monitor.audit.report import REPAIRED_SENTENCE, Comparison
from monitor.audit.slices import GroupSlices, slice_of, slices_within
from monitor.core.contract import COMPLEMENT, Contract
from monitor.core.counts.cells import Route
from monitor.core.counts.coding import Coding

_Key = tuple[str, str, str]

_FAILING = ("still failing", "newly failing", "newly held back", "newly served though not ready")

NOTHING_SENTENCE = "No flips before or after: nothing to repair, and not validated for release."


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
    before, after = _flips(baseline), _flips(candidate)
    both = sorted(before.keys() & after.keys())
    name = _names(both)
    lists = (
        tuple(name(key) for key in both if before[key] and not after[key]),
        tuple(name(key) for key in both if before[key] and after[key]),
        tuple(name(key) for key in both if after[key] and not before[key]),
        _changed(baseline, candidate, ready=True),
        _changed(candidate, baseline, ready=False),
    )
    unmatched = len(before.keys() ^ after.keys())
    return Comparison(*lists, sentence=_sentence(lists, unmatched))


def broken(comparison: Comparison) -> Iterator[str]:
    """Counts of what the candidate does worse than the baseline, in the words of the sentence.

    No rate need show it: one reply newly held back and another newly served cancel out.
    """
    newly = comparison.newly_failing, comparison.newly_held_back, comparison.newly_served
    yield from _counted(newly, _FAILING[1:])


def _flips(side: RunSide) -> dict[_Key, bool]:
    """Map each comparison to True if it flipped."""
    return {
        (one.pair, one.reference.item.variant, one.variant.item.variant): flipped(one)
        for one in side.compared
    }


def _names(keys: Iterable[_Key]) -> Callable[[_Key], str]:
    times = Counter(pair for pair, *_ in keys)
    return lambda key: key[0] if times[key[0]] == 1 else "/".join(key)


def _changed(served: RunSide, unserved: RunSide, *, ready: bool) -> tuple[str, ...]:
    """Variants that one run serves and the other does not."""
    theirs, ours = _rows(served), _rows(unserved)
    return tuple(
        "/".join(key)
        for key in sorted(theirs.keys() & ours.keys())
        if theirs[key].item.expected_ready is ready
        and _served(theirs[key])
        and not _served(ours[key])
    )


def _rows(side: RunSide) -> dict[tuple[str, str], Row]:
    return {(pair.id, row.item.variant): row for pair in side.pairs for row in pair.rows}


def _served(row: Row) -> bool:
    return row.observed.route is Route.AUTO_SERVE


def _sentence(lists: tuple[tuple[str, ...], ...], unmatched: int) -> str:
    """The comparison in one sentence; at most it says that invented pairs pass now."""
    repaired, *failing = lists
    if not any(failing) and not unmatched:
        return REPAIRED_SENTENCE if repaired else NOTHING_SENTENCE
    said = [*_counted(failing, _FAILING)]
    if unmatched:
        said.append(f"{unmatched} in one of the runs only")
    return f"Not repaired: {', '.join(said)}."


def _counted(lists: Sequence[Sequence[str]], words: Sequence[str]) -> Iterator[str]:
    return (f"{len(one)} {word}" for one, word in zip(lists, words, strict=True) if one)


Held = Mapping[frozenset[str], Sequence[Row]]
"""The rows of all pairs that hold variants of the same slices, by those slices."""


def held_slices(pairs: Iterable[Sequence[Row]], table: GroupSlices, coding: Coding) -> Held:
    """Group the rows of pairs by the slices of a group-by that each pair holds variants of."""
    attributes = table.group.attributes
    held: dict[frozenset[str], list[Row]] = defaultdict(list)
    for rows in pairs:
        held[frozenset(slice_of(row, attributes, coding) for row in rows)] += rows
    return held


def same_pairs(held: Held, text: str, reference: str) -> bool:
    """Return True when exactly the same pairs hold a slice and its reference."""
    both = [(text in slices, _has_reference(slices, text, reference)) for slices in held]
    return (True, True) in both and (True, False) not in both and (False, True) not in both


def tables_of_both(
    table: GroupSlices, held: Held, contract: Contract, coding: Coding
) -> dict[str, GroupSlices]:
    """Tables by slice of a synthetic set, each over the pairs that hold its reference too.

    A slice is absent if no pair holds both. Slices that are held by the same pairs share a table.
    """
    found: dict[tuple[frozenset[str], ...], list[str]] = defaultdict(list)
    for row in table.rows:
        both = tuple(slices for slices in held if _holds_both(slices, row.slice, table))
        if both and row.slice != table.group.reference:
            found[both].append(row.slice)
    return {
        text: its
        for both, texts in found.items()
        for its in (_over(both, held, table, contract, coding),)
        for text in texts
    }


def _over(
    both: Sequence[frozenset[str]],
    held: Held,
    table: GroupSlices,
    contract: Contract,
    coding: Coding,
) -> GroupSlices:
    if len(both) == len(held):
        return table
    rows = [row for slices in both for row in held[slices]]
    return slices_within(table, rows, contract, coding)


def _holds_both(slices: frozenset[str], text: str, table: GroupSlices) -> bool:
    return text in slices and _has_reference(slices, text, table.group.reference)


def _has_reference(slices: frozenset[str], text: str, reference: str) -> bool:
    return bool(slices - {text}) if reference == COMPLEMENT else reference in slices
