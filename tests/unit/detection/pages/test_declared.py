"""What the settings declare before any data is seen."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from monitor.core.contract import Contract, GroupBy, Limits, OwnLimits
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.metric import Metric
from monitor.detection.pages.budget import RESERVE, Budget
from monitor.detection.pages.declared import all_streams, comparisons, declared_slices
from monitor.detection.pages.streams import Direction, Stream, StreamKind

CODING = Coding((Attribute("channel", ("chat", "email")), Attribute("tone", ("formal",))))


def contract(
    *groups: GroupBy,
    blocked: str | None = None,
    min_tpr: str | None = None,
    selection: str | None = None,
    ratio: str | None = None,
) -> Contract:
    limits = Limits(
        max_tpr_gap=Fraction("0.10"),
        max_fpr_gap=Fraction("0.08"),
        max_blocked_gap=Fraction(blocked) if blocked else None,
        min_tpr=Fraction(min_tpr) if min_tpr else None,
        max_fpr=None,
        min_positives=50,
        min_negatives=30,
        max_selection_gap=Fraction(selection) if selection else None,
        min_selection_ratio=Fraction(ratio) if ratio else None,
    )
    return Contract("replies", "1", "owner", limits, "7d", groups, False, 11)


def test_other_and_missing_are_slices_like_any() -> None:
    assert declared_slices(GroupBy(("channel",)), CODING) == (
        "channel=__missing__",
        "channel=__other__",
        "channel=chat",
        "channel=email",
    )
    assert len(declared_slices(GroupBy(("channel", "tone")), CODING)) == 4 * 3


def test_every_slice_is_compared_with_the_rest_in_both_directions() -> None:
    group = GroupBy(("channel",))
    found = comparisons(contract(group), group, Metric.TPR, StreamKind.GAP, CODING)
    slices = declared_slices(group, CODING)
    assert [stream.slice for stream in found.streams] == [slices[row] for row in found.rows]
    assert {stream.slice for stream in found.streams} == {*slices} - {"channel=__missing__"}
    assert all(stream.limit == Fraction("0.10") for stream in found.streams)
    flags = [stream.direction is Direction.REFERENCE_WORSE for stream in found.streams]
    assert flags == [False, True] * 3


def test_a_named_reference_is_not_compared_with_itself() -> None:
    group = GroupBy(("channel",), "channel=chat")
    found = comparisons(contract(group), group, Metric.FPR, StreamKind.GAP, CODING)
    assert {stream.slice for stream in found.streams} == {"channel=email", "channel=__other__"}
    assert {stream.reference for stream in found.streams} == {"channel=chat"}


def test_what_has_no_limit_has_no_stream() -> None:
    group = GroupBy(("channel",))
    limited = contract(group, blocked="0.1", min_tpr="0.8")
    for metric, kind, wanted in [
        (Metric.BLOCKED, StreamKind.GAP, 6),
        (Metric.TPR, StreamKind.LEVEL, 3),
        (Metric.FPR, StreamKind.LEVEL, 0),
        (Metric.SELECTION, StreamKind.GAP, 0),
    ]:
        assert len(comparisons(limited, group, metric, kind, CODING).streams) == wanted
    selected = contract(group, selection="0.15")
    found = comparisons(selected, group, Metric.SELECTION, StreamKind.GAP, CODING).streams
    assert {stream.limit for stream in found} == {Fraction("0.15")}
    assert len(found) == 6
    gone = GroupBy(("channel",), "channel=fax")
    assert comparisons(limited, gone, Metric.TPR, StreamKind.GAP, CODING).streams == ()


def test_all_of_them_have_keys_of_their_own() -> None:
    groups = (GroupBy(("channel",)), GroupBy(("channel", "tone")))
    streams = all_streams([contract(*groups, min_tpr="0.8")], CODING)
    assert len({stream.key for stream in streams}) == len(streams) == len({*streams})
    assert {stream.depth for stream in streams} == {1, 2}


def test_a_ratio_has_streams_of_its_own_in_both_directions() -> None:
    group = GroupBy(("channel",), "channel=chat")
    limited = contract(group, ratio="0.8")
    found = comparisons(limited, group, Metric.SELECTION, StreamKind.RATIO, CODING).streams
    assert {stream.slice for stream in found} == {"channel=email", "channel=__other__"}
    assert {(stream.limit, stream.compares) for stream in found} == {(Fraction(4, 5), True)}
    assert len(found) == 2 * len(Direction)
    assert Stream.parse(found[0].key) == found[0]
    declared = all_streams([limited], CODING)
    assert [one for one in declared if one.kind is StreamKind.RATIO] == list(found)
    assert all_streams([contract(group)], CODING) == declared[: -len(found)]
    nobody = GroupBy(("channel",), "channel=fax")
    assert not comparisons(limited, nobody, Metric.SELECTION, StreamKind.RATIO, CODING).streams


def test_an_undeclared_ratio_leaves_everybody_the_same_weight() -> None:
    group = GroupBy(("channel",))
    without, with_ratio = (
        Budget().declare(all_streams([contract(group, ratio=ratio)], CODING))
        for ratio in (None, "0.8")
    )
    kept = {key: weight for key, weight in with_ratio.weights.items() if "|ratio|" not in key}
    shares = [weight / without.weights[key] for key, weight in kept.items()]
    assert kept.keys() == without.weights.keys()
    assert shares == pytest.approx([0.6 / 0.8] * len(shares))
    assert math.fsum(with_ratio.weights.values()) == pytest.approx(1 - RESERVE)


OWN = (
    OwnLimits("channel", "", (("max_tpr_gap", Fraction("0.20")),)),
    OwnLimits("channel", "channel=chat", (("max_tpr_gap", Fraction("0.05")),)),
    OwnLimits("channel", "channel=email", (("min_tpr", Fraction("0.70")),)),
)


def test_the_most_specific_limit_holds() -> None:
    one = replace(contract(GroupBy(("channel",)), GroupBy(("tone",))), own_limits=OWN)
    assert one.limits_of("tone", "tone=formal") == one.limits == one.limits_of("", "")
    assert one.limits_of("channel").max_tpr_gap == Fraction("0.20")
    assert one.limits_of("channel", "channel=chat").max_tpr_gap == Fraction("0.05")
    email = one.limits_of("channel", "channel=email")
    assert (email.max_tpr_gap, email.min_tpr) == (Fraction("0.20"), Fraction("0.70"))
    assert email.max_fpr_gap == Fraction("0.08"), "where it says nothing, the contract does"


def test_every_stream_has_the_limit_of_its_slice() -> None:
    groups = GroupBy(("channel",)), GroupBy(("tone",))
    one = replace(contract(*groups), own_limits=OWN)
    found = comparisons(one, groups[0], Metric.TPR, StreamKind.GAP, CODING)
    assert {(s.slice, s.limit) for s in found.streams} == {
        ("channel=chat", Fraction("0.05")),
        ("channel=email", Fraction("0.20")),
        ("channel=__other__", Fraction("0.20")),
    }
    levels = comparisons(one, groups[0], Metric.TPR, StreamKind.LEVEL, CODING).streams
    assert [(s.slice, s.limit) for s in levels] == [("channel=email", Fraction("0.70"))]
    others = comparisons(one, groups[1], Metric.TPR, StreamKind.GAP, CODING).streams
    assert {s.limit for s in others} == {Fraction("0.10")}
    weights = Budget().declare(all_streams([one], CODING)).weights
    assert math.fsum(weights.values()) == pytest.approx(1 - RESERVE)
