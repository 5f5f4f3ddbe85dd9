"""Search for causes: the fewest slices whose different treatment makes atoms differ as they do.

The harm in atom i is taken to be binomial with

    logit P(harm | i) = baseline + sum of the effects of the causes that i lies in

and a cause is a slice. Of all sets of causes the one with the largest log-likelihood, less the cost
of each cause, is looked for: one cause after the other, and each exchanged for any other as long
as that is better. A slice all of whose children are alike costs one effect, its children one each;
if one child alone accounts for the difference, its siblings contradict the parent. So the
smallest slice that explains is the likeliest one, and no share of an excess has to be cut at some
number.

Atoms always differ a little. How much a contract tolerates is part of the likelihood: trials are
discounted as if atoms' rates had a standard deviation of a third of the limit, whatever the
number of decisions.
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
"""Nats that a further cause must bring beyond the choice among slices of its depth."""

GOOD = 3.0
"""Nats more that it takes to name a slice that is better off: of two slices that part, the one
that is worse off is what the contract is about."""

ALIKE = 1 / 3
"""Of the limit: standard deviation of atoms' rates that is no news. By a half, a gap of .23 in one
atom would be worth 7 nats at most, however many its decisions: less than to choose it among many
slices costs. By an eighth, differences that a contract tolerates become causes next to the true
ones (measured: one in 60 worlds with two causes)."""

MOST_CAUSES = 6

EXCHANGED_FOR = 2
"""A cause may be exchanged for so many at once: two of three children look like their parent."""

_TRIED = 12  # likelihood is computed for so many of the best by the score test
_EFFECT_PRECISION = 0.25  # of the effects: what no trial limits stays finite
_LARGEST_STEP = 2.0
_STEPS = 30
_ENOUGH = 1e-9
_SLACK = 1e-7


@dataclass(frozen=True, slots=True)
class Candidates:
    """The slices that can be a cause, as rows.

    Attributes:
        group_bys: name of each one's group-by.
        slices: its text.
        of_atom: the row of every atom in each group-by, shape (G, A).
        cost: nats for choosing it, shape (C,).
    """

    group_bys: tuple[str, ...]
    slices: tuple[str, ...]
    of_atom: Int64s
    cost: Floats

    @classmethod
    def for_group_bys(
        cls, atoms: Sequence[str], group_bys: Sequence[tuple[str, ...]]
    ) -> Candidates:
        """Every slice of the group-bys that has decisions."""
        names: list[tuple[str, str]] = []
        rows = []
        for attributes in group_bys:
            texts = [slice_text(atom, attributes) for atom in atoms]
            found = sorted(set(texts))
            at = {text: len(names) + i for i, text in enumerate(found)}
            names += [("+".join(attributes), text) for text in found]
            rows.append([at[text] for text in texts])
        depths = np.array([name.count("+") for name, _ in names])
        alike = np.bincount(depths)[depths] if names else np.zeros(0)
        return cls(
            tuple(name for name, _ in names),
            tuple(text for _, text in names),
            np.array(rows, np.int64).reshape(len(group_bys), len(atoms)),
            np.log(alike),
        )

    def within(self, group_by: str) -> list[int]:
        """The rows of one group-by."""
        return [row for row, name in enumerate(self.group_bys) if name == group_by]

    def atoms(self, row: int) -> Bools:
        """Mask of the atoms in one candidate."""
        inside: Bools = (self.of_atom == row).any(axis=0)
        return inside

    def sums(self, values: Floats) -> Floats:
        """Over the atoms of each, shape (C,)."""
        each = np.broadcast_to(values, self.of_atom.shape).ravel()
        total: Floats = np.bincount(self.of_atom.ravel(), each, len(self.slices)).astype(np.float64)
        return total


@dataclass(frozen=True, slots=True)
class AtomHarm:
    """Harm in every atom.

    Attributes:
        trials: discounted, shape (A,).
        harmed: of these.
    """

    trials: Floats
    harmed: Floats

    @classmethod
    def from_trials(cls, trials: AtomTrials, limit: float) -> AtomHarm:
        """Evidence in the trials of atoms, whose rates may differ a little anyway.

        Args:
            trials: shape (A,).
            limit: of the contract on a gap; atoms' rates may have a third of it as their sd.
        """
        total = trials.total.sum()
        usual = (trials.harmed.sum() + 0.5) / (total + 1)
        alike = (ALIKE * limit) ** 2 / (usual * (1 - usual))
        counted = trials.support / (1 + alike * trials.support)
        return cls(counted, counted * np.nan_to_num(trials.rate))


@dataclass(frozen=True, slots=True)
class Fit:
    """The likeliest effects of some causes.

    Attributes:
        causes: rows of the candidates.
        effects: log odds ratio of harm in each, above 0 where its slice is worse off.
        base: log odds of harm outside of all.
        value: log-likelihood, less the costs.
        design: which atoms are in each cause, shape (m, A).
    """

    causes: tuple[int, ...]
    effects: Floats
    base: float
    value: float
    design: Floats

    @property
    def log_odds(self) -> Floats:
        """Log odds of harm, by atom."""
        odds: Floats = self.base + self.effects @ self.design
        return odds

    def harm_of(self, cause: int) -> Floats:
        """Rate of harm that one cause adds in every atom; 0 outside of it."""
        without = self.log_odds - self.effects[cause] * self.design[cause]
        harm: Floats = expit(self.log_odds) - expit(without)
        return harm


class Search:
    """The causes of one metric.

    Args:
        evidence: by atom.
        candidates: what can be a cause.
        limit: of the contract on a gap.

    Attributes:
        least: what adds less to the rate of harm in its slice is no cause: half of the limit.
    """

    def __init__(self, evidence: AtomHarm, candidates: Candidates, limit: float) -> None:
        self._evidence = evidence
        self._candidates = candidates
        self.least = limit / 2

    def run(self) -> Fit:
        """The best set of causes that this search finds; empty if nothing is worth its cost."""
        fit = self.fit(())
        while len(fit.causes) < MOST_CAUSES:
            grown = self._further(fit)
            if grown is None or not _better(grown, fit):
                break
            fit = self._exchanged(grown)
        return fit

    def fit(self, causes: tuple[int, ...]) -> Fit:
        """The likeliest effects of these causes."""
        design = np.array([self._candidates.atoms(row) for row in causes], np.float64)
        design = design.reshape(len(causes), len(self._evidence.trials))
        columns = np.concatenate([np.ones((1, design.shape[1])), design])
        effects, likelihood = _logistic(columns, self._evidence)
        cost = self._candidates.cost[list(causes)].sum() + ENTRY * len(causes)
        cost += GOOD * np.count_nonzero(effects[1:] < 0)
        return Fit(causes, effects[1:], float(effects[0]), likelihood - cost, design)

    def _exchanged(self, fit: Fit) -> Fit:
        """Any cause left out, or exchanged for one other or two, until nothing is better."""
        while True:
            better = (other for other in self._neighbours(fit) if _better(other, fit))
            found = next(better, None)
            if found is None:
                return fit
            fit = found

    def _neighbours(self, fit: Fit) -> Iterator[Fit]:
        for cause in fit.causes:
            other: Fit | None = self.fit(tuple(row for row in fit.causes if row != cause))
            for _ in range(EXCHANGED_FOR + 1):
                if other is None:
                    break
                yield other
                other = self._further(other, cause)

    def _further(self, fit: Fit, but: int | None = None) -> Fit | None:
        """With the one more cause that is worth most, but not this; None if none does enough."""
        fits = [self.fit((*fit.causes, row)) for row in self._promising(fit) if row != but]
        large = [one for one in fits if self._large(one)]
        return max(large, key=lambda one: one.value, default=None)

    def _large(self, fit: Fit) -> bool:
        """Return True when the effect of the last cause is large enough to matter to a contract."""
        inside = fit.design[-1] > 0
        trials = self._evidence.trials[inside]
        added = divide(trials @ fit.harm_of(len(fit.causes) - 1)[inside], trials.sum(), empty=0)
        return bool(abs(added) >= self.least)

    def _promising(self, fit: Fit) -> list[int]:
        """Rows by the score test, less their costs: the best of them, best first."""
        odds = expit(fit.log_odds)
        score = self._candidates.sums(self._evidence.harmed - self._evidence.trials * odds)
        weight = self._evidence.trials * odds * (1 - odds)
        columns = np.concatenate([np.ones((1, len(odds))), fit.design])
        known = (columns * weight) @ columns.T + _precision(len(columns))
        shared = np.stack([self._candidates.sums(weight * column) for column in columns])
        left = self._candidates.sums(weight) - (shared * np.linalg.solve(known, shared)).sum(axis=0)
        left = np.maximum(left, 0) + _EFFECT_PRECISION
        gain = score**2 / (2 * left) - self._candidates.cost - GOOD * (score < 0)
        gain[list(fit.causes)] = -math.inf
        order = np.argsort(-gain, kind="stable")[:_TRIED]
        return [int(row) for row in order if score[row] ** 2 > _SLACK and gain[row] > -math.inf]


def _better(one: Fit, other: Fit) -> bool:
    return one.value > other.value + _SLACK


def expit(odds: Floats) -> Floats:
    """Probabilities of log odds."""
    return 1 / (1 + np.exp(-odds))


def _precision(columns: int) -> Floats:
    precision = np.full(columns, _EFFECT_PRECISION)
    precision[0] = _ENOUGH
    return np.diag(precision)


def _logistic(columns: Floats, evidence: AtomHarm) -> tuple[Floats, float]:
    """The effects of columns (m + 1, A), and their log-likelihood, by Newton's method."""
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
