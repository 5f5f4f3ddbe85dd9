"""One harm is told once: of the slice that is worse off, not of its mirror or whoever is ahead."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from cubes import CODING, LIMITS, auto, build_contract, contract, review, window

from monitor.core.contract import GroupBy, OwnLimits, Verdict
from monitor.core.counts.cells import Route
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Fault
from monitor.core.publish.conclusion import LimitCheck, checks, overall
from monitor.core.publish.headlines import contract_headline
from monitor.core.publish.lines import SliceLine, line, places, ranked
from monitor.core.publish.sides import listed, turned
from monitor.core.publish.snapshot import (
    ContractTable,
    LabelsAtFault,
    LimitKind,
    ShownGap,
    ShownLimit,
)
from monitor.core.publish.states import with_missing_labels
from monitor.core.state import State

TPR = Metric.TPR
CHANNEL = GroupBy(("channel",))
MANY = 20_000
MAX_GAP = ShownLimit(LimitKind.MAX_GAP, 0.1)


def table(
    *, group: GroupBy = CHANNEL, own: tuple[OwnLimits, ...] = (), **tprs: float
) -> ContractTable:
    """As many decisions of each channel, half of them ready, with these TPRs and one FPR."""
    cells = []
    for channel, tpr in tprs.items():
        ready = int(MANY / 2 * tpr)
        served, held = ready + MANY // 20, MANY - ready - MANY // 20
        cells += [
            auto({"channel": channel}, served, served, ready),
            review({"channel": channel}, held, held, MANY // 2 - ready),
        ]
    made = contract(group, k=1, synthetic=True, own_limits=own)
    return build_contract(made, CODING, [window(cells)])


def judged(made: ContractTable) -> list[LimitCheck]:
    return [check for check in checks(made, made.windows[0]) if check.metric is TPR]


def failing(made: ContractTable) -> list[str]:
    return [check.name for check in judged(made) if check.verdict is Verdict.FAIL]


def states(made: ContractTable) -> dict[str, State]:
    (group,) = made.windows[0].groups
    return {row.slice.removeprefix("channel="): row.states[TPR] for row in listed(group)}


def lines(made: ContractTable) -> dict[str, SliceLine]:
    found = (line(place, (TPR,)) for place in places(made, made.windows[0]))
    return {one.slice: one for one in ranked(found)}


def sentence(made: ContractTable) -> str:
    return contract_headline(made, made.windows[0], tuple(lines(made).values())).sentence


def test_of_two_slices_the_one_that_is_worse_off_fails_and_the_other_is_its_mirror() -> None:
    made = table(chat=0.9, email=0.6)
    assert states(made) == {"chat": State.BETTER_OFF, "email": State.SUSPECTED}
    assert judged(made) == [LimitCheck(TPR, "channel=email", Verdict.FAIL, MAX_GAP)]
    assert sentence(made).startswith("channel=email: ready replies served")
    assert lines(made)["channel=chat"].cells[0].mirror_of == "channel=email"
    assert lines(made)["channel=email"].cells[0].mirror_of == ""


def test_a_check_is_named_as_people_read_it() -> None:
    check = LimitCheck(TPR, "channel=chat,variety=a", Verdict.FAIL, of_rest=True)
    assert check.name == "all but channel=chat, variety=a"
    assert LimitCheck(TPR, "", Verdict.FAIL).name == "all decisions"


@pytest.mark.parametrize(("email", "verdict"), [(0.9, Verdict.PASS), (0.8, Verdict.INCONCLUSIVE)])
def test_two_slices_are_one_check_whatever_it_says(email: float, verdict: Verdict) -> None:
    (check,) = judged(table(chat=0.9, email=email))
    assert check.verdict is verdict


def test_of_several_slices_those_that_are_dragged_along_are_not_counted() -> None:
    made = table(chat=0.9, email=0.3, post=0.9)
    assert states(made) == {
        "chat": State.BETTER_OFF,
        "email": State.SUSPECTED,
        "post": State.BETTER_OFF,
    }
    assert judged(made) == [LimitCheck(TPR, "channel=email", Verdict.FAIL, MAX_GAP)]


def test_a_slice_that_all_others_together_are_worse_off_than_is_told_as_a_harm_to_them() -> None:
    """Each of the others is within its limit: none of them says so by itself."""
    ordinary = {f"c{i}": 0.7 for i in range(9)}
    made = table(group=CHANNEL, own=(), chat=0.85, **ordinary)
    assert states(made) == {"chat": State.BETTER_OFF} | dict.fromkeys(
        ordinary, State.WITHIN_CONTRACT
    )
    assert failing(made) == ["all but channel=chat"]
    assert len(judged(made)) == 1 + len(ordinary)
    assert overall(check.verdict for check in judged(made)) is Verdict.FAIL
    assert "all but channel=chat: ready replies served less often than for channel=chat" in (
        sentence(made)
    )


def test_a_named_reference_that_is_worse_off_fails_once_by_its_own_name() -> None:
    group = GroupBy(("channel",), "channel=email")
    made = table(group=group, chat=0.9, email=0.6, post=0.8)
    assert states(made) == {
        "chat": State.BETTER_OFF,
        "email": State.SUSPECTED,
        "post": State.BETTER_OFF,
    }
    assert judged(made) == [LimitCheck(TPR, "channel=email", Verdict.FAIL, MAX_GAP)]
    assert "channel=email: ready replies served less often than for channel=chat" in (
        sentence(made)
    )
    gap = lines(made)["channel=email"].cells[0].gap
    assert gap is not None
    assert gap.reference == "channel=chat"
    assert gap.value == pytest.approx(0.3)


def test_a_named_reference_is_judged_by_the_limit_of_the_slice_that_it_is_behind() -> None:
    group = GroupBy(("channel",), "channel=email")
    own = OwnLimits("channel", "channel=chat", (("max_tpr_gap", Fraction(1, 20)),))
    made = table(group=group, own=(own,), chat=0.78, email=0.7)
    assert judged(made) == [
        LimitCheck(TPR, "channel=email", Verdict.FAIL, ShownLimit(LimitKind.MAX_GAP, 0.05))
    ]
    assert "(8 points, limit 5)" in sentence(made)


def test_a_ratio_turned_round_keeps_what_is_not_bounded() -> None:
    compared = ShownGap("channel=email", -0.3, -0.4, -0.2, 2.5, 2.01, None)
    assert turned(compared, "channel=chat") == ShownGap(
        "channel=chat", 0.3, 0.2, 0.4, 0.4, 0.0, 0.4975
    )
    coded = ShownGap("channel=email", None, -0.4, -0.2, least=-0.5, most=0.1)
    assert turned(coded, "channel=chat") == ShownGap(
        "channel=chat", None, 0.2, 0.4, least=-0.1, most=0.5
    )


def test_a_slice_behind_the_reference_and_one_ahead_of_it_are_two_harms() -> None:
    group = GroupBy(("channel",), "channel=email")
    made = table(group=group, chat=0.9, email=0.7, post=0.5)
    assert failing(made) == ["channel=email", "channel=post"]


def test_two_slices_with_limits_of_their_own_are_two_checks() -> None:
    """Chat may be further behind than email may be ahead: the limit of email is broken by chat."""
    own = OwnLimits("channel", "channel=chat", (("max_tpr_gap", Fraction(3, 10)),))
    made = table(own=(own,), chat=0.7, email=0.88)
    assert states(made) == {"chat": State.WITHIN_CONTRACT, "email": State.BETTER_OFF}
    assert failing(made) == ["all but channel=email"]
    assert len(judged(made)) == 2
    assert LIMITS.max_tpr_gap == Fraction(1, 10)


def test_a_level_is_kept_by_each_of_two_slices() -> None:
    limits = (("min_tpr", Fraction(9, 10)),)
    made = table(own=(OwnLimits("channel", "", limits),), chat=0.8, email=0.78)
    assert failing(made) == ["channel=chat", "channel=email"]


def test_labels_that_one_of_two_slices_lacks_are_not_lost_with_its_mirror() -> None:
    made = table(chat=0.89, email=0.9)
    lacks = LabelsAtFault("channel", "channel=email", Route.HUMAN_REVIEW, Fault.MISSING, 0, 0.5)
    unripe = with_missing_labels(replace(made, labels_at_fault=(lacks,)))
    verdicts = [check.verdict for check in judged(unripe)]
    assert sorted(verdicts) == [Verdict.INSUFFICIENT_SUPPORT, Verdict.PASS]


def test_of_two_coded_gaps_the_middle_of_the_bounds_says_who_is_worse_off() -> None:
    made = table(chat=0.9, email=0.8)
    (group,) = made.windows[0].groups
    rows = tuple(
        replace(row, gaps={TPR: replace(row.gaps[TPR], value=None)} if row.gaps else {})
        for row in group.rows
    )
    coded = replace(made.windows[0], groups=(replace(group, rows=rows),))
    (check,) = judged(replace(made, windows=(coded,)))
    assert (check.name, check.verdict) == ("channel=email", Verdict.INCONCLUSIVE)
