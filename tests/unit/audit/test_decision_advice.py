"""What is advised where a stage failed, and what is never advised."""

from __future__ import annotations

import pytest

from monitor.audit.audit_report import Recommendation
from monitor.audit.decision import advice
from monitor.audit.flip_counts import stage_name
from monitor.core.probes.flips import FlipCause, FlipStage

GATE = stage_name(FlipStage.EVIDENCE_GATE, None)
BEHIND = [stage_name(FlipStage.JUDGE_OR_ROUTE, cause) for cause in FlipCause]
ALL = [GATE, *BEHIND]


def test_every_stage_has_advice_in_the_routers_order() -> None:
    assert [one.stage for one in advice(set(ALL))] == ALL


def test_only_what_failed_is_advised_on() -> None:
    assert advice(()) == ()
    assert [one.stage for one in advice([BEHIND[1], GATE, GATE])] == [GATE, BEHIND[1]]


@pytest.mark.parametrize("one", advice(ALL), ids=lambda one: one.stage)
def test_advice_is_a_hypothesis_and_short(one: Recommendation) -> None:
    assert one.helps.startswith("Hypothesis: ")
    assert len(one.helps) < 450
    assert len(one.does_not_help) < 350
    assert "rewrit" not in one.helps.lower()


def test_more_data_only_where_the_data_is_the_cause() -> None:
    helps = {one.stage: one.helps for one in advice(ALL)}
    assert "only if its shortage has been located" in helps[BEHIND[0]]
    assert [stage for stage, text in helps.items() if "training data" in text] == [BEHIND[0]]


def test_the_judges_stage_names_the_shortcuts_that_hurt() -> None:
    (one,) = advice([stage_name(FlipStage.JUDGE_OR_ROUTE, FlipCause.JUDGE_SCORE)])
    for words in ("Rewriting customers' text", "levelling down", "product and legal"):
        assert words in one.does_not_help
