"""Estimators against independent oracles: statsmodels, fairlearn, and loops over fractions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import cast

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import MetricFrame, false_positive_rate, selection_rate, true_positive_rate
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.metrics import precision_score
from slice_tables import counted, slice_counts
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from monitor.core.counts.cells import Counter, Route, Stratum
from monitor.core.counts.coding import Coding
from monitor.core.intervals import mover, wilson
from monitor.core.metric import Metric
from monitor.core.rates.estimates import estimate

Groups = Iterable[tuple[tuple[bool, int], pd.DataFrame]]
CODING = Coding((), audit_rates=(1.0, 0.5, 0.05))
ROUTES = (Route.AUTO_SERVE, Route.HUMAN_REVIEW)


@pytest.mark.parametrize("z", [1.0, 1.96, 2.8])
def test_wilson_is_statsmodels_wilson(z: float) -> None:
    n = np.repeat(np.arange(1, 60), 60)
    hits = np.minimum(np.tile(np.arange(60), 59), n)
    expected = proportion_confint(hits, n, alpha=2 * norm.sf(z), method="wilson")
    np.testing.assert_allclose(wilson(hits / n, n, z), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("x1", "n1", "x2", "n2"), [(56, 70, 48, 80), (9, 10, 3, 10), (0, 20, 5, 9)]
)
def test_mover_is_statsmodels_newcombe(x1: int, n1: int, x2: int, n2: int) -> None:
    first, second = (x1 / n1, *wilson(x1 / n1, n1)), (x2 / n2, *wilson(x2 / n2, n2))
    expected = confint_proportions_2indep(x1, n1, x2, n2, method="newcomb")
    np.testing.assert_allclose(mover(*first, *second), expected, atol=1e-12)


def test_everything_labelled_is_fairlearn() -> None:
    rng = np.random.default_rng(11)
    size = 4_000
    frame = pd.DataFrame(
        {
            "slice": rng.choice(["x=a", "x=b", "x=c", "x=d"], size, p=[0.6, 0.3, 0.09, 0.01]),
            "band": rng.integers(0, 4, size),
            "ready": rng.random(size) < 0.6,
        }
    )
    frame["auto"] = rng.random(size) < 0.2 + 0.15 * frame["band"] + 0.1 * frame["ready"]
    cells = {
        str(name): {
            Stratum(Route(int(not auto)), int(band), 0): counted(
                len(part), len(part), int(part["ready"].sum())
            )
            for (auto, band), part in cast(Groups, rows.groupby(["auto", "band"]))
        }
        for name, rows in frame.groupby("slice")
    }
    metrics = {
        Metric.TPR: true_positive_rate,
        Metric.FPR: false_positive_rate,
        Metric.SELECTION: selection_rate,
        Metric.PRECISION: precision_score,
    }
    theirs = MetricFrame(
        metrics={metric.value: function for metric, function in metrics.items()},
        y_true=frame["ready"],
        y_pred=frame["auto"],
        sensitive_features=frame["slice"],
    ).by_group
    for metric in metrics:
        ours = estimate(slice_counts(cells), CODING, metric).value
        assert ours.tolist() == theirs[metric.value].sort_index().tolist()


def test_weighted_labels_are_sklearns_sample_weights() -> None:
    """Precision of a router of which a part of the served, by score band, is labelled."""
    rng = np.random.default_rng(12)
    size, audits = 6_000, np.array([1.0, 0.5])
    frame = pd.DataFrame(
        {
            "slice": rng.choice(["x=a", "x=b"], size, p=[0.7, 0.3]),
            "band": rng.integers(0, 2, size),
            "auto": rng.random(size) < 0.7,
        }
    )
    frame["ready"] = rng.random(size) < 0.55 + 0.4 * frame["band"]
    frame["labelled"] = ~frame["auto"] | (rng.random(size) < audits[frame["band"]])
    cells: dict[str, dict[Stratum, Mapping[Counter, int]]] = {"x=a": {}, "x=b": {}}
    weight = pd.Series(0.0, frame.index)
    for name, band, auto in product(cells, range(2), (True, False)):
        part = frame[(frame["slice"] == name) & (frame["band"] == band) & (frame["auto"] == auto)]
        known = part[part["labelled"]]
        stratum = Stratum(Route(int(not auto)), band, band if auto else 0)
        cells[name][stratum] = counted(len(part), len(known), int(known["ready"].sum()))
        weight[known.index] = len(part) / len(known)
    seen = frame[frame["labelled"]].assign(weight=weight)
    theirs = MetricFrame(
        metrics=precision_score,
        y_true=seen["ready"],
        y_pred=seen["auto"],
        sensitive_features=seen["slice"],
        sample_params={"sample_weight": seen["weight"]},
    )
    found = estimate(slice_counts(cells), CODING, Metric.PRECISION)
    np.testing.assert_allclose(found.value, theirs.by_group.sort_index(), rtol=1e-12)
    plain = MetricFrame(
        metrics=precision_score,
        y_true=seen["ready"],
        y_pred=seen["auto"],
        sensitive_features=seen["slice"],
    )
    assert np.abs(found.value - plain.by_group.sort_index()).min() > 0.03  # else nothing is shown


@dataclass
class Part:
    """One post-stratum of the brute-force estimator."""

    decisions: Fraction
    labelled: Fraction
    hits: Fraction

    @property
    def complete(self) -> bool:
        return self.labelled >= self.decisions

    @property
    def share(self) -> Fraction:
        return self.hits / self.labelled if self.labelled else Fraction(0)

    @property
    def smooth(self) -> Fraction:
        if self.complete or 0 < self.hits < self.labelled:
            return self.share
        return (self.hits + Fraction(1, 2)) / (self.labelled + 1)


def naive_bands(bands: list[tuple[int, int, int]]) -> list[list[int]]:
    done: list[list[int]] = []
    run = [0, 0, 0]
    for band in bands:
        run = [a + b for a, b in zip(run, band, strict=True)]
        if run[1] >= 10:
            done.append(run)
            run = [0, 0, 0]
    if done:
        done[-1] = [a + b for a, b in zip(done[-1], run, strict=True)]
        return done
    return [run]


def naive_parts(route: dict[int, list[tuple[int, int, int]]]) -> list[Part]:
    """Post-strata of one route: bands merged, thin rates pooled, an empty pool joined."""
    parts, pool = [], []
    for rate, bands in route.items():
        for n, labelled, hits in naive_bands(bands):
            if labelled < 10 and labelled < n:
                pool.append((Fraction(1) / Fraction(CODING.audit_rates[rate]), n, labelled, hits))
            else:
                parts.append(Part(Fraction(n), Fraction(labelled), Fraction(hits)))
    if not pool:
        return parts
    decisions = Fraction(sum(n for _, n, _, _ in pool))
    weighted = sum((w * labelled for w, _, labelled, _ in pool), Fraction(0))
    known = sum((part.decisions for part in parts), Fraction(0))
    if weighted:
        kish = weighted**2 / sum(w * w * labelled for w, _, labelled, _ in pool)
        ready = sum((w * own for w, _, _, own in pool), Fraction(0))
        return [*parts, Part(decisions, kish, kish * ready / weighted)]
    if known:
        factor = (known + decisions) / known
        return [Part(part.decisions * factor, part.labelled, part.hits) for part in parts]
    return [Part(decisions, Fraction(0), Fraction(0))]


def naive_served(auto: list[Part], review: list[Part]) -> tuple[Fraction | None, Fraction]:
    """Point and n_eff of a TPR: 1 / (T (1 - T) V), as the formula stands."""
    found = [sum((p.decisions * p.share for p in parts), Fraction(0)) for parts in (auto, review)]
    if not sum(found):
        return None, Fraction(0)
    point = found[0] / sum(found)
    everything = [*auto, *review]
    one_route = any(not sum(p.decisions for p in parts) for parts in (auto, review))
    if one_route or all(p.complete for p in everything):
        return point, sum((p.hits for p in everything), Fraction(0))
    smooth = [sum((p.decisions * p.smooth for p in parts), Fraction(0)) for parts in (auto, review)]
    if not all(smooth):
        return point, sum(smooth, Fraction(0))
    variance = Fraction(0)
    for parts, total in zip((auto, review), smooth, strict=True):
        for p in parts:
            if p.labelled:
                sampling = p.decisions**2 * p.smooth * (1 - p.smooth) / p.labelled
                variance += (sampling + p.decisions * p.smooth**2) / total**2
    t = smooth[0] / sum(smooth)
    return point, 1 / (t * (1 - t) * variance)


def naive_ready(parts: list[Part]) -> tuple[Fraction | None, Fraction]:
    total = sum((p.decisions for p in parts), Fraction(0))
    if not total:
        return None, Fraction(0)
    point = sum(p.decisions * p.share for p in parts) / total
    if all(p.complete for p in parts):
        return point, total
    t = sum(p.decisions * p.smooth for p in parts) / total
    variance = Fraction(0)
    for p in parts:
        if p.labelled:
            variance += p.decisions**2 * p.smooth * (1 - p.smooth) / p.labelled
            variance += p.decisions * (p.smooth - t) ** 2
    return point, t * (1 - t) * total**2 / variance


def naive_least(point: float, n_eff: float, mine: list[Part], rest: list[Part]) -> float:
    """Lower 95 % bound of the first route's share of hits, with D where it agrees with the bound.

    ``point`` and ``n_eff`` as :func:`naive_served` gives them.
    """
    z = float(norm.ppf(0.975))
    (plain, _) = proportion_confint(point * n_eff, n_eff, method="wilson")
    one_route = any(not sum(p.decisions for p in parts) for parts in (mine, rest))
    if one_route or all(p.complete for p in (*mine, *rest)):
        return float(plain)
    if not point:
        return 0.0
    (hits, alone, shared), (others, most, both) = naive_sums(mine), naive_sums(rest)
    fixed = max((most - both) / others, 1.0) if both else 1.0

    def skew(hits: float, alone: float, shared: float, scale: float) -> float:
        if not shared:
            return 0.0
        rate = scale * shared / (alone - hits)
        return (z * z - 1) / 6 * max(alone / hits * (1 - 2 * rate) - 1, 0)

    def at(scale: float) -> tuple[float, float, float]:
        """The share at the bound, the estimated one, and the odds between counts and hits."""
        effect = max((alone - scale * shared) / hits, 1.0) if shared else 1.0
        odds = effect / fixed
        share = point / (point + (1 - point) * odds)
        counts = hits / effect + others / fixed
        count = max(share * counts - skew(hits, alone, shared, scale) / effect, 0)
        other = max((1 - share) * counts - skew(others, most, both, 1) / fixed, 0)
        if not count + other:
            return 0.0, share, odds
        low, _ = proportion_confint(count, count + other, method="wilson")
        return float(low), share, odds

    def ahead(scale: float) -> float:
        low, share, _ = at(scale)
        return low / share - scale

    low, _, odds = at(brentq(ahead, 0, 1) if shared and ahead(1) < 0 else 1.0)
    return min(point, low * odds / (low * odds + 1 - low))


def naive_sums(parts: list[Part]) -> tuple[float, float, float]:
    """Sums of N p, of w N p and of (w - 1) N p^2, with w = N / n."""
    found = [(p.decisions / p.labelled, p.decisions * p.smooth, p) for p in parts if p.labelled]
    hits = sum((p.decisions * p.smooth for p in parts), Fraction(0))
    alone = sum((w * hit for w, hit, _ in found), Fraction(0))
    shared = sum(((w - 1) * hit * p.smooth for w, hit, p in found), Fraction(0))
    return float(hits), float(alone), float(shared)


Table = dict[Route, dict[int, list[tuple[int, int, int]]]]


def naive(table: Table, metric: Metric) -> tuple[float, float]:
    """Point (NaN when undefined or not identified) and n_eff of one slice."""
    if metric is Metric.FPR:
        table = {route: _hits(rates, metric) for route, rates in table.items()}
    routes = [naive_parts(table[route]) for route in ROUTES]
    everything = (
        routes[0] if metric is Metric.PRECISION else [part for one in routes for part in one]
    )
    if any(p.decisions and not p.labelled for p in everything):
        return math.nan, 0
    of_ready = metric in (Metric.READY, Metric.PRECISION)
    point, n_eff = naive_ready(everything) if of_ready else naive_served(*routes)
    return (math.nan if point is None else float(point)), float(n_eff)


def naive_bounds(table: Table, metric: Metric) -> tuple[float, float]:
    """Both bounds of a TPR or an FPR; the upper one is the lower one of the other route's share."""
    point, n_eff = naive(table, metric)
    if math.isnan(point):
        return math.nan, math.nan
    auto, review = (naive_parts(_hits(table[route], metric)) for route in ROUTES)
    least, most = (
        naive_least(point, n_eff, auto, review),
        naive_least(1 - point, n_eff, review, auto),
    )
    return least, 1 - most


def _hits(
    rates: dict[int, list[tuple[int, int, int]]], metric: Metric
) -> dict[int, list[tuple[int, int, int]]]:
    if metric is not Metric.FPR:
        return rates
    return {r: [(n, k, k - m) for n, k, m in bands] for r, bands in rates.items()}


def random_table(rng: np.random.Generator) -> Table:
    """All kinds of slices: empty, thin, unlabelled, complete, skewed."""
    table: Table = {}
    for route in ROUTES:
        table[route] = {}
        for rate in range(3):
            size = rng.choice([0, 0, 1, 8, 60, 400], 4)
            labelled = rng.binomial(size, rng.choice([0, 0.05, 0.5, 1.0]))
            ready = rng.binomial(labelled, rng.choice([0, 0.1, 0.5, 0.95, 1.0]))
            table[route][rate] = list(
                zip(size.tolist(), labelled.tolist(), ready.tolist(), strict=True)
            )
    return table


@pytest.mark.parametrize("number", [300, pytest.param(1_500, marks=pytest.mark.full)])
def test_brute_force(number: int) -> None:
    rng = np.random.default_rng(2016)
    tables = {f"{i:04}": random_table(rng) for i in range(number)}
    counts = slice_counts(
        {
            name: {
                Stratum(route, band, rate): counted(*cell)
                for route, rates in table.items()
                for rate, bands in rates.items()
                for band, cell in enumerate(bands)
            }
            for name, table in tables.items()
        }
    )
    for metric in (Metric.TPR, Metric.FPR, Metric.READY, Metric.PRECISION):
        rates = estimate(counts, CODING, metric)
        value, n_eff = np.array([naive(table, metric) for table in tables.values()]).T
        np.testing.assert_allclose(rates.value, value, rtol=1e-12)
        np.testing.assert_allclose(rates.support, n_eff, rtol=1e-9)
        points = ~np.isnan(value)
        assert 0.3 < points.mean() < 1
        bounds = proportion_confint(value[points] * n_eff[points], n_eff[points], method="wilson")
        if metric in (Metric.READY, Metric.PRECISION):
            found = rates.lower[points], rates.upper[points]
            np.testing.assert_allclose(found, bounds, atol=1e-9)
            continue
        served = np.array([naive_bounds(table, metric) for table in tables.values()])[points].T
        # Bounds are approached in a fixed number of steps.
        np.testing.assert_allclose((rates.lower[points], rates.upper[points]), served, atol=3e-3)
        np.testing.assert_array_less(served[0] - 1e-9, value[points])
        assert np.abs(served - bounds).max(axis=0).mean() > 0.005  # than plain Wilson: not the same


def test_the_oracle_knows_the_reference_values() -> None:
    table: Table = {
        Route.AUTO_SERVE: {2: [(500, 25, 22)]},
        Route.HUMAN_REVIEW: {0: [(500, 500, 150)]},
    }
    assert naive(table, Metric.TPR) == pytest.approx((0.7457627119, 373.497854))
    assert naive(table, Metric.FPR) == pytest.approx((0.1463414634, 26.844459))
