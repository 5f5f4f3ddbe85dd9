"""Families: whose numbers are published together, and which of them can be subtracted.

A family is one group-by of one contract (its total is the one without attributes). Rows of two
families can be added up to the same slices wherever they share attributes, so what one publishes
can be subtracted from what the other does. Families are therefore put in an order in which every
family comes after those it refines; :mod:`monitor.core.privacy.release_blocks` lets it advance only
where they do.

Two families that overlap without refining each other (``channel+language``, ``language+region``)
meet in a third (``language``). Where no contract compares by that one it is added, unpublished:
its cells are what subtraction would find.

Example:
    >>> a, b = SliceFamily("c", ("channel", "language")), SliceFamily("c", ("language", "region"))
    >>> [family.name for family in ordered([SliceFamily("c"), a, b])]
    ['c/', '/language', 'c/channel+language', 'c/language+region']
    >>> language, _, last = ordered([SliceFamily("c"), a, b])[1:]
    >>> language.published, last.parents
    (False, ('c/', '/language'))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from monitor.core.contract import Contract


@dataclass(frozen=True, slots=True)
class SliceFamily:
    """The slices of one group-by within one use case.

    Attributes:
        contract: name of the contract; empty where the family belongs to none.
        attributes: what its slices are made of, sorted; empty for the total.
        where: attribute values that decide which decisions belong to the use case.
        k: smallest cell that may be shown; 1 hides nothing (declared test conditions).
        published: False where it only holds the others together.
        parents: names of the families it refines; they come before it.
    """

    contract: str
    attributes: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] = ()
    k: int = 11
    published: bool = True
    parents: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Unique: the contract and the attributes."""
        return f"{self.contract}/{'+'.join(self.attributes)}"

    @property
    def names(self) -> frozenset[str]:
        """All attributes whose values decide who is in a row."""
        return frozenset(self.attributes) | {name for name, _ in self.where}

    @property
    def compared(self) -> tuple[str, ...]:
        """The attributes by which its rows differ: the others have one value in its use case."""
        fixed = {name for name, _ in self.where}
        return tuple(name for name in self.attributes if name not in fixed)

    def refines(self, other: SliceFamily) -> bool:
        """Return True when rows of this family add up to (parts of) rows of the other."""
        return other.names <= self.names and not self.apart(other)

    def apart(self, other: SliceFamily) -> bool:
        """Return True when no decision belongs to both use cases."""
        here = dict(self.where)
        return any(here.get(name, value) != value for name, value in other.where)


def attributes_in(name: str) -> tuple[str, ...]:
    """The attributes in the name of a family."""
    names = name.rpartition("/")[2]
    return tuple(names.split("+")) if names else ()


def of_contracts(contracts: Iterable[Contract]) -> tuple[SliceFamily, ...]:
    """All families of these contracts, those that are refined first."""
    return ordered(
        [
            SliceFamily(contract.name, attributes, contract.where, contract.k)
            for contract in contracts
            for attributes in ((), *(group.attributes for group in contract.group_bys))
        ]
    )


def ordered(families: Sequence[SliceFamily]) -> tuple[SliceFamily, ...]:
    """The families and those that hold them together, each after what it refines.

    Families of k = 1 stand alone: they hide nothing, so nothing can be found by them.
    """
    guarded = [family for family in families if family.k > 1]
    linked = sorted([*guarded, *_meeting(guarded)], key=lambda family: len(family.names))
    return (
        *(family for family in families if family.k == 1),
        *(
            replace(family, parents=tuple(f.name for f in linked[:i] if family.refines(f)))
            for i, family in enumerate(linked)
        ),
    )


def without_rings(families: Iterable[SliceFamily]) -> frozenset[str]:
    """Names of families that form no ring: two intersections of them meet in one attribute at most.

    No walk from attribute to attribute by their intersections comes back to where it began but by
    the way it went. Then the count of any combination of values may be as large as the smallest of
    the sums that it is in, one of each table (Dobra and Fienberg 2000: bounds of decomposable
    models). In a ring it may have to be smaller: three tables of two attributes each can fix every
    count of all three. The first of the families are taken, and then each that closes no ring with
    those before it, whatever they count: so it does not tell what they count.

    Example:
        >>> pairs = [SliceFamily("c", tuple(names)) for names in ("ab", "bc", "ac", "cd")]
        >>> sorted(without_rings(pairs))
        ['c/a+b', 'c/b+c', 'c/c+d']
    """
    found: list[SliceFamily] = []
    for family in families:
        others = [one for one in found if not one.apart(family)]
        if not _closes_ring(family, others):
            found.append(family)
    return frozenset(family.name for family in found)


def _closes_ring(family: SliceFamily, others: Iterable[SliceFamily]) -> bool:
    """Return True when two of its attributes are already linked by others of several attributes."""
    linked: list[set[str]] = []
    for other in others:
        if len(names := {*other.compared}) > 1:
            met = [some for some in linked if some & names]
            linked = [some for some in linked if some not in met]
            linked.append(names.union(*met))
    return any(len(some & {*family.compared}) > 1 for some in linked)


def _meeting(families: Sequence[SliceFamily]) -> list[SliceFamily]:
    """Unpublished families for all attributes in which others meet."""
    k = max((family.k for family in families), default=1)
    found: dict[frozenset[str], SliceFamily] = {}
    before = None
    while before != found:
        before = dict(found)
        for one, other in combinations([*families, *before.values()], 2):
            names = one.names & other.names
            both = {pair for pair in {*one.where, *other.where} if pair[0] in names}
            if one.apart(other) or _covered(names, both, families):
                continue
            if names in found:
                both &= {*found[names].where}
            where = tuple(sorted(both))
            found[names] = SliceFamily("", tuple(sorted(names)), where, k, published=False)
    return [found[names] for names in sorted(found, key=sorted)]


def _covered(
    names: frozenset[str], where: set[tuple[str, str]], families: Sequence[SliceFamily]
) -> bool:
    """Return True when a family already has a row for every combination of these values."""
    return any(family.names == names and {*family.where} <= where for family in families)
