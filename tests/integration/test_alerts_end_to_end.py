"""From decisions and labels on Kafka to the notification received, and back to calm."""

from __future__ import annotations

import re
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka_broker import KafkaBroker
from monitoring import eventually
from notified import Watch, untold, watching
from regressing import BEGINS, CONVERSATIONAL, FREQUENT, TABLET, VOICE, Router, settings_text
from running import Running

from alerts.exposition.renderer import Renderer
from alerts.rules import GROUP_BY
from monitor.core.publish.snapshot import decode, numbered
from monitor.store.database import create_engine

PAGE, EVIDENCE_LOST, DOWN = "SlicewatchBreach", "evidence_lost", "SlicewatchDown"
MATURES = 240.0  # two days are evaluated, on a busy machine too
Body = dict[str, Any]


def day(number: int, hour: int = 0) -> datetime:
    return BEGINS + timedelta(days=number, hours=hour)


@dataclass
class Site:
    """The service on Kafka, and who watches it."""

    router: Router
    service: Running
    watch: Watch
    url: str

    def live_until(self, until: datetime) -> None:
        """Let it happen, and be evaluated."""
        self.router.live_until(until)
        labelled = (until - timedelta(hours=2)).timestamp()
        self.service.until(lambda: self._frontier() >= labelled, f"labels until {until}", MATURES)

    def _frontier(self) -> float:
        return self.service.value("slicewatch_label_frontier_timestamp_seconds") or 0.0

    def go_on(self) -> None:
        """Let a process that was frozen live, or start one where it has ended."""
        if self.service.process.poll() is None:
            self.service.process.send_signal(signal.SIGCONT)
        else:
            self.service.restart()

    def pages(self) -> list[Body]:
        return self.watch.told.of("page", PAGE)

    def firing(self) -> dict[str, Body]:
        """Breaches that stand in Alertmanager: annotations by fingerprint."""
        found = self.watch.firing(PAGE)
        return {key: one["annotations"] for key, one in found.items()}

    def named(self, words: str) -> str:
        """Fingerprint of the one breach whose summary has these words; empty without."""
        found = [key for key, said in self.firing().items() if words in said["summary"]]
        assert len(found) <= 1
        return found[0] if found else ""

    def resolved(self) -> set[str]:
        """Fingerprints of breaches that people were told are over."""
        told = (one for body in self.pages() for one in body["alerts"])
        return {one["fingerprint"] for one in told if one["status"] == "resolved"}

    def without_evidence(self) -> dict[str, Body]:
        """What people were told of breaches without evidence: annotations by incident."""
        bodies = self.watch.told.of("ticket", EVIDENCE_LOST)
        told = (one for body in bodies for one in body["alerts"])
        return {one["labels"]["incident"]: one["annotations"] for one in told}

    def is_down(self) -> bool:
        """Whether people were told so last."""
        bodies = self.watch.told.of("page", DOWN)
        return bool(bodies) and bodies[-1]["status"] == "firing"

    def published(self) -> list[str]:
        """All pages that there ever were."""
        engine = create_engine(self.url)
        with engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT id, body FROM snapshot ORDER BY id").all()
        engine.dispose()
        renderer = Renderer(10_000)
        return [renderer.render(numbered(decode(b), n)).plain.decode() for n, b in rows]


@pytest.fixture
def site(apache: KafkaBroker, topic_name: str, tmp_path: Path) -> Iterator[Site]:
    topics = f"{topic_name}-d", f"{topic_name}-l"
    apache.create_topic(topics[0], 2)
    apache.create_topic(topics[1], 1)
    settings = tmp_path / "settings.toml"
    settings.write_text(settings_text())
    url = f"sqlite:///{tmp_path}/store.db"
    environment = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": apache.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": topics[0],
        "SLICEWATCH__STREAM__LABELS_TOPIC": topics[1],
        "SLICEWATCH__STREAM__GROUP_ID": topic_name[-8:],
        "SLICEWATCH__STORE__URL": url,
    }
    with Running(tmp_path, ["run", "--settings", str(settings)], environment) as service:
        address = {"SLICEWATCH__ALERTING__EXTERNAL_URL": f"http://127.0.0.1:{service.port}"}
        with watching(tmp_path, settings, environment | address, service.port) as watch:
            yield Site(Router(apache, *topics), service, watch, url)


@contextmanager
def nobody_is_told_that_it_is_over(site: Site) -> Iterator[None]:
    """What stood before an outage stands after it, unchanged."""
    stood, told, over = set(site.firing()), len(site.pages()), site.resolved()
    assert stood
    yield
    try:
        eventually(site.is_down, "it is told that nothing answers")
        # For longer than an alert goes on by itself.
        site.watch.wait_for("absent_over_time(slicewatch_slice_state[6s])")
        assert site.watch.asked("slicewatch_page") == []
        assert set(site.firing()) == stood
    finally:
        site.go_on()
    eventually(lambda: len(site.watch.asked("slicewatch_page")) == len(stood), "it is seen again")
    eventually(lambda: not site.is_down(), "it is told that something answers")
    assert set(site.firing()) == stood
    assert site.resolved() == over
    assert len(site.pages()) == told


@pytest.mark.timeout(900)
def test_two_regressions_are_one_page_that_only_a_repair_ends(site: Site, topic_name: str) -> None:
    site.live_until(day(2))
    site.watch.wait_for("contract:slicewatch_slice_state:count")
    assert site.firing() == {}
    assert site.pages() == site.watch.told.of("ticket", PAGE) == []

    # Two slices are served less, each for itself: one page.
    site.router.worse |= {CONVERSATIONAL: 0.3, VOICE: 0.3}
    site.live_until(day(3, 4))
    eventually(lambda: bool(site.pages()), "somebody is told")
    (page,) = site.pages()
    assert page["receiver"] == "page"
    assert page["status"] == "firing"
    grouped = (PAGE, "", topic_name[-8:], "replies", "tpr")  # it has no condition
    assert page["groupLabels"] == {
        name: value for name, value in zip(GROUP_BY, grouped, strict=True) if value
    }
    assert len(page["alerts"]) == 2
    for one, (name, value) in zip(by_slice(page), (VOICE, CONVERSATIONAL), strict=True):
        assert_says(one, f"{name} {value}")
        assert_links(one)
    conversational, voice = (
        site.named(f"from {name} {value} ") for name, value in (CONVERSATIONAL, VOICE)
    )
    assert len({conversational, voice}) == 2

    # The service is restarted: nothing is shown for a while.
    with nobody_is_told_that_it_is_over(site):
        site.service.stop()

    # A third slice joins them, of which no table showed a row before.
    site.router.tablets = FREQUENT
    site.router.worse |= {TABLET: 0.15}
    site.live_until(day(4, 4))
    eventually(lambda: len(site.firing()) == 3, "a third one")
    tablet = site.named("from device tablet ")
    assert tablet not in ("", conversational, voice)
    eventually(lambda: len(site.pages()[-1]["alerts"]) == 3, "it is told with the others")

    # One of the others is repaired.
    site.live_until(day(5, 4))
    del site.router.worse[VOICE]
    site.live_until(day(7, 6))
    eventually(lambda: site.resolved() == {voice}, "the repaired one is over")
    (over,) = (b for b in site.pages() if any(one["status"] == "resolved" for one in b["alerts"]))
    assert over["status"] == "firing"
    statuses = {one["fingerprint"]: one["status"] for one in over["alerts"]}
    assert statuses == {conversational: "firing", voice: "resolved", tablet: "firing"}

    # No label is asked for any more of one that stands: that is no repair.
    site.router.unasked = {CONVERSATIONAL}
    site.live_until(day(9, 6))
    incident = page_of(site.pages(), conversational)["labels"]["incident"]
    eventually(lambda: incident in site.without_evidence(), "somebody looks at why")
    assert "This is not a recovery" in site.without_evidence()[incident]["description"]
    assert set(site.firing()) == {conversational, tablet}
    assert site.resolved() == {voice}

    # The process is frozen: nothing answers, and what is on the port is old.
    with nobody_is_told_that_it_is_over(site):
        site.service.process.send_signal(signal.SIGSTOP)

    # All of it was one page, and nothing was told of what the pages did not show.
    assert len({body["groupKey"] for body in site.pages()}) == 1
    told = [len(body["alerts"]) for body in site.pages() if body["status"] == "firing"]
    assert told == [2, 3, 3]
    assert {one["labels"]["metric"] for body in site.pages() for one in body["alerts"]} == {"tpr"}
    assert site.watch.told.of("ticket", "SlicewatchGapTicket") == []
    pages = site.published()
    texts = {text for text in site.watch.told.annotations() if "Ready replies from" in text}
    assert len(texts) > 5
    assert {text: found for text in texts if (found := untold(text, pages))} == {}


def by_slice(page: Body) -> list[Body]:
    return sorted(page["alerts"], key=lambda one: str(one["annotations"]["summary"]))


def page_of(pages: list[Body], fingerprint: str) -> Body:
    return next(one for b in pages for one in b["alerts"] if one["fingerprint"] == fingerprint)


def assert_says(alert: Body, text: str) -> None:
    """What people read of a breach that is shown."""
    said = alert["annotations"]
    since = f"{day(3, 1):%d %b}".lstrip("0")
    title = (
        rf"Ready replies from {text} are sent at once less often: [\d.]+ %, (others|\w+ \w+)"
        rf" [\d.]+ % \([\d.]+ points, limit 10\), since {since} or earlier\."
    )
    assert re.fullmatch(title, said["summary"]), said["summary"]
    expected = [
        r"Contract replies, incident \d+\. A disparity in routing, not a statement about people\."
        r" Owner: triage team\. Synthetic test conditions, not real requests\.",
        r"Found by the sequential test\. The figures end \d+ Jan \d\d:\d\d UTC(\.|, before.*\.) No"
        r" version or setting has changed since two days before it began\.",
        r"First: review the waiting replies .* and find the cause\. .* Acknowledge: slicewatch"
        r" incident ack \d+ --by NAME",
    ]
    assert re.fullmatch("\n".join(expected), said["description"]), said["description"]


def assert_links(alert: Body) -> None:
    """The links lead to the page of the incident, and to its runbook."""
    said, number = alert["annotations"], int(alert["labels"]["incident"])
    with urllib.request.urlopen(said["runbook_url"], timeout=60) as answer:
        assert "Do not send the slice to human review" in answer.read().decode()
    assert re.fullmatch(rf"http://127\.0\.0\.1:\d+/incidents/{number}", said["status_url"])
    with urllib.request.urlopen(said["status_url"], timeout=60) as answer:
        shown = answer.read().decode()
    assert f"<h1>Incident {number}: " in shown
    assert f"slicewatch incident ack {number} --by NAME" in shown
