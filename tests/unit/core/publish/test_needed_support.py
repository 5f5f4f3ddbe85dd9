"""From which support on a reader can see that a limit is kept."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from cubes import CODING, LIMITS, auto, contract, review, slices
from monitor.core.publish.suppression import ShownColumns, as_decided, show, show_gaps

from monitor.core.contract import GroupBy, Metric
from monitor.core.intervals import Z95
from monitor.core.privacy.bands import Precision, edges
from monitor.core.publish.needed_support import RATES, displayable
from monitor.core.rates.estimates import Measured, measure
from monitor.core.rates.gaps import GapColumns, gap, simultaneous_z, verdicts_together
from monitor.core.rates.tolerance import Tolerance

SETTINGS = contract(GroupBy(("channel",)), limits=replace(LIMITS, max_blocked_gap=None))
K11 = Precision(11)


def published_bound(n: int, share: float) -> float:
    """Upper bound of the gap of two slices of one size and one rate, by the real way."""

    def one(name: str) -> tuple[Measured, ShownColumns]:
        served = round(n * share)
        cells = [auto({"channel": name}, served), review({"channel": name}, n - served)]
        found = measure(slices(cells), CODING, Metric.SELECTION)
        return found, show(found.columns(Z95), np.array([True]), K11)

    (first, chat), (other, email) = one("chat"), one("email")

    def gaps_at(z: float) -> GapColumns:
        return gap(first.columns(z), other.columns(z))

    enough = np.array([True])
    verdicts = verdicts_together(gaps_at, Tolerance.of_gap(0.1), enough, 1)
    shown = show_gaps(chat, email, simultaneous_z(1), K11)
    return float(as_decided(shown, verdicts, enough, Tolerance.of_gap(0.1)).upper[0])


def test_the_limit_is_kept_from_there_on_and_not_one_band_earlier() -> None:
    tpr, fpr = displayable(SETTINGS, 2)
    assert (tpr.metric, fpr.metric, tpr.limit) == (Metric.TPR, Metric.FPR, Fraction(1, 10))
    bands = edges(11)
    for support, rate in zip(tpr.at_rates, RATES, strict=True):
        assert support is not None
        assert published_bound(support, rate) <= 0.1
        assert published_bound(bands[bands.index(support) - 1], rate) > 0.1


def test_coded_rates() -> None:
    need = displayable(SETTINGS, 2)[0]
    assert need.coded is not None
    assert published_bound(need.coded, 1 - 10 / need.coded) <= 0.1
    below = edges(11)[edges(11).index(need.coded) - 1]
    assert published_bound(below, 1 - 10 / below) > 0.1


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
