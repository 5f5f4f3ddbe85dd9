"""The campaign against one world: targets, intervals, and the figures that come of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import numpy.typing as npt
from adversary import differencing
from adversary.model import (
    Cube,
    Fact,
    Model,
    Spans,
    facts_of,
    kept_values,
    row_texts,
    tighter_than_k,
)
from adversary.numbers import STATES, K
from adversary.pages import DECISIONS, Publication, Reader
from adversary.timing import Pause, pauses
from adversary.truth import Truth, TruthLog
from adversary.worlds import DAY

MOST_ROWS = 6
"""Slices of a group-by whose pauses are looked into: of many, one is rarely to blame."""

LONG = 2 * DAY
"""A row that is not left out brings k a day: it is shown in what is as long as this."""

Bools = npt.NDArray[np.bool_]
ROUTE_NAMES = ("auto_serve", "human_review", "blocked")
STATE_NAMES = {
    DECISIONS: ROUTE_NAMES,
    "labelled": ("auto not ready", "auto ready", "review not ready", "review ready"),
}


@dataclass(frozen=True)
class Budget:
    """How much work one world is worth.

    Attributes:
        places: moments around which linear programs are made.
        targets: cells, and as many routes, attacked at each of them.
        cuts: elementary periods in one program at most.
        cells: unknowns in one program at most.
        pauses: hours attacked at which a group-by did not advance.
        whole: narrow intervals a world for which whole numbers are tried.
    """

    places: int = 3
    targets: int = 4
    cuts: int = 24
    cells: int = 4_000
    whole: int = 2
    pauses: int = 4


@dataclass
class Figures:
    """What came of it; figures of several worlds add up.

    Attributes:
        cells: hidden sums of 1 to k - 1 decisions (labels) that were attacked.
        tighter: of these, bounded by fewer than k numbers, all below k.
        exact: of these, by one number.
        single: the same of one route, or of one route's labels of one value.
        single_narrow: of these, bounded by fewer than k numbers, all below k.
        single_exact: of these, by one number.
        narrowest: the narrowest interval of a hidden sum.
        facts: bounds that were read.
        misread: of these, wrong, and left out.
        pauses: hours at which a group-by could have advanced and did not.
        blamed: of these, those of which one slice is proved to be the reason: it has 1 to k - 1.
        leaks: every proof that should not be.
        waits: every slice to blame, and the interval it is in.
    """

    cells: int = 0
    tighter: int = 0
    exact: int = 0
    single: int = 0
    single_narrow: int = 0
    single_exact: int = 0
    narrowest: float = float("inf")
    facts: int = 0
    misread: int = 0
    pauses: int = 0
    blamed: int = 0
    leaks: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        for name in (
            "cells",
            "tighter",
            "exact",
            "single",
            "single_narrow",
            "single_exact",
            "facts",
            "misread",
            "pauses",
            "blamed",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.narrowest = min(self.narrowest, other.narrowest)
        self.leaks += other.leaks
        self.waits += other.waits

    def __str__(self) -> str:
        return (
            f"hidden cells {self.cells}: bounded tighter than k {self.tighter}, exact"
            f" {self.exact}, narrowest {self.narrowest:.2f} | single routes or labels"
            f" {self.single}: narrower than k {self.single_narrow}, exact {self.single_exact}"
            f" | pauses {self.pauses}: one slice to blame {self.blamed}"
            f" | facts {self.facts}, misread {self.misread}"
        )


@dataclass(frozen=True)
class Target:
    """A sum that nobody published: of one slice or atom in one span, all states or one."""

    start: int
    end: int
    inside: Bools
    states: Bools
    name: str
    truth: float

    @property
    def single(self) -> bool:
        return not self.states.all()


class Attack:
    """Everything an attacker can do with the publications of one world."""

    def __init__(
        self, reader: Reader, cube: Cube, log: TruthLog, label: str, *, exact: bool = False
    ) -> None:
        self._publications = reader.publications
        self._kept = kept_values(reader.publications)
        self._cube, self._log, self._label = cube, log, label
        self._exact = exact
        self._rng = np.random.default_rng(len(reader.publications))
        self._truths: dict[tuple[str, int], Truth] = {}
        self._whole = 0
        self.figures = Figures()

    def _truth(self, kind: str, at: int) -> Truth:
        since, truth = self._log.of(kind, self._cube, at)
        return self._truths.setdefault((kind, since), truth)

    def solve(self, kind: str, budget: Budget) -> Figures:
        """Linear programs around random moments."""
        mine = [p for p in self._publications if p.kind == kind and p.shown]
        if mine:
            for _ in range(budget.places):
                self._around(mine, kind, budget)
        return self.figures

    def subtract(self) -> Figures:
        """Whole numbers of successive publications."""
        seen = set()
        for rest in differencing.rests(self._publications, exact=self._exact):
            truth = self._truth(DECISIONS, rest.at)
            inside = self._cube.mask(rest.text, self._kept[rest.group_by, rest.epoch])
            for state in range(3):
                states = np.eye(3, dtype=bool)[state]
                n = truth.sum(rest.start, rest.end, inside, states)
                key = (rest.group_by, rest.text, rest.start, rest.end, state)
                if 0 < n < K and key not in seen:
                    seen.add(key)
                    name = f"{rest.text or 'total'} {ROUTE_NAMES[state]}"
                    target = Target(rest.start, rest.end, inside, states, name, n)
                    self._judge(target, rest.low[state], rest.high[state], "by subtraction")
        return self.figures

    def time(self, budget: Budget) -> Figures:
        """Slices that are proved to be why a group-by did not advance."""
        found = [p for p in pauses(self._publications) if self._rows(p) <= MOST_ROWS]
        mine = [p for p in self._publications if p.kind == DECISIONS and p.shown]
        for i in self._rng.permutation(len(found))[: budget.pauses].tolist():
            self._blame(found[i], mine, budget)
        return self.figures

    def _rows(self, pause: Pause) -> int:
        return len(row_texts(pause.group_by, self._kept.get((pause.group_by, pause.epoch), {})))

    def _waited_for(self, pause: Pause) -> list[str]:
        """Slices that may hold the group-by back: what is never shown in days is left out."""
        texts = row_texts(pause.group_by, self._kept[pause.group_by, pause.epoch])
        ours = [
            p
            for p in self._publications
            if p.kind == DECISIONS and (p.group_by, p.epoch) == (pause.group_by, pause.epoch)
        ]
        if max(p.end - p.start for p in ours) < LONG:
            return texts
        return [text for text in texts if any(p.rows.get(text) for p in ours)]

    def _blame(self, pause: Pause, mine: Sequence[Publication], budget: Budget) -> None:
        """One pause: which slices may have 1 to k - 1, and is it one alone?"""
        inside = [p for p in mine if p.epoch == pause.epoch and p.end >= pause.since]
        focus = min((p.at for p in inside if p.end >= pause.until), default=0)
        truth = self._truth(DECISIONS, focus)
        chosen = self._chosen(inside, focus, budget)
        facts = [f for p in chosen for f in self._facts(p, truth)]
        cuts = {t for f in facts for span in f.spans for t in span}
        if not {pause.since, pause.at} <= cuts:
            return
        model = Model(self._cube, 3, facts)
        kept = self._kept[pause.group_by, pause.epoch]
        everything = np.ones(3, bool)
        self.figures.pauses += 1
        possible = []
        for text in self._waited_for(pause):
            mask = self._cube.mask(text, kept)
            low, high = model.interval(pause.since, pause.at, mask, everything)
            if low < K - 1 + 1e-6 and high > 1 - 1e-6:
                possible.append((text, mask, max(low, 1), min(high, K - 1)))
        if len(possible) == 1:
            text, mask, low, high = possible[0]
            n = truth.sum(pause.since, pause.at, mask, everything)
            if not low <= n <= high:
                self.figures.misread += 1
                return
            self.figures.blamed += 1
            self.figures.waits.append(
                f"{self._label}: {text} from {pause.since} to {pause.at} is {n:.0f}, proved to be"
                f" {low:.0f} to {high:.0f} because nothing else holds its group-by back"
            )
            if high - low < K - 2 - 1e-6:  # more than that there are 1 to k - 1
                target = Target(pause.since, pause.at, mask, everything, text, n)
                self._judge(target, low, high, "because its group-by waits")

    def _around(self, mine: Sequence[Publication], kind: str, budget: Budget) -> None:
        focus = mine[int(self._rng.integers(len(mine)))].at
        truth = self._truth(kind, focus)
        facts = [f for p in self._chosen(mine, focus, budget) for f in self._facts(p, truth)]
        if not facts:
            return
        model = Model(self._cube, len(STATE_NAMES[kind]), facts)
        targets = list(self._targets(model, kind, truth))
        for single in (False, True):
            some = [t for t in targets if t.single is single]
            for i in self._rng.permutation(len(some))[: budget.targets].tolist():
                low, high = model.interval(
                    some[i].start, some[i].end, some[i].inside, some[i].states
                )
                how = "by linear program"
                if single and 1 <= high - low < 5 and self._whole < budget.whole:
                    self._whole += 1
                    whole = model.whole_interval(
                        some[i].start, some[i].end, some[i].inside, some[i].states
                    )
                    low, high, how = max(low, whole[0]), min(high, whole[1]), "in whole numbers"
                self._judge(some[i], low, high, how)

    def _chosen(self, mine: Sequence[Publication], focus: int, budget: Budget) -> list[Publication]:
        """The newest publications of a moment, as many as the budget allows."""
        states = len(STATE_NAMES[mine[0].kind])
        most = min(budget.cuts, budget.cells // (len(self._cube.atoms) * states))
        found: list[Publication] = []
        cuts: set[int] = set()
        for p in sorted((p for p in mine if p.at <= focus), key=lambda p: -p.at):
            more = cuts | {t for span in self._spans(p) for t in span}
            if len(more) <= max(most, 3):
                found.append(p)
                cuts = more
        return found

    def _spans(self, publication: Publication) -> Spans:
        group_by, kind, start, end = publication.span
        return self._log.spans(group_by, kind, start, end, publication.at)

    def _facts(self, publication: Publication, truth: Truth) -> Iterator[Fact]:
        """What a publication says, without what was read wrongly (pooling is partly a guess)."""
        kept = self._kept[publication.group_by, publication.epoch]
        spans = self._spans(publication)
        for fact in facts_of(publication, spans, self._cube, kept, exact=self._exact):
            mask = np.frombuffer(fact.mask, bool)
            mask = ~mask if fact.bound.others else mask
            value = sum(truth.sum(*span, mask, fact.bound.weights) for span in spans)
            self.figures.facts += 1
            if fact.bound.low - 1e-6 <= value <= fact.bound.high + 1e-6:
                yield fact
            else:
                self.figures.misread += 1

    def _targets(self, model: Model, kind: str, truth: Truth) -> Iterator[Target]:
        """Sums below k of slices and atoms, over neighbouring cuts."""
        names = STATE_NAMES[kind]
        masks = {m: np.frombuffer(m, bool) for m in model.masks}
        masks |= {row.tobytes(): row for row in np.eye(len(self._cube.atoms), dtype=bool)}
        everything = np.ones(len(names), bool)
        for i, j in combinations(range(len(model.cuts)), 2):
            if j - i > 3:
                continue
            start, end = model.cuts[i], model.cuts[j]
            for mask in masks.values():
                n = truth.sum(start, end, mask, everything)
                if n <= 0:
                    continue
                name = self._name(mask)
                if n < K:
                    yield Target(start, end, mask, everything, name, n)
                for state in range(len(names)):
                    one = np.eye(len(names), dtype=bool)[state]
                    m = truth.sum(start, end, mask, one)
                    if 0 < m < K:
                        yield Target(start, end, mask, one, f"{name} {names[state]}", m)

    def _name(self, mask: Bools) -> str:
        rows = [",".join(self._cube.atoms[i]) for i in np.flatnonzero(mask)]
        return rows[0] if len(rows) == 1 else f"{len(rows)} atoms from {rows[0]}"

    def _judge(self, target: Target, low: float, high: float, how: str) -> None:
        figures = self.figures
        if not low - 1e-6 <= target.truth <= high + 1e-6:
            figures.misread += 1
            return
        first, last = np.ceil(low - 1e-6), np.floor(high + 1e-6)
        exact, tighter = bool(first == last), tighter_than_k(low, high)
        if target.single:
            figures.single += 1
            figures.single_narrow += tighter
            figures.single_exact += exact
        else:
            figures.cells += 1
            figures.tighter += tighter
            figures.exact += exact
            figures.narrowest = min(figures.narrowest, high - low)
        if exact or (tighter and not target.single):
            figures.leaks.append(
                f"{self._label}: {target.name} from {target.start} to {target.end} is"
                f" {target.truth:.0f}, proved to be {low:.2f} to {high:.2f} {how}"
            )


__all__ = ["STATES", "Attack", "Budget", "Figures"]
