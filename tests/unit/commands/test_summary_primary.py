"""The summary leads with the contract's primary metric."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from cubes import CODING, LIMITS, build_contract, contract, lesson_cells, window
from rich.console import Console

from monitor.commands.summary import summary
from monitor.core.contract import GroupBy, PrimaryMetric
from monitor.core.publish.snapshot import Snapshot

VARIETY = GroupBy(("language_variety",), "language_variety=formal")


@pytest.mark.parametrize(
    ("primary", "titles"),
    [
        (PrimaryMetric.TPR, ("TPR (primary):", "FPR (guardrail):")),
        (PrimaryMetric.FPR, ("FPR (primary):", "TPR (guardrail):")),
    ],
)
def test_the_primary_metric_leads_and_the_guardrail_follows(
    primary: PrimaryMetric, titles: tuple[str, str]
) -> None:
    limits = replace(LIMITS, min_positives=1, min_negatives=1)
    made = contract(VARIETY, k=1, synthetic=True, limits=limits, primary=primary)
    table = build_contract(made, CODING, [window(lesson_cells())])
    out = io.StringIO()
    for one in summary(Snapshot(None, None, (table,)), 80):
        Console(file=out, width=80).print(one)
    said = " ".join(out.getvalue().split())
    lead, other = (said.index(title) for title in titles)
    assert lead < other
    assert "conversational 50 [19, 81] 6 +33" in said
    assert "conversational 0 [0, 49] 4 -25" in said
