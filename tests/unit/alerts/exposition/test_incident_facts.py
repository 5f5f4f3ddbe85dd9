"""What a notification states of an incident is what the tables show, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alerts.exposition.incident_facts import IncidentFacts, SideRate
from monitor.core.contract import COMPLEMENT, Severity
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Behind, IncidentKind
from monitor.core.publish.snapshot import (
    WITHHELD,
    ComponentChange,
    ContractTable,
    GroupTable,
    LimitKind,
    PublishedValue,
    ShownGap,
    ShownIncident,
    ShownLimit,
    ShownRate,
    SliceRow,
    WindowTable,
)
from monitor.core.publish.window_says import WindowSays
from monitor.core.state import State

FOUND = 1_790_000_000_000_000
NOW = PublishedValue(0.21, 0.15, 0.27, FOUND)


def row(name: str, rate: float | None, gap: ShownGap | None, metric: Metric) -> SliceRow:
    shown = ShownRate(rate, 0.0, 1.0, 456, at_most=None if rate is not None else 0.05)
    gaps = {metric: gap} if gap else {}
    return SliceRow(name, dict.fromkeys(Metric, State.BREACH), {metric: shown}, gaps)


def table(*rows: SliceRow, total: SliceRow | None = None) -> ContractTable:
    other = WindowTable(
        "24h", SliceRow("", {}), (GroupTable("city", (SliceRow("city=lagos", {}),)),)
    )
    decides = WindowTable("7d", total or SliceRow("", {}), (GroupTable("city", rows),))
    return ContractTable(
        *("replies", "1", "team", False, 11, "7d"),
        {Metric.TPR: 0.1, Metric.FPR: 0.1},
        {Metric.TPR: 0.6},
        {},
        {},
        (other, decides),
    )


def incident(metric: Metric, latest: PublishedValue | None = NOW, **more: object) -> ShownIncident:
    of_it: dict[str, object] = {
        "group_by": "city",
        "slice": "city=lagos",
        "latest": latest,
        "behind": Behind.SLICE,
    }
    of_it |= {"limit": ShownLimit(LimitKind.MAX_GAP, 0.1)}
    return ShownIncident(7, IncidentKind.BREACH, Severity.PAGE, metric, FOUND, **{**of_it, **more})  # type: ignore[arg-type]


def gap(reference: str, value: float | None = 0.21) -> ShownGap:
    return ShownGap(reference, value, None, None)


def test_both_rates_are_those_of_the_rows() -> None:
    metric = Metric.TPR
    shown = table(
        row("city=lagos", 0.67, gap("city=york"), metric), row("city=york", 0.88, None, metric)
    )

    facts = IncidentFacts.from_incident(shown, incident(metric))

    assert facts.sides == (
        SideRate("slice", "city=lagos", 0.67),
        SideRate("reference", "city=york", 0.88),
    )
    assert facts.window_end == FOUND
    assert facts.window_says is WindowSays.OUTSIDE_LIMIT


@pytest.mark.parametrize(
    ("metric", "rate", "others"),
    [(Metric.TPR, 0.67, 0.88), (Metric.FPR, 0.3, 0.09), (Metric.BLOCKED, 0.4, 0.19)],
)
def test_the_rate_of_all_others_follows_from_the_gap_and_its_sign(
    metric: Metric, rate: float, others: float
) -> None:
    shown = table(row("city=lagos", rate, gap(COMPLEMENT), metric))

    sides = IncidentFacts.from_incident(shown, incident(metric)).sides

    assert [(one.side, one.slice) for one in sides] == [
        ("slice", "city=lagos"),
        ("reference", COMPLEMENT),
    ]
    assert sides[1].rate == pytest.approx(others)


def test_of_a_hidden_slice_there_is_nothing() -> None:
    shown = table(row("city=lagos", 0.67, gap(COMPLEMENT), Metric.TPR))
    hidden = incident(Metric.TPR, None, group_by="", slice=WITHHELD, behind=None, limit=None)

    assert IncidentFacts.from_incident(shown, hidden) == IncidentFacts()


@pytest.mark.parametrize("reference", [COMPLEMENT, "city=york"])
def test_both_sides_are_told_where_one_is_coded(reference: str) -> None:
    """Too few unready replies were served in one of two cities."""
    metric = Metric.FPR
    unknown = PublishedValue(None, -0.04, 0.42, FOUND)
    rare_elsewhere = table(
        row("city=lagos", 0.3, gap(reference, None), metric), row("city=york", None, None, metric)
    )
    rare_here = table(
        row("city=lagos", None, gap(reference, None), metric), row("city=york", 0.3, None, metric)
    )
    coded = IncidentFacts.from_incident(rare_elsewhere, incident(metric, unknown)).sides
    assert coded[0] == SideRate("slice", "city=lagos", 0.3)
    assert coded[1] == SideRate("reference", reference, 0.05, "at_most")
    assert IncidentFacts.from_incident(rare_here, incident(metric, unknown)).sides == (
        SideRate("slice", "city=lagos", 0.05, "at_most"),
        SideRate("reference", reference, 0.3),
    )


def test_of_several_others_no_more_is_told_than_their_rows_tell() -> None:
    metric = Metric.FPR
    unknown = incident(metric, PublishedValue(None, -0.04, 0.42, FOUND))
    lagos = row("city=lagos", 0.3, gap(COMPLEMENT, None), metric)
    york, rome = row("city=york", None, None, metric), row("city=rome", 0.02, None, metric)
    assert IncidentFacts.from_incident(table(lagos, york, rome), unknown).sides[1:] == (
        SideRate("reference", COMPLEMENT, 0.05, "at_most"),
    )
    hidden = SliceRow("city=rome", dict.fromkeys(Metric, State.SUPPRESSED))
    assert IncidentFacts.from_incident(table(lagos, york, hidden), unknown).sides[1:] == ()
    gone = row("city=lagos", 0.3, gap("city=gone", None), metric)
    assert IncidentFacts.from_incident(table(gone, york), unknown).sides[1:] == ()


@pytest.mark.parametrize(
    ("latest", "says"),
    [
        (PublishedValue(0.5, 0.4, 0.6, FOUND - 1), WindowSays.NOTHING_YET),
        (PublishedValue(0.06, 0.0, 0.1, FOUND), WindowSays.WITHIN_LIMIT),
        (PublishedValue(0.1, 0.0, 0.2, FOUND + 1), WindowSays.WITHIN_LIMIT),
        (PublishedValue(0.88 - 0.78, 0.0, 0.2, FOUND), WindowSays.WITHIN_LIMIT),
        (PublishedValue(-0.06, -0.1, 0.0, FOUND), WindowSays.WITHIN_LIMIT),
        (PublishedValue(0.11, 0.1, 0.2, FOUND), WindowSays.UNSURE),
        (PublishedValue(-0.19, -0.42, 0.04, FOUND), WindowSays.UNSURE),
        (PublishedValue(None, -0.04, 0.42, FOUND), WindowSays.UNSURE),
        (PublishedValue(None, 0.11, 0.42, FOUND), WindowSays.OUTSIDE_LIMIT),
        (PublishedValue(0.12, 0.11, 0.2, FOUND), WindowSays.OUTSIDE_LIMIT),
        (PublishedValue(-0.12, -0.2, -0.11, FOUND), WindowSays.OUTSIDE_LIMIT),
    ],
)
def test_a_window_that_does_not_show_the_breach_says_so(
    latest: PublishedValue, says: WindowSays
) -> None:
    shown = table(row("city=lagos", 0.67, gap(COMPLEMENT), Metric.TPR))

    assert IncidentFacts.from_incident(shown, incident(Metric.TPR, latest)).window_says is says


@pytest.mark.parametrize(
    ("value", "upper", "says"),
    [
        (0.55, 0.58, WindowSays.OUTSIDE_LIMIT),
        (0.59, 0.7, WindowSays.UNSURE),
        (0.6, 0.7, WindowSays.WITHIN_LIMIT),
    ],
)
def test_a_level_is_of_the_slice_alone_also_of_all_decisions(
    value: float, upper: float, says: WindowSays
) -> None:
    shown = table(total=row("", value, None, Metric.TPR))
    latest = PublishedValue(value, 0.5, upper, FOUND)
    limit = ShownLimit(LimitKind.MIN_LEVEL, 0.6)
    level = incident(Metric.TPR, latest, group_by="", slice="", behind=Behind.LEVEL, limit=limit)

    facts = IncidentFacts.from_incident(shown, level)

    assert facts.sides == (SideRate("slice", "", value),)
    assert facts.window_says is says


@pytest.mark.parametrize(
    ("ratio", "behind", "relative", "says"),
    [
        (0.75, Behind.SLICE, 0.75, WindowSays.OUTSIDE_LIMIT),
        (1.6, Behind.REFERENCE, 0.62, WindowSays.OUTSIDE_LIMIT),
        (0.78, Behind.SLICE, 0.78, WindowSays.UNSURE),
        (0.8, Behind.SLICE, 0.8, WindowSays.WITHIN_LIMIT),
        (None, Behind.SLICE, None, WindowSays.UNKNOWN),
    ],
)
def test_a_broken_ratio_is_told_and_not_the_gap(
    ratio: float | None, behind: Behind, relative: float | None, says: WindowSays
) -> None:
    metric = Metric.SELECTION
    bounds = (None, None) if ratio is None else (ratio - 0.04, ratio + 0.04)
    compared = ShownGap("city=york", 0.21, None, None, ratio, *bounds)
    rows = row("city=lagos", 0.6, compared, metric), row("city=york", 0.8, None, metric)
    broken = incident(metric, behind=behind, limit=ShownLimit(LimitKind.MIN_RATIO, 0.8))
    facts = IncidentFacts.from_incident(table(*rows), broken)
    assert (facts.relative, facts.window_says) == (relative, says)


@pytest.mark.parametrize(
    ("limit", "says"),
    [(0.1, WindowSays.OUTSIDE_LIMIT), (0.2, WindowSays.UNSURE), (0.3, WindowSays.WITHIN_LIMIT)],
)
def test_a_gap_is_told_by_the_limit_that_it_broke(limit: float, says: WindowSays) -> None:
    metric = Metric.SELECTION
    rows = row("city=lagos", 0.6, ShownGap("city=york", 0.21, None, None, 0.7), metric)
    limited = replace(table(rows), max_gaps={metric: 0.01}, min_ratios={metric: 0.8})
    broken = incident(metric, limit=ShownLimit(LimitKind.MAX_GAP, limit))
    facts = IncidentFacts.from_incident(limited, broken)
    assert (facts.relative, facts.window_says) == (None, says)


def test_versions_are_words_of_bounded_length_and_need_no_number() -> None:
    long = "v" * 64
    changed = (
        ComponentChange("judge", "", "j2"),
        *(ComponentChange(name, long, long) for name in ("policy", "router", "rubric")),
        ComponentChange("threshold", "0.7", "0.75"),
    )
    facts = IncidentFacts.from_incident(
        table(), incident(Metric.TPR, None, versions_changed=changed)
    )
    assert facts.versions.startswith("judge (none) -> j2, policy vvv")
    assert facts.versions.endswith("..., threshold 0.7 -> 0.75")
    assert len(facts.versions) < 500
