"""Search for causes: the fewest slices whose different treatment explains the differences of atoms.

The harm in atom i is modelled as binomial with

    logit P(harm | i) = baseline + sum of the effects of the causes that i lies in

and a cause is a slice. The search maximises the log-likelihood minus the cost of each cause: it
adds one cause after the other, and exchanges each for others while that is better. A slice whose
children are all alike costs one effect, its children one each; if one child alone accounts for the
difference, its siblings contradict the parent. So the smallest slice that explains is the
likeliest, and no threshold on the share of an excess is needed.

Atoms always differ a little. The likelihood includes the contract's tolerance: trials are
discounted as if atoms' rates had a standard deviation of a third of the limit, for any number of
decisions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.counts.rollup import slice_text
from monitor.core.intervals import Floats, divide
from monitor.core.rates.gaps import Bools
from monitor.detection.diagnosis.atom_rates import AtomTrials

ENTRY = 3.0
"""Nats that a further cause must add, beyond the choice among slices of its depth."""

GOOD = 3.0
"""Additional nats for a slice that is better off: of two differing slices, the contract is about
the one that is worse off."""

ALIKE = 1 / 3
"""Tolerated standard deviation of atoms' rates, as a part of the limit. With a half, a gap of .23
in one atom would be worth at most 7 nats for any number of decisions: less than the cost of
choosing it among many slices. With an eighth, tolerated differences become causes next to the true
ones (measured: one in 60 worlds with two causes)."""

MOST_CAUSES = 6

EXCHANGED_FOR = 2
"""Causes that one cause may be exchanged for: two of three children look like their parent."""

_TRIED = 12  # candidates with the best score test, for which the likelihood is computed
_EFFECT_PRECISION = 0.25  # of the effects: keeps effects finite that no trial limits
_LARGEST_STEP = 2.0
_STEPS = 30
_ENOUGH = 1e-9
_SLACK = 1e-7


@dataclass(frozen=True, slots=True)
class Candidates:
    """The slices that can be a cause of harm, as rows, with the cost of choosing each.

    Attributes:
        group_bys: name of each slice's group-by.
        slices: slice texts.
        of_atom: row of every atom in each group-by, shape (G, A).
        cost: cost of choosing each slice, in nats, shape (C,).
    """

    group_bys: tuple[str, ...]
    slices: tuple[str, ...]
    of_atom: Int64s
    cost: Floats

    @classmethod
    def for_group_bys(
        cls, atoms: Sequence[str], group_bys: Sequence[tuple[str, ...]]
    ) -> Candidates:
        """Return every slice of the group-bys that contains one of the atoms."""
        names: list[tuple[str, str]] = []
        rows = []
        for attributes in group_bys:
            texts = [slice_text(atom, attributes) for atom in atoms]
            distinct_texts = sorted(set(texts))
            row_of = {text: len(names) + position for position, text in enumerate(distinct_texts)}
            names += [("+".join(attributes), text) for text in distinct_texts]
            rows.append([row_of[text] for text in texts])
        depths = np.array([name.count("+") for name, _ in names])
        alike = np.bincount(depths)[depths] if names else np.zeros(0)
        return cls(
            tuple(name for name, _ in names),
            tuple(text for _, text in names),
            np.array(rows, np.int64).reshape(len(group_bys), len(atoms)),
            np.log(alike),
        )

    def within(self, group_by: str) -> list[int]:
        """Return the rows of the candidates in one group-by."""
        return [row for row, name in enumerate(self.group_bys) if name == group_by]

    def atoms(self, row: int) -> Bools:
        """Return the mask of the atoms that lie in a candidate, shape (A,)."""
        inside: Bools = (self.of_atom == row).any(axis=0)
        return inside

    def sums(self, values: Floats) -> Floats:
        """Return the sum of values (A,) over the atoms of each candidate, shape (C,)."""
        values_of_atoms = np.broadcast_to(values, self.of_atom.shape).ravel()
        total: Floats = np.bincount(self.of_atom.ravel(), values_of_atoms, len(self.slices)).astype(
            np.float64
        )
        return total


@dataclass(frozen=True, slots=True)
class AtomHarm:
    """Discounted trials of every atom, and the harmed ones among them.

    Attributes:
        trials: discounted trials, shape (A,).
        harmed: harmed trials among them.
    """

    trials: Floats
    harmed: Floats

    @classmethod
    def from_trials(cls, trials: AtomTrials, limit: float) -> AtomHarm:
        """Return trials discounted so that tolerated differences of atoms have little weight.

        Args:
            trials: trials, shape (A,).
            limit: limit of the contract on a gap; atoms' rates may have a third of it as their sd.
        """
        total = trials.total.sum()
        usual = (trials.harmed.sum() + 0.5) / (total + 1)
        alike = (ALIKE * limit) ** 2 / (usual * (1 - usual))
        counted = trials.support / (1 + alike * trials.support)
        return cls(counted, counted * np.nan_to_num(trials.rate))


@dataclass(frozen=True, slots=True)
class Fit:
    """The likeliest effects of a set of causes, with the value that the search compares.

    Attributes:
        causes: rows of the candidates.
        effects: log odds ratio of harm in each, above 0 where its slice is worse off.
        base: log odds of harm outside all causes.
        value: log-likelihood minus the costs.
        design: membership of atoms in each cause, shape (m, A).
    """

    causes: tuple[int, ...]
    effects: Floats
    base: float
    value: float
    design: Floats

    @property
    def log_odds(self) -> Floats:
        """Return the modelled log odds of harm in each atom, shape (A,)."""
        odds: Floats = self.base + self.effects @ self.design
        return odds

    def harm_of(self, cause: int) -> Floats:
        """Return the rate of harm that a cause (by place) adds in each atom; 0 outside it."""
        without = self.log_odds - self.effects[cause] * self.design[cause]
        harm: Floats = expit(self.log_odds) - expit(without)
        return harm


class Search:
    """Search for the causes of one metric's gaps, from harm by atom.

    Args:
        evidence: harm by atom.
        candidates: the possible causes.
        limit: limit of the contract on a gap.

    Attributes:
        least: smallest addition to the rate of harm that makes a cause: half of the limit.
    """

    def __init__(self, evidence: AtomHarm, candidates: Candidates, limit: float) -> None:
        self._evidence = evidence
        self._candidates = candidates
        self.least = limit / 2

    def run(self) -> Fit:
        """Return the best set of causes that the search reaches; empty if none is worth a cost."""
        fit = self.fit(())
        while len(fit.causes) < MOST_CAUSES:
            grown = self._with_next_cause(fit)
            if grown is None or not _better(grown, fit):
                break
            fit = self._after_exchanges(grown)
        return fit

    def fit(self, causes: tuple[int, ...]) -> Fit:
        """Return the likeliest effects of these causes, given as rows of the candidates."""
        design = np.array([self._candidates.atoms(row) for row in causes], np.float64)
        design = design.reshape(len(causes), len(self._evidence.trials))
        columns = np.concatenate([np.ones((1, design.shape[1])), design])
        effects, likelihood = _fit_logistic(columns, self._evidence)
        cost = self._candidates.cost[list(causes)].sum() + ENTRY * len(causes)
        cost += GOOD * np.count_nonzero(effects[1:] < 0)
        return Fit(causes, effects[1:], float(effects[0]), likelihood - cost, design)

    def _after_exchanges(self, fit: Fit) -> Fit:
        """Return the fit after dropping or exchanging causes until nothing is better."""
        while True:
            better_fits = (
                neighbour for neighbour in self._neighbours(fit) if _better(neighbour, fit)
            )
            better_fit = next(better_fits, None)
            if better_fit is None:
                return fit
            fit = better_fit

    def _neighbours(self, fit: Fit) -> Iterator[Fit]:
        """Yield fits without one cause, then with up to EXCHANGED_FOR others in its place."""
        for cause in fit.causes:
            neighbour: Fit | None = self.fit(tuple(row for row in fit.causes if row != cause))
            for _ in range(EXCHANGED_FOR + 1):
                if neighbour is None:
                    break
                yield neighbour
                neighbour = self._with_next_cause(neighbour, cause)

    def _with_next_cause(self, fit: Fit, excluded: int | None = None) -> Fit | None:
        """Return the fit with the best further cause; None if no effect is large enough."""
        fits = [self.fit((*fit.causes, row)) for row in self._promising(fit) if row != excluded]
        large = [grown for grown in fits if self._is_large(grown)]
        return max(large, key=lambda grown: grown.value, default=None)

    def _is_large(self, fit: Fit) -> bool:
        """Return True when the last cause adds at least ``least`` to its atoms' rate of harm."""
        inside = fit.design[-1] > 0
        trials = self._evidence.trials[inside]
        added = divide(trials @ fit.harm_of(len(fit.causes) - 1)[inside], trials.sum(), empty=0)
        return bool(abs(added) >= self.least)

    def _promising(self, fit: Fit) -> list[int]:
        """Return the rows with the best score test minus cost, best first, at most twelve."""
        odds = expit(fit.log_odds)
        score = self._candidates.sums(self._evidence.harmed - self._evidence.trials * odds)
        weight = self._evidence.trials * odds * (1 - odds)
        columns = np.concatenate([np.ones((1, len(odds))), fit.design])
        information = (columns * weight) @ columns.T + _precision(len(columns))
        shared = np.stack([self._candidates.sums(weight * column) for column in columns])
        left = self._candidates.sums(weight) - (shared * np.linalg.solve(information, shared)).sum(
            axis=0
        )
        left = np.maximum(left, 0) + _EFFECT_PRECISION
        gain = score**2 / (2 * left) - self._candidates.cost - GOOD * (score < 0)
        gain[list(fit.causes)] = -math.inf
        order = np.argsort(-gain, kind="stable")[:_TRIED]
        return [int(row) for row in order if score[row] ** 2 > _SLACK and gain[row] > -math.inf]


def _better(fit: Fit, former: Fit) -> bool:
    return fit.value > former.value + _SLACK


def expit(odds: Floats) -> Floats:
    """Return the probabilities that correspond to log odds, elementwise."""
    return 1 / (1 + np.exp(-odds))


def _precision(columns: int) -> Floats:
    precision = np.full(columns, _EFFECT_PRECISION)
    precision[0] = _ENOUGH
    return np.diag(precision)


def _fit_logistic(columns: Floats, evidence: AtomHarm) -> tuple[Floats, float]:
    """Return effects of columns (m + 1, A), fitted by Newton's method, and log-likelihood."""
    usual = (evidence.harmed.sum() + 0.5) / (evidence.trials.sum() + 1)
    effects = np.zeros(len(columns))
    effects[0] = math.log(usual / (1 - usual))
    precision = _precision(len(columns))
    for _ in range(_STEPS):
        odds = expit(effects @ columns)
        slope = columns @ (evidence.harmed - evidence.trials * odds) - precision @ effects
        weight = evidence.trials * odds * (1 - odds)
        step = np.linalg.solve((columns * weight) @ columns.T + precision, slope)
        largest = np.abs(step).max()
        effects = effects + step * min(1.0, _LARGEST_STEP / max(largest, _ENOUGH))
        if largest < _ENOUGH:
            break
    odds = effects @ columns
    likelihood = evidence.harmed @ odds - evidence.trials @ np.logaddexp(0, odds)
    return effects, float(likelihood - effects @ precision @ effects / 2)
