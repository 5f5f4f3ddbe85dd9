"""Worlds as exact counts, and all tables that the guard publishes of them in the order they close.

A world has decisions by finest span, atom, part (route and audit rate), label at the first look and
at the final one (none yet, ready, not ready, never requested), and whether they came too late for
the finest table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Route, atom_text
from monitor.core.tables.closed_span import ClosedSpan
from monitor.core.tables.layout import Layout
from monitor.core.tables.reader import Table
from monitor.core.tables.row_counts import Column, changed_labels
from monitor.core.tables.settings import Part, TableSettings
from monitor.core.tables.spans import ANCHOR, Edition, Span, SpanKind
from monitor.core.time import DAY

Ints = npt.NDArray[np.int64]

K = 11
ALL_LABELLED = (Part(Route.AUTO_SERVE, 1.0), Part(Route.HUMAN_REVIEW, 1.0))
LABELS = NONE, READY, NOT_READY, NEVER = range(4)
COMES = [(NONE, NONE, READY, NOT_READY), (READY, NOT_READY, NOT_READY, READY)]
"""What may become of a label from the first edition to the final one: it comes or is corrected."""
LABEL_DELAY, HORIZON = 2 * DAY, 30 * DAY


@dataclass(frozen=True)
class TableWorld:
    """What happened.

    Attributes:
        name: of the world.
        sizes: number of values of each attribute.
        counts: shape (finest spans, atoms, parts, 4 first labels, 4 final labels, 2 late).
        kinds: spans that tables are made of, finest first.
        group_bys: attributes of each, by number.
        labels: whether label tables are made.
        complements: whether there are rows of complements.
        added: an attribute by number, and the finest span from which on it is known.
        parts: columns of the tables: routes and audit rates.
        editions: of weeks and longer, as far as they are made by now.
    """

    name: str
    sizes: tuple[int, ...]
    counts: Ints
    kinds: tuple[SpanKind, ...]
    group_bys: tuple[tuple[int, ...], ...]
    labels: bool = False
    complements: bool = False
    added: tuple[int, int] | None = None
    parts: tuple[Part, ...] = ALL_LABELLED
    editions: tuple[Edition, ...] = tuple(Edition)

    @property
    def atoms(self) -> list[str]:
        """Texts of the atoms, in the order of their axis."""
        rows = product(*(range(size) for size in self.sizes))
        return [atom_text({f"a{i}": f"v{v}" for i, v in enumerate(row)}) for row in rows]

    def settings(self, span: Span, k: int = K) -> TableSettings:
        """The settings of a span: without an attribute that was added later."""
        values = tuple(
            (f"a{i}", tuple(f"v{v}" for v in range(n))) for i, n in enumerate(self.sizes)
        )
        missing = None
        if self.added is not None and self.first_of(span) < self.added[1]:
            missing = self.added[0]
        group_bys = [g for g in self.group_bys if g and missing not in g]
        names = tuple(tuple(f"a{i}" for i in g) for g in group_bys)
        return TableSettings(values, names, (), k, complements=self.complements, parts=self.parts)

    def layout(self, span: Span) -> Layout:
        """The layout of the tables of a span."""
        return self.settings(span).layout_of(span.kind)

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

    def rows_of(self, span: Span, edition: Edition | None) -> Ints:
        """Counts of a span's rows when an edition (None: its decision table) is made: Column."""
        in_time = self.counts[..., :1] if self._is_finest(span, edition) else self.counts
        states = self.in_rows(span, in_time.sum(axis=5))
        first = edition is not Edition.FINAL
        labels = np.moveaxis(states.sum(axis=3 if first else 2), 2, 0)
        revised = states[:, :, READY, NOT_READY] + states[:, :, NOT_READY, READY]
        columns = (
            labels.sum(axis=0),
            *labels[:NEVER],
            np.zeros_like(revised) if first else revised,
        )
        return np.stack(columns)

    def _is_finest(self, span: Span, edition: Edition | None) -> bool:
        return edition is None and span.kind == self.kinds[0]

    def changed_in(self, span: Span) -> Ints:
        """Labels of each row that certainly differ between the editions."""
        first, final = (self.rows_of(span, edition) for edition in Edition)
        return changed_labels(first[Column.READY :], final[Column.READY :])


def published(world: TableWorld, k: int = K) -> list[Table]:
    """All tables of a world, each made from what was there when its span closed."""
    tables: list[Table] = []
    for _, _, span, edition in sorted(_closings(world), key=lambda closing: closing[:2]):
        past = [table for table in tables if span.holds(table.span)]
        closed = closed_span(world, span, edition, past, k)
        if edition is None:
            tables += closed.decision_table()
        elif edition is Edition.FIRST:
            tables += closed.first_edition()
        else:
            before = closed_span(world, span, Edition.FIRST, (), k)
            tables += closed.final_edition(before.label_counts)
    return tables


def closed_span(
    world: TableWorld, span: Span, edition: Edition | None, past: Sequence[Table], k: int = K
) -> ClosedSpan:
    """What the tables of a span are made from; edition None for its decision table."""
    return ClosedSpan(span, world.settings(span, k), world.rows_of(span, edition), past)


def _closings(world: TableWorld) -> list[tuple[int, int, Span, Edition | None]]:
    closings: list[tuple[int, int, Span, Edition | None]] = []
    for span in world.spans:
        closings.append((span.end, span.kind, span, None))
        if world.labels:
            waits = {Edition.FIRST: LABEL_DELAY, Edition.FINAL: HORIZON}
            editions = world.editions if span.kind >= SpanKind.WEEK else (Edition.FIRST,)
            closings += [(span.end + waits[e], span.kind, span, e) for e in editions]
    return closings


def all_pairs(attributes: int) -> tuple[tuple[int, ...], ...]:
    """Every attribute, and every two."""
    return tuple(g for n in (1, 2) for g in combinations(range(attributes), n))


def without_changes(counts: Ints) -> Ints:
    """Counts of a world from (finest spans, atoms, parts, labels): never late, never changed."""
    full = np.zeros((*counts.shape[:3], len(LABELS), len(LABELS), 2), np.int64)
    for label in range(counts.shape[3]):
        full[:, :, :, label, label, 0] = counts[:, :, :, label]
    return full


def decisions_only(counts: Ints) -> Ints:
    """The same from (finest spans, atoms, parts): nothing has a label."""
    labelled = np.zeros((*counts.shape, len(LABELS)), np.int64)
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
        audits: audit rates of served decisions, each of as many of them; none: no labels at all.
        blocked: share of reviewed decisions that are blocked instead; above 0 they have a column.
        missing: share of labels that come after the first look.
        lost: share of labels that never come.
        one_missing: whether just one label never comes.
        corrected: share of labels that are corrected after the first look.
        late: share of decisions that come too late for the finest table.
        pairs: whether attributes are crossed.
    """

    daily: int
    sizes: tuple[int, ...]
    days: int = 7
    kinds: tuple[SpanKind, ...] = (SpanKind.DAY, SpanKind.WEEK)
    served: float = 0.8
    quiet: bool = False
    audits: tuple[float, ...] = ()
    blocked: float = 0
    missing: float = 0
    lost: float = 0
    one_missing: bool = False
    corrected: float = 0
    late: float = 0
    pairs: bool = True

    @property
    def parts(self) -> tuple[Part, ...]:
        """Columns of the tables."""
        served = tuple(Part(Route.AUTO_SERVE, rate) for rate in self.audits or (1.0,))
        blocked = (Part(Route.BLOCKED_BY_EVIDENCE),) if self.blocked else ()
        return (*served, Part(Route.HUMAN_REVIEW, 1.0), *blocked)


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
    served = np.clip(traffic.served + 0.12 * rng.normal(size=len(shares)), 0.03, 0.97)
    strata = len(traffic.audits or (1.0,))
    routes = [served / strata] * strata + [(1 - served) * (1 - traffic.blocked)]
    routes += [(1 - served) * traffic.blocked] if traffic.blocked else []
    counts = rng.poisson(mean[:, :, None] * np.stack(routes, axis=1))
    singles = tuple((i,) for i in range(len(traffic.sizes)))
    return TableWorld(
        name,
        traffic.sizes,
        _labelled(rng, counts, traffic),
        traffic.kinds,
        all_pairs(len(traffic.sizes)) if traffic.pairs else singles,
        labels=bool(traffic.audits),
        parts=traffic.parts,
    )


def _labelled(rng: np.random.Generator, counts: Ints, traffic: Traffic) -> Ints:
    """Label the decisions, first and finally, and make some late."""
    if not traffic.audits:
        full = decisions_only(counts)
    else:
        rates = np.array([part.audit_rate or 0 for part in traffic.parts])
        asked = rng.binomial(counts, rates)
        come = rng.binomial(asked, 1 - traffic.lost)
        if traffic.one_missing:
            come.flat[int(np.argmax(come))] -= 1
        is_served = np.array([part.route is Route.AUTO_SERVE for part in traffic.parts])
        ready = rng.binomial(come, np.where(is_served, 0.8, 0.35))
        full = without_changes(
            np.stack([asked - come, ready, come - ready, counts - asked], axis=3)
        )
        _change_labels(rng, full[..., 0], traffic)
    tardy = rng.binomial(full[..., 0], traffic.late)
    return np.stack([full[..., 0] - tardy, tardy], axis=-1)


def _change_labels(rng: np.random.Generator, full: Ints, traffic: Traffic) -> None:
    """Let some labels come after the first look, and others be corrected after it, in place."""
    for label, other in ((READY, NOT_READY), (NOT_READY, READY)):
        late = rng.binomial(full[..., label, label], traffic.missing)
        full[..., label, label] -= late
        full[..., NONE, label] += late
        wrong = rng.binomial(full[..., label, label], traffic.corrected)
        full[..., label, label] -= wrong
        full[..., other, label] += wrong
