"""Numbers of a service that counts, scraped after every few events: each keeps to its rule."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import lesson
import pytest
from memory_source import MemoryBroker, MemorySource
from pipeline import SETTINGS, ManualClock, settings_with
from surface_checks import Page, broken, changed, read_page, rule_of

from alerts.exposition.catalogue import CATALOGUE
from monitor.core.privacy.rules import PrivacyRule
from monitor.records import Shard
from monitor.service import Service

pytestmark = pytest.mark.full

K = 11
PER_SCRAPE = 5
DECISIONS, LABELS = Shard("decisions", 0), Shard("labels", 0)
NAMES = (("formal", 5), ("conversational", 3), (None, 1), ("slang", 1))


class Watched:
    """One service in one thread, above k = 1, with its clock moved by hand."""

    def __init__(self, folder: Path) -> None:
        text = SETTINGS.replace("synthetic = true\nk = 1\n", "")
        settings = settings_with(
            folder, text, stream__clock="history", server__listen="127.0.0.1:0"
        )
        self.clock = ManualClock()
        self.broker = MemoryBroker({"decisions": 1, "labels": 1})
        topics = ["decisions", "labels"]
        self.service = Service(
            settings, clock=self.clock, source=lambda _: MemorySource(self.broker, topics)
        )
        assert self.service.ingest is not None
        self.service.ingest.register()

    def send(self, topic: str, events: list[dict[str, Any]]) -> None:
        self.broker.produce(topic, [json.dumps(event).encode() for event in events], 0)

    def scrape(self) -> Page:
        """Let everything be consumed and evaluated, then read the page."""
        assert self.service.ingest is not None
        for _ in range(3):
            self.clock.seconds += 5.0
            self.service.ingest.step(0)
        self.clock.seconds += 600.0
        self.service.evaluate_once()
        return read_page(b"".join(self.service.exporter.body("", gzip=False)[0]).decode())


def decisions(number: int) -> Iterator[dict[str, Any]]:
    pick = random.Random(3)
    for i in range(number):
        at = lesson.START + timedelta(seconds=150 * i)
        (variety,) = pick.choices([n for n, _ in NAMES], [w for _, w in NAMES])
        attributes = {"channel": pick.choice(("chat", "email")), "language_variety": variety}
        known = {name: value for name, value in attributes.items() if value is not None}
        score = pick.uniform(0.5, 1.0)
        audit = 1.0 if score < lesson.THRESHOLD else 0.4
        asked = pick.random() < audit
        more = {"attributes": known, "audit_p": audit, "label_requested": asked}
        yield lesson.decision(f"d{i}", at, score, **more)


def label_of(decision: dict[str, Any], pick: random.Random) -> dict[str, Any]:
    at = decision["decided_at"]
    labelled = {"decided_at": at, "labelled_at": at, "ready": pick.random() < 0.6}
    return lesson.label(decision["decision_id"], lesson.START, True) | labelled


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Page]:
    """Two days of a slow stream, a scrape every few decisions."""
    watched, pick = Watched(tmp_path_factory.mktemp("watched")), random.Random(4)
    found, waiting = [watched.scrape()], list(decisions(1_300))
    while waiting:
        some, waiting = waiting[:PER_SCRAPE], waiting[PER_SCRAPE:]
        watched.send("decisions", some)
        if labels := [label_of(d, pick) for d in some if d["label_requested"]]:
            watched.send("labels", labels)
        found.append(watched.scrape())
    return found


def test_every_number_keeps_to_the_rule_of_its_row(pages: list[Page]) -> None:
    assert sorted({text for page in pages for text in broken(page, K)}) == []


def test_the_pages_have_what_the_rules_are_about(pages: list[Page]) -> None:
    """A check of nothing would be no check."""
    shown = {name for page in pages for name, _ in page}
    rules = {rule_of(name) for name in shown}
    assert rules >= {
        *(
            PrivacyRule.RELEASED_RATE,
            PrivacyRule.BOUND,
            PrivacyRule.BAND,
            PrivacyRule.STATE,
            PrivacyRule.PERIOD,
            PrivacyRule.STEPS,
        ),
        *(
            PrivacyRule.DECLARED,
            PrivacyRule.WHOLE_STREAM,
            PrivacyRule.PROCESS,
            PrivacyRule.ROUNDED_SHARE,
            PrivacyRule.CLASS,
        ),
    }
    missing = {family.name for family in CATALOGUE if family.name.startswith("slicewatch_slice")}
    assert {"slicewatch_slice_rate_ratio", "slicewatch_slice_support_band"} <= missing & shown
    groups = {dict(labels).get("group_by") for page in pages for _, labels in page}
    assert "channel" in groups


def test_totals_change_no_sooner_than_after_a_hundred_events(pages: list[Page]) -> None:
    """A few decisions and their labels between two scrapes: nothing says which routes they took."""
    each = 2 * PER_SCRAPE  # as many events at most between two scrapes, on both topics
    since: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
    for number, (before, after) in enumerate(pairwise(pages)):
        for name in changed(before, after, PrivacyRule.STEPS):
            moved = {
                labels
                for series, labels in before.keys() & after.keys()
                if series == name and before[series, labels] != after[series, labels]
            }
            for labels in moved:
                last = since.get((name, labels))
                assert last is None or (number - last) * each >= K, (name, labels)
                since[name, labels] = number
    assert since


def test_what_is_released_changes_with_a_table_alone(pages: list[Page]) -> None:
    """Rates, bands and states are the same on two pages unless a period has moved on."""
    released = (
        PrivacyRule.RELEASED_RATE,
        PrivacyRule.BOUND,
        PrivacyRule.CODED,
        PrivacyRule.STATE,
        PrivacyRule.ROUNDED_SHARE,
        PrivacyRule.CLASS,
    )
    moved = 0
    for before, after in pairwise(pages):
        names = {n for n in changed(before, after, *released) if "exposition" not in n}
        if names:
            moved += 1
            assert changed(before, after, PrivacyRule.PERIOD), names
    assert moved
