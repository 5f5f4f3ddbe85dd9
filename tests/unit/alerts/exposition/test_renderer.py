from __future__ import annotations

import gzip
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from alerts.exposition.catalogue import CATALOGUE, PAGE, MetricKind
from alerts.exposition.exporter import (
    OPENMETRICS,
    STALE_SECONDS,
    TEXT,
    Exporter,
    accepts_gzip,
    wants_openmetrics,
)
from alerts.exposition.renderer import EMPTY, Page, Renderer, gzipped
from alerts.exposition.samples import label_text
from alerts.exposition.service_metrics import ServiceMetrics
from monitor.core.contract import Severity, Verdict
from monitor.core.counts.cells import Route
from monitor.core.metric import Metric
from monitor.core.probes.flips import Expected, FlipDirection
from monitor.core.publish.annotations import Annotation, Behind, Fault, IncidentKind, Share, Stage
from monitor.core.publish.snapshot import (
    CalibrationCell,
    ComponentChange,
    ContractTable,
    GroupTable,
    LabelsAtFault,
    LimitKind,
    Noted,
    OwnLimit,
    Period,
    PublishedValue,
    RequestsAtFault,
    ShownAgreement,
    ShownFlips,
    ShownGap,
    ShownIncident,
    ShownLimit,
    ShownProbeSet,
    ShownRate,
    ShownStage,
    SliceRow,
    Snapshot,
    Spread,
    WindowTable,
    decode,
    encode,
)
from monitor.core.state import State
from monitor.core.time import DAY

ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
AT = 1_790_000_000_000_000
Labels = dict[str, str]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

TPR = ShownRate(0.83, 0.43, 0.98, 26)
CODED = ShownRate(None, 0.9, 1.0, 41, at_least=0.97)
FEW = ShownRate(None, 0.0, 0.1, 41, at_most=0.03)
GAP = ShownGap("channel=chat", 0.33, -0.1, 0.7, 0.6, 0.2, 1.1, Verdict.INSUFFICIENT_SUPPORT)
OVER_ZERO = ShownGap("complement", None, -0.1, 0.7)


def full_row(name: str) -> SliceRow:
    return SliceRow(
        name,
        dict.fromkeys(Metric, State.INCONCLUSIVE),
        {Metric.SELECTION: CODED, Metric.TPR: TPR, Metric.BLOCKED: FEW},
        {Metric.TPR: GAP, Metric.FPR: OVER_ZERO},
        {Metric.TPR: 0.17},
        (CalibrationCell("below 0.70", TPR), CalibrationCell("no score", None)),
        0.98,
        {Metric.TPR: 4, Metric.FPR: 0},
        {Metric.TPR: AT},
        {Metric.TPR: 0.16},
        {Metric.TPR: 4},
        (Noted(Annotation.ADWIN, Metric.TPR, 2, AT), Noted(Annotation.VERSION_CHANGE, None, 1, AT)),
        {
            Metric.SELECTION: ShownStage(Stage.SCORE, Share.ABOUT_HALF),
            Metric.TPR: ShownStage(Stage.NONE),
        },
        ShownAgreement(None, 0.62, 0.5, 1.0) if name else ShownAgreement(0.7, None, 0.6, 0.8),
    )


def full_incident(number: int, kind: IncidentKind) -> ShownIncident:
    return ShownIncident(
        number,
        kind,
        Severity.PAGE if kind is IncidentKind.BREACH else Severity.TICKET,
        Metric.TPR,
        AT,
        "channel",
        "channel=chat",
        Share.MOST,
        ("channel=chat|variety=a",),
        acknowledged=True,
        accepted_until=AT + 5 if kind is IncidentKind.LISTED else None,
        first=PublishedValue(0.3, 0.2, 0.4, AT),
        latest=PublishedValue(0.31, 0.25, 0.37, AT),
        stage=ShownStage(Stage.THRESHOLD, Share.MOST),
        versions_changed_at=AT,
        versions_changed=(ComponentChange("judge", "j1", "j2"),),
        settings_changed_at=AT - 1,
        sampling="audited at 0.05",
        resolvable_at=AT + 1,
        snapshot=12,
        behind=Behind.SLICE,
        limit=ShownLimit(LimitKind.MIN_RATIO, 0.8),
    )


def hidden_row(name: str) -> SliceRow:
    return SliceRow(name, dict.fromkeys(Metric, State.SUPPRESSED))


def window(name: str, *rows: SliceRow, total: SliceRow | None = None) -> WindowTable:
    spreads = (Spread(Metric.TPR, "channel=a", "channel=b", 0.4),)
    group = GroupTable(
        "channel",
        rows,
        spreads,
        decisions=Period(AT, AT + 3),
        labelled=Period(AT, AT + 4, data_lost=True),
    )
    return WindowTable(
        name,
        total or full_row(""),
        (group,),
        decisions=Period(AT, AT + 1, excluded=True),
        labelled=Period(AT, AT + 2),
    )


OWN_LIMITS = (
    OwnLimit("channel", "", Metric.TPR, LimitKind.MAX_GAP, 0.2),
    OwnLimit("channel", "channel=chat", Metric.TPR, LimitKind.MAX_GAP, 0.05),
)


def snapshot(*windows: WindowTable) -> Snapshot:
    table = ContractTable(
        *("lesson", "3", "triage team", True, 11, "7d"),
        {Metric.TPR: 0.1, Metric.FPR: 0.1},
        {Metric.TPR: 0.6},
        {Metric.FPR: 0.3},
        {Metric.TPR: 50, Metric.FPR: 30},
        windows,
        (RequestsAtFault(Route.HUMAN_REVIEW, 0.05, Fault.TOO_FEW, 3, AT),),
        labels_at_fault=(
            LabelsAtFault("channel", "channel=a", Route.AUTO_SERVE, Fault.MISSING, AT, 0.5),
        ),
        review_due=AT + 9_000_000,
        max_age=14 * DAY,
        min_ratios={Metric.TPR: 0.8},
    )
    return Snapshot(AT, AT - 1, (table,))


def probe_set() -> ShownProbeSet:
    return ShownProbeSet(
        *("tone", "5f" * 32, ("chatty", "conversational"), 40),
        (
            ShownFlips("conversational", FlipDirection.HELD_BACK, "judge_score", 6, Expected.READY),
            ShownFlips(
                "conversational", FlipDirection.HELD_BACK, "judge_score", 2, Expected.NOT_READY
            ),
            ShownFlips("conversational", FlipDirection.SERVED, "evidence_gate", 1),
        ),
        *(2, DAY, 0.05, AT - DAY),
        {FlipDirection.HELD_BACK: AT - 5_000_000},
        (ShownFlips("conversational", FlipDirection.HELD_BACK, "judge_score", 4, Expected.READY),),
    )


@pytest.fixture
def shown() -> Snapshot:
    rows = (full_row("channel=chat"), hidden_row('channel=__other__\\ "x"\n'))
    told = snapshot(window("24h", *rows), window("7d", *rows))
    incidents = (full_incident(7, IncidentKind.BREACH), full_incident(8, IncidentKind.LISTED))
    contracts = (replace(told.contracts[0], incidents=incidents, own_limits=OWN_LIMITS),)
    return replace(told, contracts=contracts, probes=(probe_set(),))


@pytest.fixture
def page(shown: Snapshot) -> Page:
    return Renderer(10_000).render(shown)


def samples(page: Page) -> Samples:
    """Every series of a page by the strict parser; asserts that each is there once."""
    found: Samples = {}
    for family in parse_openmetrics((page.plain + page.openmetrics_counters).decode() + "# EOF\n"):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


CHAT = {"contract": "lesson", "group_by": "channel", "slice": "channel=chat", "window": "7d"}


def test_both_parsers_read_the_same_page(page: Page) -> None:
    text = {
        (s.name, frozenset(s.labels.items())): s.value
        for family in parse_text(page.text.decode())
        for s in family.samples
    }

    assert text == samples(page)
    assert len(text) == page.series == page.text.count(b"\n") - page.text.count(b"#")


def test_a_rate_is_shown_with_its_bounds_and_support(page: Page) -> None:
    found, labels = samples(page), {**CHAT, "metric": "tpr"}

    assert value(found, "slicewatch_slice_rate_ratio", **labels) == 0.83
    assert value(found, "slicewatch_slice_rate_lower_ratio", **labels) == 0.43
    assert value(found, "slicewatch_slice_rate_upper_ratio", **labels) == 0.98
    assert value(found, "slicewatch_slice_support_band", **labels) == 26
    assert value(found, "slicewatch_slice_as_labelled_ratio", **labels) == 0.17


def test_a_coded_rate_has_bounds_but_no_rate(page: Page) -> None:
    found = samples(page)
    high, low = {**CHAT, "metric": "selection"}, {**CHAT, "metric": "blocked"}

    assert value(found, "slicewatch_slice_rate_ratio", **high) is None
    assert value(found, "slicewatch_slice_rate_at_least_ratio", **high) == 0.97
    assert value(found, "slicewatch_slice_rate_at_most_ratio", **high) is None
    assert value(found, "slicewatch_slice_rate_lower_ratio", **high) == 0.9
    assert value(found, "slicewatch_slice_rate_at_most_ratio", **low) == 0.03


def test_a_gap_names_its_reference_and_a_ratio_over_zero_is_absent(page: Page) -> None:
    found = samples(page)
    tpr = {**CHAT, "metric": "tpr", "reference": "channel=chat"}
    fpr = {**CHAT, "metric": "fpr", "reference": "complement"}

    assert value(found, "slicewatch_slice_gap_ratio", **tpr) == 0.33
    assert value(found, "slicewatch_slice_gap_lower_ratio", **tpr) == -0.1
    assert value(found, "slicewatch_slice_relative_rate_ratio", **tpr) == 0.6
    assert value(found, "slicewatch_slice_relative_rate_upper_ratio", **tpr) == 1.1
    assert value(found, "slicewatch_slice_gap_ratio", **fpr) is None
    assert value(found, "slicewatch_slice_gap_upper_ratio", **fpr) == 0.7
    assert value(found, "slicewatch_slice_relative_rate_ratio", **fpr) is None


def test_what_detection_knows_is_told_of_a_slice(page: Page) -> None:
    found, tpr, fpr = samples(page), {**CHAT, "metric": "tpr"}, {**CHAT, "metric": "fpr"}

    assert value(found, "slicewatch_slice_evidence_level", **tpr) == 4
    assert value(found, "slicewatch_slice_evidence_level", **fpr) == 0
    assert value(found, "slicewatch_slice_breach_since_timestamp_seconds", **tpr) == AT / 1e6
    assert value(found, "slicewatch_slice_breach_since_timestamp_seconds", **fpr) is None
    assert value(found, "slicewatch_slice_detectable_gap_ratio", **tpr) == 0.16
    assert value(found, "slicewatch_slice_label_need_seconds", **tpr) == 4 * 7 * 86_400


def test_what_stands_beside_the_numbers_is_told(page: Page) -> None:
    found, tpr = samples(page), {**CHAT, "metric": "tpr"}
    none = {**CHAT, "metric": "", "finding": "version_change"}
    stratum = {"route": "human_review", "audit_rate": "0.05", "fault": "too_few"}
    requests = {"contract": "lesson", **stratum}
    stages = {("selection", "score", "about half"), ("tpr", "none", "")}

    assert value(found, "slicewatch_slice_findings", **tpr, finding="adwin") == 2
    assert value(found, "slicewatch_slice_findings", **none) == 1
    assert value(found, "slicewatch_slice_finding_timestamp_seconds", **none) == AT / 1e6
    for metric, stage, share in stages:
        labels = {**CHAT, "metric": metric, "stage": stage, "share": share}
        assert value(found, "slicewatch_slice_stage_info", **labels) == 1
    assert value(found, "slicewatch_slice_reviewer_agreement_ratio", **CHAT) is None
    assert value(found, "slicewatch_slice_reviewer_agreement_at_least_ratio", **CHAT) == 0.62
    assert value(found, "slicewatch_slice_reviewer_agreement_upper_ratio", **CHAT) == 1
    assert value(found, "slicewatch_label_request_faults", **requests) == 3
    assert value(found, "slicewatch_label_request_fault_timestamp_seconds", **requests) == AT / 1e6


def test_an_incident_is_a_latch_that_names_nothing_and_a_text_that_may(page: Page) -> None:
    found = samples(page)
    which = {"contract": "lesson", "metric": "tpr", "incident": "7"}
    about = {
        "kind": "breach",
        "severity": "page",
        "state": "acknowledged",
        "group_by": "channel",
        "slice": "channel=chat",
        "share": "most",
        "stage": "threshold",
        "sampling": "audited at 0.05",
        "snapshot": "12",
        "behind": "slice",
        "window_says": "unsure",
        "versions": "judge j1 -> j2",
    }

    assert value(found, "slicewatch_page", **which, severity="page") == 1
    assert value(found, "slicewatch_ticket", **{**which, "incident": "8"}) == 0, "it is accepted"
    assert value(found, "slicewatch_incident_info", **which, **about) == 1
    assert value(found, "slicewatch_incident_latest_ratio", **which) == 0.31
    of_slice = {**which, "side": "slice", "slice": "channel=chat", "bound": ""}
    assert value(found, "slicewatch_incident_rate_ratio", **of_slice) == 0.83
    assert value(found, "slicewatch_incident_relative_rate_ratio", **which) == 0.6
    assert value(found, "slicewatch_incident_limit_ratio", **which, limit="min_ratio") == 0.8
    assert value(found, "slicewatch_incident_window_end_timestamp_seconds", **which) == AT / 1e6
    assert value(found, "slicewatch_incident_change_timestamp_seconds", **which, what="versions")


def test_a_probe_set_is_told_with_its_page_and_its_cadence(page: Page) -> None:
    found, tone = samples(page), {"probe_set": "tone"}
    info = {**tone, "digest": "5f" * 32, "synthetic": "true"}

    assert value(found, "slicewatch_probe_set_info", **info) == 1
    assert value(found, "slicewatch_probe_pairs_total", **tone) == 40
    assert value(found, "slicewatch_probe_pairs_incomplete_total", **tone) == 2
    assert value(found, "slicewatch_probe_cadence_seconds", **tone) == 86_400
    assert value(found, "slicewatch_probe_max_flip_ratio", **tone) == 0.05
    assert value(found, "slicewatch_probe_covered_timestamp_seconds", **tone) == AT / 1e6 - 86_400
    pages = {
        way: value(found, "slicewatch_probe_page", **tone, direction=way) for way in FlipDirection
    }
    assert pages == {FlipDirection.HELD_BACK: 1, FlipDirection.SERVED: 0}
    since = "slicewatch_probe_page_since_timestamp_seconds"
    assert value(found, since, **tone, direction="held_back") == AT / 1e6 - 5
    assert value(found, since, **tone, direction="served") is None


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (
            "slicewatch_probe_pair_flips_total",
            {
                ("conversational", "held_back", "judge_score", "ready"): 6,
                ("conversational", "held_back", "judge_score", "not_ready"): 2,
                ("conversational", "served", "evidence_gate", "unknown"): 1,
            },
        ),
        (
            "slicewatch_probe_pairs_flipping",
            {("conversational", "held_back", "judge_score", "ready"): 4},
        ),
    ],
)
def test_every_flip_that_can_be_is_told_from_zero(
    page: Page, family: str, expected: dict[tuple[str, ...], float]
) -> None:
    """The increase over the first flip is lost where its series begins with it."""
    flips = {
        tuple(labels[name] for name in ("variant", "direction", "stage", "expected")): count
        for (name, pairs), count in samples(page).items()
        if name == family
        for labels in [dict(pairs)]
    }
    stages = {"evidence_gate", "judge_score", "threshold", "judge_score_and_threshold", "route"}

    assert {stage for _, _, stage, _ in flips} == stages
    assert {kind for *_, kind in flips} == {"ready", "not_ready", "unknown"}
    assert len(flips) == 2 * len(FlipDirection) * len(stages) * 3
    assert {what: count for what, count in flips.items() if count} == expected


def test_probe_sets_are_never_left_out(shown: Snapshot) -> None:
    (one,) = shown.probes
    page = Renderer(0).render(shown)
    of_probes = {key for key in samples(page) if key[0].startswith("slicewatch_probe")}

    assert page.dropped
    assert len(of_probes) == 9 + 60 * len(one.variants), "and one for each direction that pages"


def test_calibration_only_for_bands_that_have_a_rate(page: Page) -> None:
    bands = {dict(key[1])["band"] for key in samples(page) if "calibration" in key[0]}

    assert bands == {"below 0.70"}


def test_exactly_one_state_is_1_and_only_in_the_contracts_window(page: Page) -> None:
    states = {key[1]: v for key, v in samples(page).items() if key[0] == "slicewatch_slice_state"}

    assert {dict(labels)["window"] for labels in states} == {"7d"}
    assert len(states) == 3 * len(Metric) * len(State)
    assert sum(states.values()) == 3 * len(Metric)
    assert value(samples(page), "slicewatch_slice_state", **CHAT, metric="tpr", state="breach") == 0


def test_hidden_slices_show_their_state_and_nothing_else() -> None:
    hidden = window("7d", hidden_row("channel=chat"), total=hidden_row(""))
    shown = snapshot(replace(hidden, groups=(replace(hidden.groups[0], spreads=()),)))
    contracts = tuple(replace(one, labels_at_fault=()) for one in shown.contracts)
    found = samples(Renderer(10_000).render(replace(shown, contracts=contracts)))

    names = {
        name for name, labels in found if "slice" in dict(labels) or "group_by" in dict(labels)
    }
    periods = {"slicewatch_window_start_timestamp_seconds"}
    periods |= {"slicewatch_window_end_timestamp_seconds"}
    assert names == {"slicewatch_slice_state"} | periods
    assert all(
        v == (dict(labels)["state"] == "suppressed")
        for (name, labels), v in found.items()
        if name == "slicewatch_slice_state"
    )


def test_the_contract_is_told_with_its_limits(page: Page) -> None:
    found = samples(page)

    assert (
        value(
            found,
            "slicewatch_contract_info",
            contract="lesson",
            version="3",
            owner="triage team",
            synthetic="true",
            k="11",
            primary="tpr",
        )
        == 1
    )
    review = "slicewatch_contract_review_due_timestamp_seconds"
    assert value(found, review, contract="lesson") == AT / 1e6 + 9
    own = {"contract": "lesson", "metric": "tpr", "group_by": "channel", "limit": "max_gap"}
    for slice_, limit in (("", 0.2), ("channel=chat", 0.05)):
        name = "slicewatch_contract_own_limit_ratio"
        assert value(found, name, **own, slice=slice_) == limit
    for name, metric, expected in (
        ("max_gap_ratio", "tpr", 0.1),
        ("min_relative_rate_ratio", "tpr", 0.8),
        ("min_level_ratio", "tpr", 0.6),
        ("max_level_ratio", "fpr", 0.3),
        ("min_support", "fpr", 30),
    ):
        assert (
            value(found, f"slicewatch_contract_{name}", contract="lesson", metric=metric)
            == expected
        )


def test_instants_are_seconds_in_full(page: Page) -> None:
    found = samples(page)
    window = {"contract": "lesson", "window": "7d"}
    ends = [
        value(
            found, "slicewatch_window_end_timestamp_seconds", **window, group_by=group_by, kind=kind
        )
        for group_by in ("", "channel")
        for kind in ("decisions", "labelled")
    ]

    assert value(found, "slicewatch_watermark_timestamp_seconds") == AT / 1e6
    assert value(found, "slicewatch_label_frontier_timestamp_seconds") == (AT - 1) / 1e6
    assert ends == [(AT + i) / 1e6 for i in (1, 2, 3, 4)], "every group-by has its own"
    assert value(found, "slicewatch_window_data_lost", **window) == 1
    assert value(found, "slicewatch_window_excluded", **window) == 1
    assert b"slicewatch_watermark_timestamp_seconds 1790000000.0\n" in page.plain.replace(
        b"{}", b""
    )


def test_at_first_nothing_is_known_and_nothing_is_shown() -> None:
    page = Renderer(10).render(Snapshot(None, None, ()))

    assert (page.plain, page.series, page.dropped) == (b"", 0, ())


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_absent(odd: float) -> None:
    row = SliceRow("a=b", {}, {Metric.TPR: ShownRate(odd, odd, odd, 11)}, completeness=odd)
    text = Renderer(10_000).render(snapshot(window("7d", row))).plain.decode().lower()

    assert "nan" not in text
    assert "inf" not in text.replace("_info", "")


def test_families_come_once_in_the_order_of_the_catalogue(page: Page) -> None:
    heads = [line.split()[2:] for line in page.text.decode().splitlines() if "# TYPE" in line]

    assert [name for name, _ in heads] == [family.name for family in PAGE], "all are shown"
    counters = {name for name, kind in heads if kind == "counter"}
    assert counters == {family.name for family in PAGE if family.kind is MetricKind.COUNTER}


def test_what_is_counted_is_a_counter_in_both_formats(page: Page) -> None:
    counted = {"slicewatch_probe_pairs", "slicewatch_probe_pair_flips"}
    counted |= {"slicewatch_probe_pairs_incomplete"}
    openmetrics = (page.plain + page.openmetrics_counters).decode() + "# EOF\n"
    for families in (parse_openmetrics(openmetrics), parse_text(page.text.decode())):
        kinds = {family.name: family.type for family in families}
        assert {name for name, kind in kinds.items() if kind == "counter"} == counted


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=2, max_size=2))
def test_labels_survive_escaping(values: list[str]) -> None:
    text = "# TYPE a gauge\na" + label_text(("x", "y"), tuple(values)) + " 1.0\n# EOF\n"
    (family,) = parse_openmetrics(text)

    assert family.samples[0].labels == dict(zip(("x", "y"), values, strict=True))


def test_rendering_is_a_function_of_the_snapshot(shown: Snapshot) -> None:
    renderer = Renderer(10_000)
    first = renderer.render(shown)
    other = renderer.render(snapshot(window("7d", hidden_row("channel=chat"))))

    assert renderer.render(decode(encode(shown))) == first
    assert Renderer(10_000).render(shown) == first
    assert other.series < first.series, "a slice that has gone leaves the page"


def test_what_a_group_by_said_already_is_not_written_again(shown: Snapshot) -> None:
    renderer = Renderer(10_000)
    first = renderer.render(shown)
    again = renderer.render(replace(shown, watermark=AT + 1))

    written = {id(text) for text in first.texts}
    new = b"".join(text for text in again.texts if id(text) not in written)
    of_rows = [
        b"slicewatch_slice_state{",
        *(b"slicewatch_slice_rate_%sratio{" % side for side in (b"", b"lower_", b"upper_")),
    ]
    assert all(name in again.plain and name not in new for name in of_rows)
    assert b"slicewatch_watermark_timestamp_seconds" in new
    assert gzip.decompress(b"".join(gzipped(again, b""))) == again.plain


@pytest.mark.parametrize("step", [pytest.param(3, marks=pytest.mark.full), 37])
def test_the_budget_drops_whole_tiers_and_never_states(shown: Snapshot, step: int) -> None:
    full = samples(Renderer(10_000).render(shown))
    tiers = {family.name: family.tier for family in PAGE}
    for budget in range(0, len(full) + 1, step):
        page = Renderer(budget).render(shown)
        kept = samples(page)
        assert page.dropped_series == len(full) - len(kept)
        assert kept.items() <= full.items()
        floor = max((tiers[name] for name in page.dropped), default=0)
        left_out = {name for name, _ in full} - {name for name, _ in kept}
        assert left_out == {name for name, _ in full if 0 < tiers[name] <= floor}
        assert len(kept) <= budget or floor == max(tiers.values())


def test_the_least_needed_goes_first(shown: Snapshot) -> None:
    full = Renderer(10_000).render(shown)
    page = Renderer(full.series - 1).render(shown)

    assert page.dropped
    assert all("calibration" in name for name in page.dropped)


def test_gzip_is_one_member_of_page_and_tail(page: Page) -> None:
    for tail in (b"", b"# EOF\n", b"x" * 100_000):
        packed = b"".join(gzipped(page, tail))
        assert gzip.decompress(packed) == page.plain + tail
        assert packed.count(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff") == 1
    assert gzip.decompress(b"".join(gzipped(EMPTY, b"tail"))) == b"tail"


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now(self) -> int:
        return AT

    def monotonic(self) -> float:
        return self.seconds


def has_page(exporter: Exporter) -> bool:
    body = b"".join(exporter.body("", gzip=False)[0])
    assert (b"slicewatch_exposition_withheld 1.0" in body) != (b"slicewatch_slice_state" in body)
    return b"slicewatch_slice_state" in body


def test_the_page_is_withheld_until_published_and_when_stale(shown: Snapshot) -> None:
    clock = ManualClock()
    exporter = Exporter(ServiceMetrics(), max_series=10_000, clock=clock)
    assert not has_page(exporter)

    exporter.publish(shown)
    clock.seconds += STALE_SECONDS
    assert has_page(exporter)

    clock.seconds += 1
    assert not has_page(exporter)

    exporter.publish(shown)
    assert has_page(exporter), "an equal snapshot confirms the page"

    exporter.publish(shown, age=STALE_SECONDS + 1)
    assert not has_page(exporter), "the evaluation of another process may be old already"


def test_the_page_is_withheld_before_start_up_has_finished(shown: Snapshot) -> None:
    started = [False]
    exporter = Exporter(
        ServiceMetrics(), max_series=10_000, clock=ManualClock(), started=lambda: started[0]
    )
    exporter.publish(shown)
    assert not has_page(exporter)

    started[0] = True
    assert has_page(exporter)


@pytest.mark.parametrize("compressed", [False, True])
def test_the_whole_page_in_both_formats(shown: Snapshot, compressed: bool) -> None:
    metrics = ServiceMetrics()
    exporter = Exporter(metrics, max_series=10_000, clock=ManualClock())
    exporter.publish(shown)

    for accept, expected_type, parse in (
        (ACCEPT, OPENMETRICS, parse_openmetrics),
        ("", TEXT, parse_text),
    ):
        parts, content_type = exporter.body(accept, compressed)
        body = b"".join(parts)
        text = (gzip.decompress(body) if compressed else body).decode()
        keys = [(s.name, tuple(sorted(s.labels.items()))) for f in parse(text) for s in f.samples]
        assert content_type == expected_type
        assert len(set(keys)) == len(keys)
        assert "_created" not in text
        assert text.endswith("# EOF\n") == (expected_type == OPENMETRICS)
        exported = {name for name, _ in keys if name.startswith("slicewatch_")}
        known = {f.name for f in CATALOGUE}
        assert {
            n.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for n in exported
        } <= known


def test_dropping_is_loud(shown: Snapshot, caplog: pytest.LogCaptureFixture) -> None:
    exporter = Exporter(ServiceMetrics(), max_series=400, clock=ManualClock())
    exporter.publish(shown)
    body = b"".join(exporter.body("", gzip=False)[0]).decode()
    found = {s.name: s.value for f in parse_text(body) for s in f.samples}

    assert found["slicewatch_exposition_dropped_series"] > 0
    assert found["slicewatch_exposition_series"] <= 400
    assert "max_series" in caplog.text

    caplog.clear()
    exporter.publish(replace(shown, watermark=AT + 1))
    assert caplog.text == "", "said once, not every cycle"


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        (ACCEPT, True),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; version=0.0.1; q=0.75, */*;q=0.1", True),
        ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6", True),
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("text/plain, application/openmetrics-text;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;version=abc", False),
        ("application/openmetrics-text;version=99.7", False),
        ("application/openmetrics-text;q=nan", False),
        (";;;,,,=;q", False),
        ("application/openmetrics-text;q=1_0", False),
        ("\x00\xff", False),
    ],
)
def test_accept(accept: str, openmetrics: bool) -> None:
    assert wants_openmetrics(accept) is openmetrics


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("*", True),
        ("*;q=0.1, gzip;q=0", False),
        ("identity", False),
        ("", False),
        ("gzip;q=x", False),
    ],
)
def test_accept_encoding(accept: str, wanted: bool) -> None:
    assert accepts_gzip(accept) is wanted


@given(st.text(max_size=200))
def test_negotiation_never_raises(header: str) -> None:
    wants_openmetrics(header)
    accepts_gzip(header)
