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
from declaring import DECLARING
from monitoring import eventually, run
from notified import Chain, chain, untold

from alerts.rules import runbooks
from monitor.core.contract import Severity
from monitor.core.metric import Metric
from monitor.core.probes.flips import Expected, FlipCause, FlipDirection
from monitor.core.publish.annotations import Behind, IncidentKind, Share, Stage
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
from monitor.core.state import State
from monitor.core.time import DAY, HOUR

pytestmark = pytest.mark.full

AT = 1_780_308_000 * 1_000_000
BREACH = "SlicewatchBreach"
FLIPS, RATE, OVERDUE = "SlicewatchProbeFlips", "pair_flip_rate", "probes_overdue"
RUNBOOKS = "https://monitor.example/runbooks"
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
        **{"incident": "7", "severity": "page", "about": "fairness"},
    }
    news = (
        "Ready replies from channel chat are sent at once less often: 57 %, channel mail 88 %"
        " (31 points, limit 10), since 1 Jun or earlier."
    )
    description = (
        "Contract replies, incident 7. A disparity in routing, not a statement about people."
        " Owner: triage team.\n"
        "Found by the sequential test. The figures end 1 Jun 11:00 UTC. It arises at the stage"
        " threshold. Versions changed 1 Jun 09:00 UTC: judge a -> b, policy 2026-11-01 ->"
        " 2026-11-15.\n"
        "First: review the waiting replies of those worse off before others, and roll back what"
        " changed. Do not send more of them to review. Acknowledge: slicewatch incident ack 7"
        " --by NAME"
    )
    assert named["annotations"] == {
        "summary": news,
        "description": description,
        "status_url": "https://monitor.example/incidents/7",
        "runbook_url": f"{RUNBOOKS}/{BREACH}-tpr.md",
    }
    assert hidden["annotations"]["summary"] == (
        "Ready replies: a slice hidden to protect privacy is over its limit, since 1 Jun or"
        " earlier."
    )
    assert "channel" not in str(hidden["annotations"])
    number = hidden["labels"]["incident"]
    assert hidden["annotations"]["status_url"] == f"https://monitor.example/incidents/{number}"
    chat = chat_of(delivered, f"{news} (the first of 2)")
    assert chat["color"] == "danger"
    for one in (named, hidden):
        said = one["annotations"]
        assert (
            f"*{said['summary']}*\n{said['description']}\nDetails: {said['status_url']}\n"
            f"Runbook: {RUNBOOKS}/{BREACH}-tpr.md" in chat["text"]
        )

    # A slice that becomes visible is the same alert.
    known = set(delivered.firing(BREACH))
    assert len(known) == 2
    delivered.monitored.publish(published(NAMED, SEEN))
    eventually(
        lambda: any(
            one["annotations"]["summary"].startswith("Ready replies from channel mail are")
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
            len(body["alerts"]) == 2 for body in delivered.told.of("ticket", "evidence_lost")
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
    assert news in told
    numbers = {"57 %", "88 %", "31 %", "10 %"}
    assert untold(news, []) == numbers | {"1 Jun", "channel chat", "channel mail"}


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
        "summary": "Variants of probe set tone are held back more often than their reference",
        "description": (
            "More pairs differ in this direction than chance explains. Since the probe of 1 Jun"
            " 09:00 UTC. Flips now: held_back 12.\n"
            "By variant: conversational 12. By stage: judge_score 12. Behind the evidence gate:"
            " an unready reply was served 3, a ready reply was delayed 9.\n"
            "A flip is a case to investigate, not a population disparity. Synthetic test"
            " conditions, not real requests."
        ),
        "runbook_url": f"{RUNBOOKS}/{FLIPS}.md",
    }
    assert untold(told["annotations"]["description"], delivered.monitored.pages) == set()
    chat = chat_of(delivered, told["annotations"]["summary"])
    assert chat["text"].rstrip() == (
        f"{told['annotations']['description']}\nRunbook: {RUNBOOKS}/{FLIPS}.md"
    )

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
        frozen.wait_for("slicewatch:breach:held")
        for _ in range(8):
            frozen.monitored.answers.clear()
            frozen.wait_for("absent_over_time(slicewatch_slice_state[3s])", "nothing is shown")
            assert frozen.asked("slicewatch:breach:held")
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
        severity=Severity.TICKET,
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
    tickets = partial(delivered.told.of, "ticket", BREACH)
    eventually(lambda: bool(tickets()), "the ticket is delivered")
    (one,) = tickets()[-1]["alerts"]
    assert one["labels"]["severity"] == "ticket"
    assert one["annotations"]["summary"] == (
        "Replies sent at once from channel chat are ready less often: 77 %, channel mail 92 %"
        " (15 points, limit 5), since 1 Jun or earlier."
    )
    assert one["annotations"]["runbook_url"] == f"{RUNBOOKS}/{BREACH}-precision.md"
    assert (
        "\nFirst: compare the shares of ready replies and the FPR. If only the shares differ, the"
        " owner decides; if the FPR is higher, roll back what changed. "
    ) in one["annotations"]["description"]
    assert delivered.told.of("page", BREACH) == []


def test_a_second_condition_notifies_again(delivered: Chain) -> None:
    pages = delivered.monitored
    pages.publish(published(probes=replace(PARTED, pages={})))
    eventually(lambda: bool(delivered.told.of("ticket", OVERDUE)), "one condition is told")
    eventually(lambda: bool(delivered.told.of("ticket", RATE)), "so is the other one")
    attention = [body for path, body in delivered.told.posts if path == "/ticket"]
    groups = {body["groupKey"] for body in attention}
    assert len(groups) >= 2
    assert all(len({a["labels"]["condition"] for a in body["alerts"]}) == 1 for body in attention)


def test_the_silences_of_the_runbooks_are_accepted(delivered: Chain) -> None:
    for page in runbooks(DECLARING).values():
        for line in page.splitlines():
            if line.startswith("amtool"):
                words = shlex.split(line.replace("http://localhost:9093", delivered.alertmanager))
                done = run(*words)
                assert done.returncode == 0, done.stderr
