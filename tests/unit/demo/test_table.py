"""The demo's table and document: what the Snapshot publishes, beside the generator's truth."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from demo_history import History
from rich.console import Console

from monitor.core.contract import Severity
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Behind, IncidentKind, Share, Stage
from monitor.core.publish.snapshot import PublishedValue, ShownIncident, ShownStage
from monitor.core.time import DAY, HOUR, MINUTE
from monitor.demo.demo_run import demo_settings
from monitor.demo.table import LiveScreen, PlainScreen, Screen, render, screen_for, svg
from monitor.demo.traffic import Produced
from monitor.demo.view import (
    REGRESSED_SLICE,
    SYNTHETIC,
    CommittedTotals,
    DemoView,
    FirstShown,
    Moment,
    document,
    slice_views,
)
from monitor.demo.world import BEGINS
from monitor.records import Shard
from monitor.shard_status import ShardStatus, Tallies

URL = "http://127.0.0.1:12345"


@pytest.fixture(scope="module")
def view() -> DemoView:
    """Sixty hours after the regression."""
    history = History(seed=1)
    began = history.synthetic.world.regression_at
    history.live_until(began + 60 * HOUR)
    snapshot = history.snapshot()
    slices = slice_views(snapshot, history.synthetic.truth)
    watch = FirstShown()
    watch.look(slices, Moment(31.25, history.synthetic.now))
    now = history.synthetic.now
    return DemoView(
        40.0, now, 8640.0, began, snapshot, slices, watch, CommittedTotals(events=1234), 2871.0, URL
    )


def printed(view: DemoView, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(render(view, width))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def line(text: str, name: str) -> str:
    return next(one for one in text.splitlines() if one.split()[:1] == [name])


def test_it_is_marked_as_synthetic(view: DemoView) -> None:
    assert SYNTHETIC in printed(view)
    assert SYNTHETIC in svg(view).replace("&#160;", " ")
    assert document(view, Produced(), 1)["note"] == SYNTHETIC


def test_the_picture_loads_nothing_from_elsewhere(view: DemoView) -> None:
    addresses = svg(view).replace(URL, "").replace("http://www.w3.org/2000/svg", "")
    assert "url(http" not in addresses
    assert 'url("http' not in addresses


def test_a_line_holds_truth_naive_rate_estimate_support_and_state(view: DemoView) -> None:
    (one,) = (v for v in view.slices if v.row.slice == REGRESSED_SLICE)
    rate = one.row.rates[Metric.TPR]
    cells = line(printed(view), "conversational").split()
    assert cells == [
        "conversational",
        f"{one.truth:.2f}",
        f"{one.row.as_labelled[Metric.TPR]:.2f}",
        f"{rate.value:.2f}",
        f"[{rate.lower:.2f},",
        f"{rate.upper:.2f}]",
        f"{rate.support:,}+",
        "suspected",
    ]


def test_it_fits_into_an_ordinary_terminal(view: DemoView) -> None:
    text = printed(view)
    assert "…" not in text
    assert len(text.splitlines()) <= 24


def test_a_wide_terminal_shows_the_gap_too(view: DemoView) -> None:
    (one,) = (v for v in view.slices if v.row.slice == REGRESSED_SLICE)
    text = printed(view, 120)
    assert f"{one.row.gaps[Metric.TPR].value:+.2f} [" in line(text, "conversational")
    assert "reference" in line(text, "formal")


def test_a_hidden_slice_shows_its_state_and_no_number(view: DemoView) -> None:
    assert line(printed(view, 120), "kiosk").split() == ["kiosk", *"-----", "suppressed"]


def test_it_says_when_the_regression_began_and_was_noticed(view: DemoView) -> None:
    text = printed(view)
    assert "conversational: TPR fell 25 s ago (2026-01-09T12:00Z), suspected after 31 s" in text
    early = replace(view, simulated=view.regression_at - DAY, watch=FirstShown())
    assert "conversational: TPR falls in 10 s" in printed(early)


PAGE = ShownIncident(
    7,
    IncidentKind.BREACH,
    Severity.PAGE,
    Metric.TPR,
    since=BEGINS + 12 * DAY,
    group_by="language_variety",
    slice=REGRESSED_SLICE,
    share=Share.MOST,
    latest=PublishedValue(0.29, 0.25, 0.33, BEGINS + 13 * DAY),
    stage=ShownStage(Stage.SCORE, Share.MOST),
    behind=Behind.SLICE,
)


def with_incident(view: DemoView, one: ShownIncident) -> DemoView:
    assert view.snapshot is not None
    table = replace(view.snapshot.contracts[0], incidents=(one,))
    watch = FirstShown(view.watch.first)
    watch.look([], Moment(44.0, PAGE.since), (one,))
    return replace(view, snapshot=replace(view.snapshot, contracts=(table,)), watch=watch)


def test_a_page_is_told_with_its_slice_its_numbers_and_its_stage(view: DemoView) -> None:
    paged = with_incident(view, PAGE)
    text = printed(paged)
    assert f"PAGE 7 tpr of {REGRESSED_SLICE}: worse off, +0.29 [+0.25, +0.33]\n" in text
    assert "  most of the excess; stage: score; since 2026-01-17T00:00Z, told after 44 s" in text
    assert len(text.splitlines()) <= 24
    found = document(paged, Produced(), 1)
    assert found["seconds_until_paged"] == 44.0
    assert found["regression"]["paged_at"] == "2026-01-17T00:00Z"
    assert found["incidents"][0]["slice"] == REGRESSED_SLICE
    assert "PAGE" not in printed(view)
    assert document(view, Produced(), 1)["seconds_until_paged"] is None


def test_a_page_of_a_hidden_slice_is_told_without_slice_and_numbers(view: DemoView) -> None:
    hidden = ShownIncident(
        7, IncidentKind.BREACH, Severity.PAGE, Metric.TPR, PAGE.since, "", "withheld"
    )
    text = " ".join(printed(with_incident(view, hidden)).split())
    assert "PAGE 7 tpr of withheld since" in text
    assert document(with_incident(view, hidden), Produced(), 1)["seconds_until_paged"] is None


def test_it_says_when_a_slice_is_suspected_wrongly(view: DemoView) -> None:
    wrong = replace(view, watch=FirstShown({"channel=chat": Moment(3.0, BEGINS)}))
    assert "channel=chat suspected although nothing happened to it" in printed(wrong)


def test_it_shows_pace_watermark_and_addresses(view: DemoView) -> None:
    text = printed(view)
    assert "one day in 10 s; 2,871 events/s, 1,234 consumed" in text
    assert "TPR, 24h: 2026-01-" in text
    assert " h behind the watermark" in text
    assert f"{URL}/metrics" in text
    assert f"status: {URL}/ " in text


def test_before_the_first_snapshot_it_says_what_it_waits_for(view: DemoView) -> None:
    assert "joining the consumer group" in printed(replace(view, snapshot=None, slices=[]))


def test_the_document_holds_what_is_published_and_the_truth(view: DemoView) -> None:
    found = json.loads(json.dumps(document(view, Produced(messages=7), 5)))
    (one,) = (s for s in found["slices"] if s["slice"] == REGRESSED_SLICE)
    assert found["seed"] == 5
    assert found["seconds_until_suspected"] == 31.2
    assert found["suspected_wrongly"] == []
    assert one["published"]["states"]["tpr"] == "suspected"
    assert one["truth_tpr"] == pytest.approx(0.57, abs=0.05)
    assert found["regression"] == {
        "slice": REGRESSED_SLICE,
        "began": "2026-01-09T12:00Z",
        "suspected_at": "2026-01-12T00:00Z",
        "paged_at": None,
    }
    assert found["conserved"] is True
    assert found["complete"] is False


def test_the_document_of_nothing_is_a_document(view: DemoView) -> None:
    nothing = replace(view, snapshot=None, slices=[], watch=FirstShown())
    found = document(nothing, Produced(), 1)
    assert found["slices"] == []
    assert found["window"] is None
    assert found["seconds_until_suspected"] is None


def test_totals_are_added_up_and_a_lost_message_or_event_breaks_the_balance() -> None:
    tallies = Tallies(messages=9, gaps=1, events=20, counted=17, duplicates=2)
    tallies.dead_letters["malformed_json"] = 1
    whole = ShardStatus(Shard("decisions", 0), 1, 1, None, 5, 15, None, None, tallies)
    total = CommittedTotals.from_statuses([whole, replace(whole, shard=Shard("decisions", 1))])
    assert (total.messages, total.events, total.counted) == (18, 40, 34)
    assert total.dead_letters == {"malformed_json": 2}
    assert (total.message_balance, total.event_balance) == (0, 0)
    assert CommittedTotals.from_statuses([replace(whole, next_offset=16)]).message_balance == 1
    lost = replace(tallies, events=21)
    assert CommittedTotals.from_statuses([replace(whole, tallies=lost)]).event_balance == 1


def test_a_plain_screen_prints_every_few_seconds(view: DemoView) -> None:
    console = Console(file=io.StringIO(), width=80)
    with PlainScreen(console) as screen:
        for seconds in (0.0, 1.0, 4.9, 5.0, 9.0, 10.1, 11.0):
            screen.show(replace(view, seconds=seconds))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count(SYNTHETIC) == 4  # the last one too


def test_a_live_screen_leaves_the_last_table(view: DemoView) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, height=40)
    with LiveScreen(console) as screen:
        screen.show(view)
        screen.show(replace(view, per_second=77.0))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "77 events/s" in text[text.rindex("slicewatch demo") :]


def test_the_screen_fits_where_the_output_goes() -> None:
    assert type(screen_for(silent=True)) is Screen
    assert isinstance(screen_for(silent=False), PlainScreen)  # pytest is no terminal


def test_the_settings_are_those_of_production_but_for_their_pace() -> None:
    settings = demo_settings("127.0.0.1:1", "sqlite:///x.db", 0)
    (contract,) = settings.contracts
    assert contract.synthetic
    assert contract.k == 11
    assert (contract.limits.min_positives, contract.limits.min_negatives) == (50, 30)
    assert settings.stream.bootstrap_servers == ("127.0.0.1:1",)
    assert settings.stream.clock == "live"
    assert settings.stream.horizon == 3 * DAY
    assert settings.stream.lateness == 10 * MINUTE
    assert SYNTHETIC in settings.use_case[0].context
