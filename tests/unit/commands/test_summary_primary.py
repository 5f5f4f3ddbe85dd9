"""The summary leads with the contract's primary metric."""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction

import pytest
from cubes import CODING, LIMITS, build_contract, contract, lesson_cells, window
from rich.console import Console

from monitor.commands.summary import summary
from monitor.core.contract import GroupBy, OwnLimits
from monitor.core.publish.snapshot import Snapshot
from monitor.present.terminal import printed as on_terminal

VARIETY = GroupBy(("language_variety",), "language_variety=formal")


@pytest.mark.parametrize(
    ("leading", "titles"),
    [
        ("max_tpr_gap", ("TPR (primary):", "FPR (guardrail):")),
        ("max_fpr", ("FPR (primary):", "TPR (guardrail):")),
        ("max_selection_gap", ("selection rate (primary):", "TPR (guardrail):")),
    ],
)
def test_the_primary_metric_leads_and_the_guardrail_follows(
    leading: str, titles: tuple[str, str]
) -> None:
    limits = replace(LIMITS, min_positives=1, min_negatives=1, max_selection_gap=Fraction(1, 2))
    made = contract(VARIETY, k=1, synthetic=True, limits=limits, page_on=(leading,))
    table = build_contract(made, CODING, [window(lesson_cells())])
    out = io.StringIO()
    Console(file=out, width=160).print(*map(on_terminal, summary(Snapshot(None, None, (table,)))))
    said = " ".join(out.getvalue().split())
    lead, other = (said.index(title) for title in titles)
    assert lead < other
    assert "language_variety=conversational 50 % 6 +33.3" in said
    assert "language_variety=conversational 0 % 4 -25.0" in said


def test_limits_of_slices_are_named_beside_the_contracts() -> None:
    limits = replace(LIMITS, min_positives=1, min_negatives=1, min_selection_ratio=Fraction("0.8"))
    own = OwnLimits(
        "language_variety",
        "language_variety=conversational",
        (("max_tpr_gap", Fraction("0.05")), ("max_fpr", Fraction("0.3"))),
    )
    made = replace(contract(VARIETY, k=1, synthetic=True, limits=limits), own_limits=(own,))
    table = build_contract(made, CODING, [window(lesson_cells())])
    out = io.StringIO()
    Console(file=out, width=200).print(*map(on_terminal, summary(Snapshot(None, None, (table,)))))
    said = " ".join(out.getvalue().split())
    slice_ = "language_variety=conversational"
    assert f"{slice_}: gap at most 5 points; needs a support of 1" in said
    assert f"{slice_}: at most 30 %; needs a support of 1" in said
    assert "selection rate (guardrail): the lower rate at least 0.8 times the higher;" in said
