"""Worlds as exact counts, and all tables that the guard publishes of them in the order they close.

A world has decisions by finest span, atom, route (served, reviewed), label at the first look and at
the final one (none, ready, not ready), and whether they came too late for the finest table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import atom_text
from monitor.core.tables.label_tables import label_tables, unanswered_table
from monitor.core.tables.layout import Layout
from monitor.core.tables.reader import Frame, Measure, Table
from monitor.core.tables.spans import ANCHOR, Edition, Span, SpanKind
from monitor.core.tables.table_rule import Draft, publish
from monitor.core.time import DAY

Ints = npt.NDArray[np.int64]

K = 11
PARTS = ("served", "reviewed")
NONE, READY, NOT_READY = range(3)
LABEL_DELAY, HORIZON = 2 * DAY, 30 * DAY


@dataclass(frozen=True)
class TableWorld:
    """What happened.

    Attributes:
        name: of the world.
        sizes: number of values of each attribute.
        counts: shape (finest spans, atoms, 2 routes, 3 first labels, 3 final labels, 2 late).
        kinds: spans that tables are made of, finest first.
        group_bys: attributes of each, by number.
        labels: whether label tables are made.
        complements: whether there are rows of complements.
        added: an attribute by number, and the finest span from which on it is known.
    """

    name: str
    sizes: tuple[int, ...]
    counts: Ints
    kinds: tuple[SpanKind, ...]
    group_bys: tuple[tuple[int, ...], ...]
    labels: bool = False
    complements: bool = False
    added: tuple[int, int] | None = None

    @property
    def atoms(self) -> list[str]:
        """Texts of the atoms, in the order of their axis."""
        rows = product(*(range(size) for size in self.sizes))
        return [atom_text({f"a{i}": f"v{v}" for i, v in enumerate(row)}) for row in rows]

    def layout(self, span: Span) -> Layout:
        """The layout of the tables of a span: without an attribute that was added later."""
        values = {f"a{i}": [f"v{v}" for v in range(n)] for i, n in enumerate(self.sizes)}
        missing = None
        if self.added is not None and self.first_of(span) < self.added[1]:
            missing = self.added[0]
        group_bys = [g for g in self.group_bys if g and missing not in g]
        names = [tuple(f"a{i}" for i in g) for g in group_bys]
        return self._layouts.setdefault(
            len(names), Layout.for_group_bys(values, names, complements=self.complements)
        )

    @cached_property
    def _layouts(self) -> dict[int, Layout]:
        return {}

    def first_of(self, span: Span) -> int:
        """The first finest span in a span."""
        return (span.start - ANCHOR) // self.kinds[0]

    def inside(self, span: Span) -> slice:
        """The finest spans in a span."""
        first = self.first_of(span)
        return slice(first, first + span.kind // self.kinds[0])

    @property
    def spans(self) -> list[Span]:
        """All spans that lie within the world."""
        whole = len(self.counts) * self.kinds[0]
        return [Span(kind, i) for kind in self.kinds for i in range(whole // kind)]

    def in_rows(self, span: Span, table: Ints) -> Ints:
        """Counts of the rows of a span; the table has shape (finest spans, atoms, ...)."""
        atoms = table[self.inside(span)].sum(axis=0)
        flat = atoms.reshape(len(atoms), -1)
        return np.asarray((self.members(span) @ flat).reshape(-1, *atoms.shape[1:]))

    def members(self, span: Span) -> Ints:
        """Which atoms the rows of a span consist of, shape (rows, atoms)."""
        layout = self.layout(span)
        if id(layout) not in self._members:
            self._members[id(layout)] = layout.count(
                self.atoms, np.eye(len(self.atoms), dtype=np.int64)[:, None]
            )
        return self._members[id(layout)]

    @cached_property
    def _members(self) -> dict[int, Ints]:
        return {}

    def decisions_of(self, span: Span) -> Ints:
        """Decisions that the decision table of a span counts, shape (rows, routes)."""
        late = self.counts if span.kind != self.kinds[0] else self.counts[..., :1]
        return self.in_rows(span, late.sum(axis=(3, 4, 5)))

    def labels_of(self, span: Span, edition: Edition) -> Ints:
        """Labels of a span as an edition counts them, shape (ready or not, rows, routes)."""
        axis = 4 if edition is Edition.FIRST else 3
        states = self.in_rows(span, self.counts.sum(axis=(axis, 5)))
        return np.stack([states[:, :, READY], states[:, :, NOT_READY]])

    def unlabelled_in(self, span: Span, edition: Edition) -> Ints:
        """Decisions without a label as an edition counts them, shape (rows, routes)."""
        axis = 4 if edition is Edition.FIRST else 3
        return self.in_rows(span, self.counts.sum(axis=(axis, 5)))[:, :, NONE]

    def changed_in(self, span: Span) -> Ints:
        """Labels of each row that differ between the editions."""
        same = np.eye(3, dtype=bool)[:, :, None]
        moved = np.where(same, 0, self.counts).sum(axis=(2, 3, 4, 5))
        return self.in_rows(span, moved[:, :, None])[:, 0]


def published(world: TableWorld, k: int = K) -> list[Table]:
    """All tables of a world, each made from what was there when its span closed."""
    tables: list[Table] = []
    for _, _, span, edition in sorted(_closings(world), key=lambda closing: closing[:2]):
        past = [table for table in tables if span.holds(table.span)]
        if edition is None:
            tables += publish([decision_draft(world, span)], past, k)
        else:
            tables += _labels_published(world, span, edition, past, k)
    return tables


def decision_draft(world: TableWorld, span: Span) -> Draft:
    """The decision table of a span, to be made."""
    counts = world.decisions_of(span)
    return Draft(Frame(span, world.layout(span), PARTS), Measure.DECISIONS, counts)


def _closings(world: TableWorld) -> list[tuple[int, int, Span, Edition | None]]:
    found: list[tuple[int, int, Span, Edition | None]] = []
    for span in world.spans:
        found.append((span.end, span.kind, span, None))
        if world.labels:
            waits = {Edition.FIRST: LABEL_DELAY, Edition.FINAL: HORIZON}
            editions = tuple(Edition) if span.kind >= SpanKind.WEEK else (Edition.FIRST,)
            found += [(span.end + waits[e], span.kind, span, e) for e in editions]
    return found


def _labels_published(
    world: TableWorld, span: Span, edition: Edition, past: Sequence[Table], k: int
) -> tuple[Table, ...]:
    counts, frame = world.labels_of(span, edition), Frame(span, world.layout(span), PARTS)
    changed = world.changed_in(span) if edition is Edition.FINAL else None
    labels = label_tables(frame, counts, past, k, changed)
    if span.kind < min(SpanKind.WEEK, world.kinds[-1]):
        return labels
    draft = Draft(frame, Measure.UNANSWERED, world.unlabelled_in(span, edition))
    return (*labels, *unanswered_table(draft, labels, past, k, changed))


def all_pairs(attributes: int) -> tuple[tuple[int, ...], ...]:
    """Every attribute, and every two."""
    return tuple(g for n in (1, 2) for g in combinations(range(attributes), n))


def without_changes(counts: Ints) -> Ints:
    """Counts of a world from (finest spans, atoms, routes, labels): never late, never changed."""
    full = np.zeros((*counts.shape, 3, 2), np.int64)
    for label in range(3):
        full[:, :, :, label, label, 0] = counts[:, :, :, label]
    return full


def decisions_only(counts: Ints) -> Ints:
    """The same from (finest spans, atoms, routes): nothing has a label."""
    labelled = np.zeros((*counts.shape, 3), np.int64)
    labelled[..., NONE] = counts
    return without_changes(labelled)


@dataclass(frozen=True, slots=True)
class Traffic:
    """How a random world is made.

    Attributes:
        daily: decisions a day.
        sizes: values of each attribute.
        days: its length.
        kinds: spans that tables are made of.
        served: usual share of served decisions.
        quiet: whether three of four finest spans have hardly any decision.
        audited: share of served decisions that get a label; 0 for no labels at all.
        missing: share of labels that come after the first look.
        corrected: share of labels that are corrected after it.
        late: share of decisions that come too late for the finest table.
        pairs: whether attributes are crossed.
    """

    daily: int
    sizes: tuple[int, ...]
    days: int = 7
    kinds: tuple[SpanKind, ...] = (SpanKind.DAY, SpanKind.WEEK)
    served: float = 0.8
    quiet: bool = False
    audited: float = 0
    missing: float = 0
    corrected: float = 0
    late: float = 0
    pairs: bool = True


def random_world(name: str, seed: int, traffic: Traffic) -> TableWorld:
    """A world of Poisson traffic; served more or less often by atom."""
    rng = np.random.default_rng(seed)
    shares = np.ones(1)
    for size in traffic.sizes:
        shares = np.multiply.outer(shares, rng.dirichlet(np.ones(size))).ravel()
    spans = traffic.days * DAY // traffic.kinds[0]
    mean = np.broadcast_to(traffic.daily * traffic.days / spans * shares, (spans, len(shares)))
    if traffic.quiet:
        mean = mean * np.array([0.05, 0.1, 3.7, 0.15])[np.arange(spans) % 4][:, None]
    atoms = traffic.served + 0.12 * rng.normal(size=len(shares))
    served = rng.binomial(rng.poisson(mean), np.clip(atoms, 0.03, 0.97))
    total = rng.poisson(mean * (1 - np.clip(atoms, 0.03, 0.97)))
    routes = np.stack([served, total], axis=2)
    return TableWorld(
        name,
        traffic.sizes,
        _labelled(rng, routes, traffic),
        traffic.kinds,
        all_pairs(len(traffic.sizes))
        if traffic.pairs
        else tuple((i,) for i in range(len(traffic.sizes))),
        labels=traffic.audited > 0,
    )


def _labelled(rng: np.random.Generator, routes: Ints, traffic: Traffic) -> Ints:
    """Label the decisions, first and finally, and make some late."""
    asked = rng.binomial(routes, np.array([traffic.audited, 1 if traffic.audited else 0]))
    ready = rng.binomial(asked, np.array([0.8, 0.35]))
    full = np.zeros((*routes.shape, 3, 3, 2), np.int64)
    full[..., NONE, NONE, 0] = routes - asked
    for label, counts in ((READY, ready), (NOT_READY, asked - ready)):
        late = rng.binomial(counts, traffic.missing)
        wrong = rng.binomial(counts - late, traffic.corrected)
        full[..., NONE, label, 0] = late
        full[..., READY + NOT_READY - label, label, 0] = wrong
        full[..., label, label, 0] += counts - late - wrong
    tardy = rng.binomial(full[..., 0], traffic.late)
    return np.stack([full[..., 0] - tardy, tardy], axis=-1)
