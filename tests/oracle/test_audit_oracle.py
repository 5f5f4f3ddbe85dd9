"""The audit against independent oracles: fairlearn, pandas, statsmodels, and formulas by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import sqrt
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from audited import TODAY, results, settings
from fairlearn.metrics import MetricFrame, false_positive_rate, selection_rate, true_positive_rate
from matched import REVIEWED, VARIETY, row, seen
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from monitor.audit.audit_report import Check, Part, Point
from monitor.audit.audit_run import audit
from monitor.audit.inputs import Pair
from monitor.core.metric import Metric
from monitor.settings.sections import GroupBySettings

VALUES = {VARIETY: ("formal", "conversational", "dialect"), "channel": ("chat", "email")}
GROUPS = (
    GroupBySettings(attributes=(VARIETY,), reference=f"{VARIETY}=formal"),
    GroupBySettings(attributes=("channel",)),
    GroupBySettings(attributes=(VARIETY, "channel")),
)
COMPARISONS = 2  # two variants against the reference: their intervals hold together
LIMIT = 0.1 + 1e-9
Z = 2.241402727604947  # two-sided 97.5 %
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 5))]
METRICS = {
    Metric.TPR: true_positive_rate,
    Metric.FPR: false_positive_rate,
    Metric.SELECTION: selection_rate,
}


def pairs(seed: int) -> tuple[list[Pair], pd.DataFrame]:
    """Random pairs of three variants, some stopped by the evidence gate; and the same as rows."""
    rng = np.random.default_rng(seed)
    found, rows = [], []
    for i in range(60):
        ready, channel = bool(rng.random() < 0.6), str(rng.choice(["chat", "email"]))
        variants = []
        for variety in sorted(VALUES[VARIETY]):
            score = round(float(np.clip(rng.normal(0.75 if ready else 0.6, 0.12), 0, 1)), 2)
            passed, overridden = rng.random() < 0.9, rng.random() < 0.05
            observed = seen(
                score, passed=bool(passed), route=REVIEWED if passed and overridden else None
            )
            attributes = {VARIETY: variety, "channel": channel}
            variants.append(row(f"p{i}", variety, attributes, observed, ready=ready))
            rows.append(
                {
                    **attributes,
                    "pair": i,
                    "ready": ready,
                    "score": score,
                    "auto": passed and not overridden and score >= 0.7,
                    "passed": bool(passed),
                }
            )
        found.append(Pair(f"p{i}", "", tuple(variants)))
    return found, pd.DataFrame(rows)


def part_of(found: list[Pair]) -> Part:
    report = audit(results(found), settings(values=VALUES, groups=GROUPS), today=TODAY)
    return report.baseline.parts[0]


def frame_of(data: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Rates by slice text; TPR and FPR of what passed the gate, selection of everything."""
    texts = ["" for _ in data.index]
    if by:
        named = data[sorted(by)].apply(
            lambda values: ",".join(f"{name}={value}" for name, value in values.items()), axis=1
        )
        texts = named.tolist()
    columns = {}
    for metric, function in METRICS.items():
        kept = data["passed"] if metric.labelled else pd.Series(True, index=data.index)
        columns[metric] = MetricFrame(
            metrics=function,
            y_true=data["ready"][kept],
            y_pred=data["auto"][kept].astype(bool),
            sensitive_features=pd.Series(texts, index=data.index, name="slice")[kept],
        ).by_group
    return pd.DataFrame(columns)


def trials(data: pd.DataFrame, metric: Metric, where: Mapping[str, str]) -> int:
    inside = np.logical_and.reduce([data[name] == value for name, value in where.items()])
    kept = inside & (data["passed"] if metric.labelled else True)
    if metric.labelled:
        kept &= data["ready"] == (metric is Metric.TPR)
    return int(kept.sum())


@pytest.mark.parametrize("seed", SEEDS)
def test_rates_are_fairlearns(seed: int) -> None:
    found, data = pairs(seed)
    part = part_of(found)
    for group in ([], [VARIETY], ["channel"], [VARIETY, "channel"]):
        theirs = frame_of(data, group)
        ours = {
            line.slice: line.rates
            for line in part.slices
            if line.group_by == "+".join(sorted(group))
        }
        assert ours.keys() == {*theirs.index}
        for metric in METRICS:
            values = {text: rates[metric].value for text, rates in ours.items()}
            assert values == theirs[metric].to_dict()


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_of_rates_are_statsmodels_wilson(seed: int) -> None:
    found, data = pairs(seed)
    lines = {line.slice: line for line in part_of(found).slices}
    for variety in VALUES[VARIETY]:
        for metric in METRICS:
            rate = lines[f"{VARIETY}={variety}"].rates[metric]
            n = trials(data, metric, {VARIETY: variety})
            assert rate.support == n
            hits = round((rate.value or 0) * n)
            expected = proportion_confint(hits, n, method="wilson")
            assert (rate.lower, rate.upper) == pytest.approx(expected, abs=1e-12)


def newcombe(
    first: tuple[int, int], second: tuple[int, int], z: float
) -> tuple[float, float, float]:
    """Difference of two rates with Newcombe's interval (his method 10), written out in full."""

    def score(hits: int, n: int) -> tuple[float, float, float]:
        root = z * sqrt(z * z + 4 * hits * (n - hits) / n)
        middle, whole = 2 * hits + z * z, 2 * (n + z * z)
        return hits / n, (middle - root) / whole, (middle + root) / whole

    (p1, l1, u1), (p2, l2, u2) = score(*first), score(*second)
    difference = p1 - p2
    below = sqrt((p1 - l1) ** 2 + (u2 - p2) ** 2)
    above = sqrt((u1 - p1) ** 2 + (p2 - l2) ** 2)
    return difference, difference - below, difference + above


def test_newcombe_is_the_lessons() -> None:
    tpr, fpr = newcombe((5, 6), (3, 6), 1.959963984540054), newcombe((1, 4), (0, 4), 1.96)
    assert [round(100 * x, 1) for x in tpr] == [33.3, -17.2, 67.4]
    assert [round(100 * x, 1) for x in fpr] == [25.0, -28.1, 69.9]


@pytest.mark.parametrize("seed", SEEDS)
def test_gaps_are_fairlearns_with_newcombes_interval(seed: int) -> None:
    found, data = pairs(seed)
    theirs = frame_of(data, [VARIETY])
    checks = [c for c in part_of(found).checks if c.against == f"{VARIETY}=formal"]
    assert len(checks) == 2 * COMPARISONS
    for check in checks:
        rates = theirs[check.metric]
        sides = [check.slice, f"{VARIETY}=formal"]
        if check.metric is Metric.TPR:
            sides.reverse()  # by harm: above 0 the slice is worse off
        counts = []
        for text in sides:
            n = trials(data, check.metric, {VARIETY: text.removeprefix(f"{VARIETY}=")})
            counts.append((round(rates[text] * n), n))
        expected = newcombe(counts[0], counts[1], Z)
        assert (check.value, check.lower, check.upper) == pytest.approx(expected, abs=1e-9)
        assert check.matched
    assert {check: check.point for check in checks} == points_of(checks)


def points_of(checks: Iterable[Check]) -> dict[Check, Point]:
    """Points by the values: beyond the limit whoever is behind fails, in each family once."""
    families: dict[tuple[str, ...], list[tuple[float, Check]]] = defaultdict(list)
    for check in checks:
        attributes = [part.split("=")[0] for part in check.slice.split(",")]
        families[check.name, check.against, *attributes].append((check.value or 0.0, check))
    points = {}
    for (_, against, *_), family in families.items():
        told = against == "complement" and max(gap for gap, _ in family) > LIMIT
        furthest = min(family, key=lambda one: one[0])[1]
        for gap, check in family:
            fails = gap > LIMIT or (gap < -LIMIT and check is furthest and not told)
            ahead = Point.BETTER_OFF if gap < -LIMIT else Point.PASS
            points[check] = Point.FAIL if fails else ahead
    return points


def two_axes(seed: int) -> tuple[list[Pair], pd.DataFrame]:
    """Pairs of three varieties, pairs of two channels, and pairs that differ in both."""
    rng = np.random.default_rng(seed)
    found, rows = [], []
    for i in range(60):
        channel = str(rng.choice(["chat", "email"]))
        kinds = (
            [(variety, channel) for variety in VALUES[VARIETY]],
            [("formal", "chat"), ("formal", "email")],
            [("formal", "chat"), ("dialect", "email")],
        )
        ready, variants = bool(rng.random() < 0.6), []
        for variety, its in kinds[i % 3]:
            score = round(float(rng.random()), 2)
            attributes = {VARIETY: variety, "channel": its}
            one = row(f"p{i}", f"{variety}-{its}", attributes, seen(score), ready=ready)
            axis = f"{i % 3}{channel if i % 3 == 0 else ''}"
            variants.append(replace(one, item=replace(one.item, axis=axis)))
            rows.append({**attributes, "pair": i, "ready": ready, "auto": score >= 0.7})
        found.append(Pair(f"p{i}", axis, tuple(variants)))
    return found, pd.DataFrame(rows)


def inside(data: pd.DataFrame, text: str) -> pd.Series:
    """Which rows are in a slice."""
    values = dict(part.split("=") for part in text.split(","))
    return pd.Series(np.logical_and.reduce([data[k] == v for k, v in values.items()]), data.index)


@pytest.mark.parametrize("seed", SEEDS)
def test_gaps_are_over_the_pairs_that_hold_both_sides(seed: int) -> None:
    found, data = two_axes(seed)
    checks = [c for c in part_of(found).checks if c.name.endswith("_gap")]
    assert len(checks) == 2 * (COMPARISONS + 2 + 6)
    slices = len(data.groupby([VARIETY, "channel"]))
    for check in checks:
        here = inside(data, check.slice)
        there = ~here if check.against == "complement" else inside(data, check.against)
        both = {*data["pair"][here]} & {*data["pair"][there]}
        kept = data["pair"].isin(both) & (data["ready"] == (check.metric is Metric.TPR))
        sides = (there, here) if check.metric is Metric.TPR else (here, there)
        assert both
        assert check.matched
        counts = [
            (int(data["auto"][kept & side].sum()), int((kept & side).sum())) for side in sides
        ]
        comparisons = slices if "," in check.slice else 1 if "channel" in check.slice else 2
        z = NormalDist().inv_cdf(1 - 0.025 / comparisons)
        expected = newcombe(counts[0], counts[1], z)
        assert (check.value, check.lower, check.upper) == pytest.approx(expected, abs=1e-9)
    assert {check: check.point for check in checks} == points_of(checks)


@pytest.mark.parametrize("seed", SEEDS)
def test_calibration_is_a_plain_share(seed: int) -> None:
    found, data = pairs(seed)
    passed = data[data["passed"]].copy()
    names = ["below 0.70", "0.70 to 0.90", "0.90 and above"]
    passed["band"] = pd.cut(
        passed["score"], [-np.inf, 0.70, 0.90, np.inf], right=False, labels=names
    )
    expected = {}
    for attribute in (VARIETY, "channel"):
        grouped = passed.groupby([attribute, "band"], observed=True)["ready"]
        for (value, band), ready in grouped:
            expected[f"{attribute}={value}", str(band)] = (len(ready), int(ready.sum()))
    lines = part_of(found).calibration
    assert {(line.slice, line.band) for line in lines} == expected.keys()
    for line in lines:
        n, hits = expected[line.slice, line.band]
        assert line.n == n
        assert line.rate is not None
        assert line.rate.value == hits / n
        bounds = proportion_confint(hits, n, method="wilson")
        assert (line.rate.lower, line.rate.upper) == pytest.approx(bounds, abs=1e-12)


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_flips_are_a_join(seed: int, ready: bool) -> None:
    two = {**VALUES, VARIETY: ("formal", "conversational")}
    found, data = pairs(seed)
    kept = [Pair(p.id, "", tuple(r for r in p.rows if r.item.variant != "dialect")) for p in found]
    report = audit(results(kept), settings(values=two, groups=GROUPS), today=TODAY)
    (counts,) = (x for x in report.baseline.parts[0].counts if x.expected_ready is ready)
    data = data[data["ready"] == ready]
    wide = data.pivot_table(index="pair", columns=VARIETY, values=["auto", "passed"], aggfunc="all")
    wide = wide.astype(bool)
    both = wide[wide["passed", "formal"] & wide["passed", "conversational"]]
    formal, conversational = both["auto", "formal"], both["auto", "conversational"]
    table = (
        pd.crosstab(formal, conversational)
        .reindex([True, False])
        .reindex(columns=[True, False], fill_value=0)
    )
    assert counts.compared == len(both)
    assert counts.flips == int((formal != conversational).sum())
    assert counts.p_value == pytest.approx(mcnemar(table.fillna(0), exact=True).pvalue)
