"""Which rows say what was found of their slice: those that are the very slice, and are shown."""

from __future__ import annotations

import pytest
from cubes import CODING, LIMITS, auto, contract, review, window

from monitor.core.contract import GroupBy, Metric, State
from monitor.core.privacy.pooling import MergeMap
from monitor.core.publish.annotations import Annotation
from monitor.core.publish.contract_tables import Builder
from monitor.core.publish.snapshot import Noted, SliceRow
from monitor.core.publish.states import CROSSED, GroupFindings, SliceEvidence, hidden, with_findings

KEPT = MergeMap({"channel": ("__other__", "chat", "email")})
CHAT = "channel=chat"
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
    found = with_findings(row(one), FOUND, KEPT)
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
    found = with_findings(row(one), findings, KEPT)
    assert found.states[TPR] is expected
    assert found.breach_since == {}


@pytest.mark.parametrize("one", [State.INSUFFICIENT_SUPPORT, State.MATURING])
def test_lost_support_and_labels_that_are_out_stay_visible(one: State) -> None:
    found = with_findings(row(one), FOUND, KEPT)
    assert found.states[TPR] is one
    assert found.evidence[TPR] == CROSSED
    assert found.breach_since == {}


def test_what_is_hidden_says_nothing() -> None:
    plain = SliceRow(CHAT, hidden(Metric))
    assert with_findings(plain, FOUND, KEPT) == plain


def test_a_hidden_metric_of_a_row_that_is_shown_says_nothing() -> None:
    found = with_findings(row(State.SUPPRESSED), FOUND, KEPT)
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
        (hidden(Metric), ()),
    ],
)
def test_what_is_noted_of_a_metric_is_shown_with_it_and_what_is_of_none_with_any_labelled_one(
    states: dict[Metric, State], expected: tuple[Noted, ...]
) -> None:
    shown = {TPR: State.INCONCLUSIVE, Metric.FPR: State.MATURING, Metric.BLOCKED: State.SUSPECTED}
    assert with_findings(SliceRow(CHAT, shown | states), FOUND, KEPT).noted == expected


@pytest.mark.parametrize("text", ["channel=fax", "channel=__other__"])
def test_a_row_of_another_set_than_the_stream_s_takes_nothing(text: str) -> None:
    plain = row(State.SUSPECTED, text)
    assert with_findings(plain, crossed(text), KEPT) == plain


def test_an_intersection_with_a_pooled_part_is_another_set() -> None:
    pooling = MergeMap({"channel": ("__other__", "chat"), "region": ("__other__", "north")})
    text, whole = "channel=chat,region=__other__", "channel=chat,region=north"
    findings = crossed(text, whole)
    part, alone = (with_findings(row(State.SUSPECTED, t), findings, pooling) for t in (text, whole))
    assert (part.evidence, part.noted) == ({}, ())
    assert (alone.evidence, alone.noted) == ({TPR: CROSSED}, (OF_TPR, OF_NONE))


def table(findings: GroupFindings | None, chat: int) -> dict[str, SliceRow]:
    """Chat and email, alike; of chat so many decisions in each route."""
    cells = [
        make({"channel": name}, n, n, n * 6 // 10)
        for name, n in (("chat", chat), ("email", 2_000), ("fax", 2_000))
        for make in (auto, review)
    ]
    group = GroupBy(("channel",))
    builder = Builder(contract(group, limits=LIMITS), CODING)
    pooled = builder.pooled(group, window(cells).blocks, KEPT)
    built = builder.group(pooled, findings=findings)
    return {row.slice: row for row in built.rows}


def test_in_a_table_the_row_that_kept_its_name_takes_the_crossing() -> None:
    names = ("chat", "fax", "__other__", "__missing__")
    findings = crossed(*(f"channel={name}" for name in names))
    before, after = table(None, 2_000), table(findings, 2_000)
    assert before[CHAT].states[TPR] is State.WITHIN_CONTRACT
    assert after[CHAT].states[TPR] is State.BREACH
    assert {text for text, one in after.items() if one.breach_since} == {CHAT}
    assert {text for text, one in after.items() if one.noted} == {CHAT}
    assert after["channel=__other__"].states == before["channel=__other__"].states
    assert after[CHAT].rates == before[CHAT].rates


def test_in_a_table_too_little_support_is_no_breach() -> None:
    (few,) = (row for text, row in table(FOUND, 30).items() if text == CHAT)
    assert few.states[TPR] is State.INSUFFICIENT_SUPPORT
    assert few.evidence[TPR] == CROSSED
