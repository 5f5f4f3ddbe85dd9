"""From a published page to the notification, through a real Prometheus and Alertmanager."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import notified
import pytest
from monitoring import eventually, run
from notified import Chain, chain, untold

from alerts.rules import alerts, runbook
from monitor.core.contract import Metric, State
from monitor.core.probes.flips import Expected, FlipCause, FlipDirection
from monitor.core.publish.annotations import Behind, IncidentKind, Severity, Share, Stage
from monitor.core.publish.snapshot import (
    ComponentChange,
    ContractTable,
    GroupTable,
    LimitKind,
    PublishedValue,
    ShownFlips,
    ShownGap,
    ShownIncident,
    ShownLimit,
    ShownProbeSet,
    ShownRate,
    ShownStage,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.time import DAY, HOUR
from monitor.settings import Settings

pytestmark = pytest.mark.full

AT = 1_780_308_000 * 1_000_000
BREACH = "SlicewatchTprBreach"
FLIPS, RATE, OVERDUE = "SlicewatchProbeFlips", "SlicewatchPairFlipRate", "SlicewatchProbesOverdue"
NAMED = ShownIncident(
    *(7, IncidentKind.BREACH, Severity.PAGE, Metric.TPR, AT, "channel", "channel=chat", Share.MOST),
    inherited=("channel=chat,variety=a",),
    first=PublishedValue(0.3, 0.24, 0.36, AT),
    latest=PublishedValue(0.31, 0.25, 0.37, AT + HOUR),
    stage=ShownStage(Stage.THRESHOLD, Share.MOST),
    versions_changed_at=AT - HOUR,
    versions_changed=(
        ComponentChange("judge", "a", "b"),
        ComponentChange("policy", "2026-11-01", "2026-11-15"),
    ),
    sampling="audited at 0.05",
    resolvable_at=AT + 12 * DAY,
    snapshot=12,
    behind=Behind.SLICE,
    limit=ShownLimit(LimitKind.MAX_GAP, 0.1),
)
HIDDEN = ShownIncident(8, IncidentKind.BREACH, Severity.PAGE, Metric.TPR, AT + HOUR, "", "withheld")
SEEN = replace(
    HIDDEN,
    group_by="channel",
    slice="channel=mail",
    first=PublishedValue(0.2, 0.12, 0.28, AT),
    latest=PublishedValue(0.2, 0.12, 0.28, AT),
    snapshot=13,
)


READY, NOT_READY = Expected.READY, Expected.NOT_READY
PROBES = ShownProbeSet("tone", "5f" * 32, ("conversational",), 0, (), 0, DAY, 0.05, AT - HOUR)
PARTED = replace(
    PROBES,
    compared=60,
    flips=(
        ShownFlips("conversational", FlipDirection.HELD_BACK, FlipCause.JUDGE_SCORE, 20, READY),
        ShownFlips("conversational", FlipDirection.SERVED, FlipCause.THRESHOLD, 1, READY),
    ),
    covered=AT - 2 * DAY,
    pages={FlipDirection.HELD_BACK: AT - HOUR},
    standing=(
        ShownFlips("conversational", FlipDirection.HELD_BACK, FlipCause.JUDGE_SCORE, 9, READY),
        ShownFlips("conversational", FlipDirection.HELD_BACK, FlipCause.JUDGE_SCORE, 3, NOT_READY),
    ),
)


def published(
    *incidents: ShownIncident, state: State = State.BREACH, probes: ShownProbeSet = PROBES
) -> Snapshot:
    """Two slices in one state, the incidents that stand, and a probe set."""
    states = dict.fromkeys((Metric.TPR, Metric.FPR), state)
    chat, mail = ShownRate(0.57, 0.5, 0.64, 456), ShownRate(0.88, 0.82, 0.94, 520)
    gap = ShownGap("channel=mail", 0.31, 0.25, 0.37)
    rows = (
        SliceRow("channel=chat", states, {Metric.TPR: chat}, {Metric.TPR: gap}),
        SliceRow("channel=mail", states, {Metric.TPR: mail}),
    )
    window = WindowTable("7d", SliceRow("", states), (GroupTable("channel", rows),))
    limits = {Metric.TPR: 0.1, Metric.FPR: 0.1}
    table = ContractTable(
        *("replies", "3", "triage team", False, 11, "7d", limits, {}, {}, {Metric.TPR: 50}),
        windows=(window,),
        incidents=incidents,
    )
    return Snapshot(AT, AT, (table,), (probes,))


@pytest.fixture
def delivered(tmp_path: Path) -> Iterator[Chain]:
    with chain(tmp_path) as running:
        running.monitored.publish(published(state=State.WITHIN_CONTRACT))
        running.wait_for("contract:slicewatch_slice_state:count")
        yield running


def resolved(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for body in bodies for one in body["alerts"] if one["status"] == "resolved"]


def chat_of(delivered: Chain, title: str) -> dict[str, Any]:
    """The newest message with this title; it is sent beside the webhook, and may come after it."""
    found: list[dict[str, Any]] = []

    def came() -> bool:
        attached = (one["attachments"][0] for one in delivered.told.chats())
        found.extend(one for one in attached if one["title"] == title)
        return bool(found)

    eventually(came, f"a chat message {title}")
    return found[-1]


def test_a_page_is_delivered_stands_through_outages_and_is_resolved_by_a_repair(
    delivered: Chain,
) -> None:
    pages = partial(delivered.told.of, "page", BREACH)  # read at each place below
    assert pages() == []

    # Two regressions of one metric are one page, once they are found together.
    delivered.monitored.publish(published(NAMED, HIDDEN))
    eventually(lambda: any(len(body["alerts"]) == 2 for body in pages()), "both are on one page")
    assert len({body["groupKey"] for body in pages()}) == 1
    body = pages()[-1]
    assert body["receiver"] == "page"
    assert body["groupLabels"] == {
        **{"alertname": BREACH, "job": "slicewatch", "contract": "replies", "metric": "tpr"}
    }
    named, hidden = sorted(body["alerts"], key=lambda one: one["labels"]["incident"])
    assert named["labels"] == {
        **{"alertname": BREACH, "job": "slicewatch", "contract": "replies", "metric": "tpr"},
        **{"incident": "7", "role": "primary", "severity": "page", "about": "fairness"},
    }
    assert named["annotations"] == {
        "summary": (
            "Disparity in routing: TPR (primary metric) in contract replies, slice channel=chat"
        ),
        "description": (
            "Incident 7: the TPR is outside its limit, slice channel=chat.\n"
            "The figures below end at 2026-06-01 11:00 UTC.\n"
            "Ready replies served: channel=chat 57%, channel=mail 88%: 31 points lower (limit 10)."
            " This rests on at least 456 labelled ready replies of the slice.\n"
            "Worse off: the slice, whose ready replies are served less often than its"
            " reference's.\n"
            "Since 2026-06-01 10:00 UTC or earlier.\n"
            "Gap (above 0, the slice is worse off) as last published: 31 points, 95 % interval 25"
            " to 37 points.\n"
            "Gap (above 0, the slice is worse off) as first published: 30 points, 95 % interval 24"
            " to 36 points.\n"
            "Broken limit: a gap of at most 10 points, whoever is worse off.\n"
            "The slice explains most of what is beyond the limit.\n"
            "Affected only because they overlap with it: channel=chat,variety=a.\n"
            "The difference arises at this stage of the router: threshold.\n"
            "In the two days before the breach, versions changed at 2026-06-01 09:00 UTC: judge"
            " a -> b, policy 2026-11-01 -> 2026-11-15.\n"
            "First: move the replies of those worse off to the front of the review queue, and roll"
            " back what changed. Do not route more of their requests to review: that wait is the"
            " harm.\n"
            "Acknowledge this incident: slicewatch incident ack 7 --by NAME\n"
            "Label sampling: audited at 0.05.\n"
            "Even if the cause is fixed now, the incident cannot be resolved before 2026-06-13:"
            " labels take that long, at their present rate.\n"
            "Owner of the contract: triage team.\n"
            "This is a disparity in routing, not a statement about people."
        ),
        "status_url": "https://monitor.example/incidents/7",
        "dashboard_url": named["annotations"]["dashboard_url"],
        "runbook_url": f"deploy/runbooks/{BREACH}.md",
    }
    graph = "/graph?g0.expr=slicewatch_slice_gap_ratio+and+on+%28job"
    assert graph in named["annotations"]["dashboard_url"]
    assert "incident%3D%227%22" in named["annotations"]["dashboard_url"], "of its slice alone"
    assert named["annotations"]["dashboard_url"].startswith("http")
    assert hidden["annotations"]["summary"].endswith(
        "TPR (primary metric) in contract replies, details withheld"
    )
    assert "channel" not in str({**hidden["annotations"], "dashboard_url": ""})
    number = hidden["labels"]["incident"]
    assert hidden["annotations"]["status_url"] == f"https://monitor.example/incidents/{number}"
    chat = chat_of(delivered, f"[FIRING, 2] page: {BREACH}, contract replies, tpr")
    assert chat["color"] == "danger"
    for one in (named, hidden):
        assert (
            f"*{one['annotations']['summary']}*\n{one['annotations']['description']}"
            in (chat["text"])
        )
    assert f"Runbook: deploy/runbooks/{BREACH}.md" in chat["text"]

    # A slice that becomes visible is the same alert.
    known = set(delivered.firing(BREACH))
    assert len(known) == 2
    delivered.monitored.publish(published(NAMED, SEEN))
    eventually(
        lambda: any(
            one["annotations"]["summary"].endswith("slice channel=mail")
            for one in delivered.firing(BREACH).values()
        ),
        "the slice is named",
    )
    assert set(delivered.firing(BREACH)) == known

    # A restart: nothing answers, then nothing is shown, for longer than alerts go on by themselves.
    delivered.monitored.stop()
    eventually(lambda: bool(delivered.told.of("page", "SlicewatchDown")), "it is down")
    delivered.monitored.publish(None)
    delivered.monitored.start()
    eventually(
        lambda: bool(delivered.told.of("page", "SlicewatchEvaluationStale")), "nothing is shown"
    )
    delivered.wait_for("absent_over_time(slicewatch_slice_state[6s])")
    assert set(delivered.firing(BREACH)) == known
    assert delivered.asked("slicewatch_page") == []
    delivered.monitored.publish(published(NAMED, SEEN))
    eventually(lambda: len(delivered.asked("slicewatch_page")) == 2, "it is shown again")
    eventually(
        lambda: bool(resolved(delivered.told.of("page", "SlicewatchEvaluationStale"))),
        "the monitor sees again",
    )
    assert set(delivered.firing(BREACH)) == known
    assert resolved(pages()) == []

    # What loses its support is no recovery: it stands, and somebody looks at why.
    delivered.monitored.publish(published(NAMED, SEEN, state=State.INSUFFICIENT_SUPPORT))
    eventually(
        lambda: any(
            len(body["alerts"]) == 2
            for body in delivered.told.of("ticket", "SlicewatchEvidenceLost")
        ),
        "the evidence is lost",
    )
    assert set(delivered.firing(BREACH)) == known
    assert resolved(pages()) == []

    # A repair of one leaves the other on the page; then all of it is over.
    delivered.monitored.publish(published(SEEN))
    eventually(lambda: len(resolved(pages())) > 0, "one is resolved")
    assert {one["labels"]["incident"] for one in resolved(pages())} == {"7"}
    assert pages()[-1]["status"] == "firing"
    delivered.monitored.publish(published(state=State.WITHIN_CONTRACT))
    eventually(lambda: pages()[-1]["status"] == "resolved", "the page is over")
    assert len({body["groupKey"] for body in pages()}) == 1
    assert delivered.told.of("deadman", "SlicewatchWatchdog")

    # Whoever is told has been told nothing that the pages had not shown.
    told = set(delivered.told.annotations())
    assert len(told) > 10
    for text in told:
        assert untold(text, delivered.monitored.pages) == set(), text
    (example,) = {one for one in told if "as first published: 30 points" in one and "*" not in one}
    seen = {"57%", "30%", "24%", "36%", "31%", "10%", "channel=chat", "2026-06-13"}
    assert untold(example, []) > seen


def test_a_probe_page_is_delivered_beside_a_breach_and_ends_by_what_the_next_round_shows(
    delivered: Chain,
) -> None:
    pages = partial(delivered.told.of, "page", FLIPS)  # read at each place below
    delivered.wait_for("slicewatch_probe_page == 0")
    assert delivered.asked("slicewatch_probe_page == 1") == []

    # Probes and production tell of one regression of the router, and neither mutes the other.
    delivered.monitored.publish(published(NAMED, probes=PARTED))
    eventually(lambda: bool(pages() and delivered.told.of("page", BREACH)), "both are told")
    (told,) = pages()[-1]["alerts"]
    assert told["labels"] == {
        **{"alertname": FLIPS, "job": "slicewatch", "probe_set": "tone"},
        **{"direction": "held_back", "severity": "page", "about": "probes"},
    }
    assert told["annotations"] == {
        "summary": "Matched pairs are routed differently: probe set tone, variants are held back"
        " more often than their reference",
        "description": (
            "A sequential test has found that variants of a synthetic request are routed"
            " differently from their reference: in probe set tone they are held back more often, in"
            " more pairs than chance explains.\n"
            "The test crossed its threshold with the probe of 2026-06-01 09:00 UTC.\n"
            "Flips at the latest comparison of each pair, by direction: held_back 12.\n"
            "Flips in this direction, by variant: conversational 12.\n"
            "Flips in this direction, by stage of the router: judge_score 12.\n"
            "Behind the evidence gate, by error: an unready reply was served 3, a ready reply was"
            " delayed 9.\n"
            f"Content hash of the probe set: {'5f' * 32}.\n"
            "A flip is a case to investigate, not a population disparity.\n"
            "Synthetic test conditions, not real requests."
        ),
        "dashboard_url": told["annotations"]["dashboard_url"],
        "runbook_url": f"deploy/runbooks/{FLIPS}.md",
    }
    assert untold(told["annotations"]["description"], delivered.monitored.pages) == set()
    assert "slicewatch_probe_pairs_flipping" in told["annotations"]["dashboard_url"]
    chat = chat_of(delivered, f"[FIRING, 1] page: {FLIPS}")
    assert told["annotations"]["description"] in chat["text"]

    # The first flips of a set are an increase, and a round that is missing is noticed.
    eventually(lambda: bool(delivered.told.of("ticket", RATE)), "many flips are told")
    eventually(lambda: bool(delivered.told.of("ticket", OVERDUE)), "an overdue set is told")

    # Nothing is shown, for longer than alerts go on by themselves: nothing has been repaired.
    known = set(delivered.firing(FLIPS))
    delivered.monitored.publish(None)
    delivered.wait_for("absent_over_time(slicewatch_probe_set_info[6s])", "nothing is shown")
    assert set(delivered.firing(FLIPS)) == known
    assert resolved(pages()) == []
    delivered.monitored.publish(published(NAMED, probes=PARTED))
    delivered.wait_for("slicewatch_probe_page == 1", "it is shown again")

    # The next round has no excess: the page is over, and the breach is not.
    delivered.monitored.publish(published(NAMED, probes=replace(PARTED, covered=AT, pages={})))
    eventually(lambda: pages()[-1]["status"] == "resolved", "the page is over")
    eventually(lambda: bool(resolved(delivered.told.of("ticket", OVERDUE))), "it was sent again")
    assert resolved(delivered.told.of("page", BREACH)) == []
    assert delivered.firing(BREACH)


def test_a_freeze_in_the_midst_of_an_evaluation_ends_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Series end as of when the scrape began that timed out: earlier than rules that had run."""
    hurried, busy = notified.hurried_rules, 'count(count by (__name__) ({__name__=~".+"}))'

    def slowly(document: dict[str, Any]) -> dict[str, Any]:
        document = hurried(document)
        records = document["groups"][0]["rules"]
        records[1:1] = [{"record": f"busy:{number}", "expr": busy} for number in range(600)]
        return document

    monkeypatch.setattr(notified, "hurried_rules", slowly)
    with chain(tmp_path) as frozen:
        frozen.monitored.publish(published(NAMED))
        frozen.wait_for("slicewatch:tpr_breach:held")
        for _ in range(8):
            frozen.monitored.answers.clear()
            frozen.wait_for("absent_over_time(slicewatch_slice_state[3s])", "nothing is shown")
            assert frozen.asked("slicewatch:tpr_breach:held")
            frozen.monitored.answers.set()
            frozen.wait_for("slicewatch_slice_state", "it is shown again")


def test_a_breach_of_the_precision_is_a_ticket_that_says_what_happened(delivered: Chain) -> None:
    shown = published()
    (table,) = shown.contracts
    states = dict.fromkeys((Metric.TPR, Metric.FPR, Metric.PRECISION), State.BREACH)
    chat, mail = ShownRate(0.77, 0.7, 0.84, 137), ShownRate(0.92, 0.88, 0.96, 210)
    gap = ShownGap("channel=mail", 0.15, 0.08, 0.22)
    rows = (
        SliceRow("channel=chat", states, {Metric.PRECISION: chat}, {Metric.PRECISION: gap}),
        SliceRow("channel=mail", states, {Metric.PRECISION: mail}),
    )
    incident = replace(
        NAMED,
        metric=Metric.PRECISION,
        inherited=(),
        first=PublishedValue(0.15, 0.08, 0.22, AT),
        latest=PublishedValue(0.15, 0.08, 0.22, AT),
        stage=None,
        sampling="",
        resolvable_at=None,
        limit=ShownLimit(LimitKind.MAX_GAP, 0.05),
    )
    table = replace(
        table,
        max_gaps={**table.max_gaps, Metric.PRECISION: 0.05},
        windows=(WindowTable("7d", SliceRow("", states), (GroupTable("channel", rows),)),),
        incidents=(incident,),
    )
    delivered.monitored.publish(replace(shown, contracts=(table,)))
    tickets = partial(delivered.told.of, "ticket", "SlicewatchPrecisionBreach")
    eventually(lambda: bool(tickets()), "the ticket is delivered")
    (one,) = tickets()[-1]["alerts"]
    assert one["labels"]["severity"] == "ticket"
    assert one["labels"]["role"] == "guardrail"
    assert one["annotations"]["summary"] == (
        "Disparity in routing: precision (guardrail) in contract replies, slice channel=chat"
    )
    assert one["annotations"]["description"].startswith(
        "Incident 7: the precision is outside its limit, slice channel=chat.\n"
        "The figures below end at 2026-06-01 10:00 UTC.\n"
        "Replies served at once that were ready: channel=chat 77%, channel=mail 92%: 15 points"
        " lower (limit 5). This rests on at least 137 labelled replies served at once of the"
        " slice.\n"
        "Worse off: the slice, whose replies served at once are ready less often than its"
        " reference's.\n"
    )
    assert (
        "First: compare the shares of ready replies on both sides (metric ready) and the FPR. If"
        " only the shares differ, a lower precision is expected, and the owner of the contract"
        " decides; if the FPR is higher, roll back what changed.\n"
    ) in one["annotations"]["description"]
    assert delivered.told.of("page", "SlicewatchPrecisionBreach") == []


def test_the_silences_of_the_runbooks_are_accepted(delivered: Chain) -> None:
    for alert in alerts(Settings()):
        (line,) = [one for one in runbook(alert).splitlines() if one.startswith("amtool")]
        words = shlex.split(line.replace("http://localhost:9093", delivered.alertmanager))
        done = run(*words)
        assert done.returncode == 0, done.stderr
        assert f"alertname={alert.name}" in line
