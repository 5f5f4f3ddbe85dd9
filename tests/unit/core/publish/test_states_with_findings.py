"""Which rows say what was found of their slice: those that are the very slice, and are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.core.metric import Metric
from monitor.core.publish.annotations import Annotation
from monitor.core.publish.snapshot import Noted, SliceRow
from monitor.core.publish.states import CROSSED, GroupFindings, SliceEvidence, with_findings
from monitor.core.state import State

CHAT = "channel=chat"
HIDDEN = dict.fromkeys(Metric, State.SUPPRESSED)
SINCE = 1_780_272_000_000_000
TPR = Metric.TPR
OF_TPR = Noted(Annotation.ADWIN, TPR, 3, SINCE)
OF_BLOCKED = Noted(Annotation.GAP, Metric.BLOCKED, 1, SINCE)
OF_NONE = Noted(Annotation.VERSION_CHANGE, None, 1, SINCE)
NOTED = (OF_TPR, OF_BLOCKED, OF_NONE)
FOUND = GroupFindings(
    {(CHAT, TPR): SliceEvidence(CROSSED, SINCE), (CHAT, Metric.FPR): SliceEvidence(2)},
    {CHAT: NOTED},
)


def crossed(*texts: str) -> GroupFindings:
    """The TPR of each slice has crossed, and something is noted in it."""
    tests = {(text, TPR): SliceEvidence(CROSSED, SINCE) for text in texts}
    return GroupFindings(tests, dict.fromkeys(texts, NOTED))


def row(state: State, text: str = CHAT) -> SliceRow:
    return SliceRow(text, {TPR: state, Metric.FPR: State.INCONCLUSIVE})


@pytest.mark.parametrize(
    "one", [State.NO_LIMIT, State.INCONCLUSIVE, State.WITHIN_CONTRACT, State.SUSPECTED]
)
def test_a_crossing_that_stands_is_a_breach(one: State) -> None:
    found = with_findings(row(one), FOUND)
    assert found.states == {TPR: State.BREACH, Metric.FPR: State.INCONCLUSIVE}
    assert found.evidence == {TPR: CROSSED, Metric.FPR: 2}
    assert found.breach_since == {TPR: SINCE}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (State.WITHIN_CONTRACT, State.BETTER_OFF),
        (State.INCONCLUSIVE, State.BETTER_OFF),
        (State.STALE, State.BETTER_OFF),
        (State.SUSPECTED, State.SUSPECTED),
        (State.MATURING, State.MATURING),
    ],
)
def test_a_slice_that_others_are_worse_off_than_is_better_off_and_in_no_breach(
    one: State, expected: State
) -> None:
    findings = GroupFindings({(CHAT, TPR): SliceEvidence(CROSSED, others_behind=True)})
    found = with_findings(row(one), findings)
    assert found.states[TPR] is expected
    assert found.breach_since == {}


@pytest.mark.parametrize("one", [State.INSUFFICIENT_SUPPORT, State.MATURING])
def test_lost_support_and_labels_that_are_out_stay_visible(one: State) -> None:
    found = with_findings(row(one), FOUND)
    assert found.states[TPR] is one
    assert found.evidence[TPR] == CROSSED
    assert found.breach_since == {}


@pytest.mark.parametrize(("share", "expected"), [(0.95, State.BREACH), (0.85, State.MATURING)])
def test_a_few_missing_labels_end_no_breach(share: float, expected: State) -> None:
    with_labels = replace(row(State.MATURING), completeness=share)
    assert with_findings(with_labels, FOUND).states[TPR] is expected


def test_what_is_hidden_says_nothing() -> None:
    plain = SliceRow(CHAT, HIDDEN)
    assert with_findings(plain, FOUND) == plain


def test_a_hidden_metric_of_a_row_that_is_shown_says_nothing() -> None:
    found = with_findings(row(State.SUPPRESSED), FOUND)
    assert found.states[TPR] is State.SUPPRESSED
    assert found.evidence == {Metric.FPR: 2}
    assert found.breach_since == {}


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({}, NOTED),
        ({TPR: State.SUPPRESSED}, (OF_BLOCKED, OF_NONE)),
        ({Metric.BLOCKED: State.SUPPRESSED}, (OF_TPR, OF_NONE)),
        ({TPR: State.SUPPRESSED, Metric.FPR: State.SUPPRESSED}, (OF_BLOCKED,)),
        (HIDDEN, ()),
    ],
)
def test_what_is_noted_of_a_metric_is_shown_with_it_and_what_is_of_none_with_any_labelled_one(
    states: dict[Metric, State], expected: tuple[Noted, ...]
) -> None:
    shown = {TPR: State.INCONCLUSIVE, Metric.FPR: State.MATURING, Metric.BLOCKED: State.SUSPECTED}
    assert with_findings(SliceRow(CHAT, shown | states), FOUND).noted == expected


@pytest.mark.parametrize("text", ["channel=__other__", "channel=chat,region=__other__"])
def test_a_row_of_undeclared_values_takes_nothing(text: str) -> None:
    plain = row(State.SUSPECTED, text)
    assert with_findings(plain, crossed(text)) == plain
