"""From which support on a reader can see that a limit is kept."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from cubes import CODING, LIMITS, auto, build_contract, contract, review, window

from monitor.core.contract import GroupBy, Verdict
from monitor.core.metric import Metric
from monitor.core.publish.needed_support import RATES, displayable
from monitor.core.tables.bands import Coarseness, edges

SETTINGS = contract(GroupBy(("channel",)), limits=replace(LIMITS, max_blocked_gap=None))
BANDS = edges(11, Coarseness.FINE).tolist()


def published(n: int, hits: int) -> Verdict | None:
    """The verdict on two slices that each have so many ready replies and served ones."""
    cells = [
        make({"channel": name}, count, count, count)
        for name in ("chat", "email")
        for make, count in ((auto, hits), (review, n - hits))
    ]
    (window_table,) = build_contract(SETTINGS, CODING, [window(cells)]).windows
    return window_table.groups[0].rows[0].gaps[Metric.TPR].verdict


def below(support: int) -> int:
    return int(BANDS[BANDS.index(support) - 1])


def test_the_limit_is_kept_from_there_on_and_not_one_band_earlier() -> None:
    tpr, fpr = displayable(SETTINGS, 2)
    assert (tpr.metric, fpr.metric, tpr.limit) == (Metric.TPR, Metric.FPR, Fraction(1, 10))
    for support, rate in zip(tpr.at_rates, RATES, strict=True):
        assert support is not None
        assert published(support, round(support * rate)) is Verdict.PASS
        earlier = below(support)
        assert published(earlier, round(earlier * rate)) is Verdict.INCONCLUSIVE


def test_tighter_limits_and_more_slices_need_more() -> None:
    few, many = displayable(SETTINGS, 2)[0], displayable(SETTINGS, 10)[0]
    tight = replace(SETTINGS, limits=replace(SETTINGS.limits, max_tpr_gap=Fraction(1, 20)))
    tighter = displayable(tight, 2)[0]
    for a, b, c in zip(few.at_rates, many.at_rates, tighter.at_rates, strict=True):
        assert a is not None
        assert b is not None
        assert c is not None
        assert a < b
        assert a < c


def test_no_limit_is_shown_by_no_support() -> None:
    none = replace(SETTINGS, limits=replace(SETTINGS.limits, max_tpr_gap=Fraction(0)))
    assert displayable(none, 2)[0].at_rates == (None, None)
