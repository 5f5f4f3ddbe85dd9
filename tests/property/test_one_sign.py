"""The same counts through the audit and through the service: the same gap, sign and all."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from audited import VALUES, contract_of, settings
from cubes import Cell, build_contract, window
from matched import VARIETY, seen, varieties

from monitor.audit.audit_report import Check
from monitor.audit.contract_checks import contract_checks
from monitor.audit.inputs import Pair
from monitor.audit.slices import audit_coding, slices_of
from monitor.core.counts.cells import Route, Stratum
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import ShownGap, SliceRow
from monitor.core.rates.gap_words import said_of_slice, worse_off
from monitor.settings.sections import GroupBySettings

FORMAL, CASUAL = (f"{VARIETY}={name}" for name in VALUES[VARIETY])
SETTINGS = settings(
    groups=(GroupBySettings(attributes=(VARIETY,), reference=FORMAL),),
    limits={"max_blocked_gap": Fraction("0.10")},
)


def pairs(seed: int) -> list[Pair]:
    random = Random(seed)
    found = []
    for i in range(80):
        outcomes = (
            seen(random.choice((0.4, 0.6, 0.8)), passed=random.random() < 0.9) for _ in range(2)
        )
        found.append(varieties(f"p{i}", *outcomes, ready=i % 2 == 0))
    return found


def audited(found: list[Pair]) -> dict[Metric, Check]:
    contract, coding = contract_of(SETTINGS), audit_coding(SETTINGS.coding)
    rows = [row for pair in found for row in pair.rows]
    checks = contract_checks(slices_of(rows, contract, coding), contract, rows, coding)
    return {check.metric: check for check in checks if check.slice == CASUAL}


def served(found: list[Pair]) -> SliceRow:
    """The row of the service, from decisions and labels counted one by one."""
    counts: dict[tuple[str, Route, bool], list[int]] = {}
    for pair in found:
        for row in pair.rows:
            at = (row.item.attributes[VARIETY], row.observed.route, row.observed.evidence_passed)
            cell = counts.setdefault(at, [0, 0])
            cell[0] += 1
            cell[1] += row.item.expected_ready is True
    cells = [
        Cell({VARIETY: name}, Stratum(route, band=0, rate=0, evidence_passed=passed), n, n, ready)
        for (name, route, passed), (n, ready) in counts.items()
    ]
    contract, coding = contract_of(SETTINGS), audit_coding(SETTINGS.coding)
    table = build_contract(contract, coding, [window(cells)])
    (group,) = table.windows[0].groups
    return next(row for row in group.rows if row.slice == CASUAL)


@pytest.mark.parametrize("seed", range(12))
def test_audit_and_service_show_the_same_gap(seed: int) -> None:
    found = pairs(seed)
    checks, row = audited(found), served(found)
    assert checks.keys() == {Metric.TPR, Metric.FPR, Metric.BLOCKED}
    for metric, check in checks.items():
        gap = row.gaps[metric]
        assert (check.value, check.lower, check.upper) == pytest.approx(
            (gap.value, gap.lower, gap.upper), abs=1e-12
        )
        assert check.verdict is gap.verdict
        assert check.worse_off == worse_off(CASUAL, FORMAL, gap.value) == behind(row, gap, metric)


def behind(row: SliceRow, gap: ShownGap, metric: Metric) -> str:
    """Who is worse off, from the rates alone: less is worse where replies are due."""
    rate, ratio = row.rates[metric].value, gap.ratio
    assert rate is not None
    if gap.value == 0 or ratio is None:
        return "" if gap.value == 0 else CASUAL
    fewer = ratio < 1
    return CASUAL if fewer is (metric is Metric.TPR) else FORMAL


def test_both_signs_come_up_in_both_metrics() -> None:
    signs = {
        (m, check.worse_off) for seed in range(12) for m, check in audited(pairs(seed)).items()
    }
    for metric in (Metric.TPR, Metric.FPR):
        assert {(metric, CASUAL), (metric, FORMAL)} <= signs


def test_words_agree_with_the_sign() -> None:
    assert all(metric.row.event for metric in Metric)
    for metric in (Metric.TPR, Metric.SELECTION):
        assert said_of_slice(metric, 0.1).endswith("less often")
        assert said_of_slice(metric, -0.1).endswith("more often")
    for metric in (Metric.FPR, Metric.BLOCKED):
        assert said_of_slice(metric, 0.1).endswith("more often")
        assert said_of_slice(metric, -0.1).endswith("less often")
