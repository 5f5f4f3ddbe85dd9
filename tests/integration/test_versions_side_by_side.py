"""A canary beside the stable version, from raw events to the page: pandas says the same."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browser import WIDTHS, browser, page, picture, violations
from pipeline import DECISIONS, LABELS, SETTINGS, Pipeline
from playwright.sync_api import Browser
from served_site import ServedSite, served_site
from set_clock import SetClock

from monitor.composition.site import _site_facts
from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import GroupTable, Period, SliceRow, WindowTable, decode
from monitor.core.state import State
from monitor.core.time import to_micros

pytestmark = pytest.mark.full

PICTURES = os.environ.get("SLICEWATCH_PICTURES")
"""Where to keep the picture of the documentation, which is made by this test."""
START = datetime(2026, 6, 1, tzinfo=UTC)
DAYS, DAILY = 4, 2_500
AUDIT = 0.5
NONE = ""
"""Stands for decisions that say nothing of their versions."""
TPR = {"p-41": 0.85, "p-42": 0.65, "p-99": 0.85, NONE: 0.85}
"""P(auto_serve | ready) by policy."""
SHARES = {"p-41": 0.55, "p-42": 0.25, "p-99": 0.1, NONE: 0.1}
RELEASES = {"p-41": "stable", "p-42": "canary", "p-99": "__other__", NONE: "__missing__"}
RELEASE = """[[attribute]]
name = "release"
source = "policy_version"
values = ["stable", "canary"]
aliases = { "p-41" = "stable", "p-42" = "canary" }
definition = "test condition"
purpose = "test"
"""
_CONTRACT = SETTINGS.index("[use_case.contract]")
TEXT = (
    SETTINGS[: SETTINGS.index("group_bys")].replace("[[use_case]]", f"{RELEASE}[[use_case]]")
    + """group_bys = [
  { attributes = ["release"], reference = "release=stable" },
  { attributes = ["channel", "release"], reference = "channel=chat,release=stable" },
]
"""
    + SETTINGS[_CONTRACT:]
    .replace('version = "1"', 'version = "2"')
    .replace('window = "7d"', 'window = "24h"')
)


def history() -> pd.DataFrame:
    """All decisions with what the reviewers would say, a row each."""
    rng = np.random.default_rng(11)
    n = DAYS * DAILY
    policies = rng.choice([*SHARES], n, p=[*SHARES.values()])
    ready = rng.random(n) < 0.6
    served = rng.random(n) < np.where(ready, [TPR[policy] for policy in policies], 0.1)
    return pd.DataFrame(
        {
            "second": np.sort(rng.integers(0, DAYS * 86_400, n)),
            "policy": policies,
            "channel": np.where(rng.random(n) < 0.5, "chat", "email"),
            "ready": ready,
            "served": served,
            "score": np.where(served, rng.uniform(0.7, 1, n), rng.uniform(0, 0.69, n)).round(3),
            "audit_p": np.where(served, AUDIT, 1.0),
            "asked": ~served | (rng.random(n) < AUDIT),
            "lies": rng.random(n) < 0.3,
        }
    ).assign(
        at=lambda table: [to_micros(START + timedelta(seconds=s)) for s in table["second"].tolist()]
    )


def events(table: pd.DataFrame) -> Iterator[tuple[bytes, bytes | None]]:
    """Each decision and its label; some say in their attributes, too, that they are the canary."""
    rows: list[Any] = list(table.itertuples())
    for number, row in enumerate(rows):
        moment = (START + timedelta(seconds=row.second)).isoformat()
        decision: dict[str, Any] = {
            "decision_id": f"d{number}",
            "decided_at": moment,
            "route": "auto_serve" if row.served else "human_review",
            "judge_score": row.score,
            "threshold": 0.7,
            "evidence_passed": True,
            "attributes": {"channel": row.channel} | ({"release": "canary"} if row.lies else {}),
            "audit_p": row.audit_p,
            "label_requested": bool(row.asked),
        }
        if row.policy != NONE:
            decision["versions"] = {"policy": row.policy, "router": "t1"}
        label = {
            "label_id": f"l{number}",
            "decision_id": f"d{number}",
            "decided_at": moment,
            "version": 1,
            "ready": bool(row.ready),
            "kind": "initial",
            "reason": "audit" if row.served else "review",
            "reviewer": "r1",
            "labelled_at": moment,
        }
        yield json.dumps(decision).encode(), json.dumps(label).encode() if row.asked else None


@dataclass(frozen=True)
class Played:
    """What was sent, and what the newest Snapshot shows of it."""

    sent: pd.DataFrame
    window: WindowTable
    crossed: list[str]
    site: ServedSite

    @property
    def groups(self) -> dict[str, GroupTable]:
        return {group.group_by: group for group in self.window.groups}

    def row(self, slice_: str, group_by: str = "release") -> SliceRow:
        return next(one for one in self.groups[group_by].rows if one.slice == slice_)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    sent = history()
    pairs = list(events(sent))
    with Pipeline(tmp_path_factory.mktemp("versions"), text=TEXT) as pipeline:
        pipeline.worker()
        evaluator = pipeline.evaluator()
        for day in range(DAYS):
            of_day = pairs[slice(*np.searchsorted(sent["second"] // 86_400, [day, day + 1]))]
            pipeline.broker.produce(DECISIONS, [decision for decision, _ in of_day], 0)
            pipeline.broker.produce(LABELS, [label for _, label in of_day if label], 0)
            pipeline.drain()
            assert evaluator.cycle()
        body = pipeline.snapshot()
        assert body is not None
        snapshot = decode(body)
        (table,) = snapshot.contracts
        (window,) = (shown for shown in table.windows if shown.window == table.window)
        with pipeline.engine.connect() as connection:
            crossed = [row[0] for row in connection.exec_driver_sql("SELECT stream FROM crossing")]
        clock = SetClock(snapshot.watermark or 0)
        facts = _site_facts(pipeline.settings)
        with served_site(pipeline.engine, clock, facts) as site:
            yield Played(sent, window, crossed, site)


def within(table: pd.DataFrame, period: Period | None) -> pd.DataFrame:
    assert period is not None
    return table[(table["at"] >= period.start) & (table["at"] < period.end)]


def weighted_tpr(table: pd.DataFrame) -> float:
    """Every label stands for the decisions of its route, all of one audit rate."""
    sums = []
    for _, stratum in table.groupby("served"):
        labelled = stratum[stratum["asked"]]
        sums.append((stratum["served"].iloc[0], len(stratum) * labelled["ready"].mean()))
    served = sum(number for is_served, number in sums if is_served)
    return float(served / sum(number for _, number in sums))


@pytest.mark.parametrize("policy", [*RELEASES])
def test_published_rates_of_versions_are_those_of_the_raw_events(
    played: Played, policy: str
) -> None:
    row = played.row(f"release={RELEASES[policy]}")
    own = played.sent[played.sent["policy"] == policy]
    group = played.groups["release"]
    served = within(own, group.decisions)["served"]
    selection = row.rates[Metric.SELECTION]
    assert selection.support == len(served)
    assert selection.value == pytest.approx(served.mean())
    tpr = row.rates[Metric.TPR].value
    assert tpr == pytest.approx(weighted_tpr(within(own, group.labelled)))


def test_the_canary_is_worse_than_the_stable_version_and_its_state_says_so(played: Played) -> None:
    canary = played.row("release=canary")
    gap = canary.gaps[Metric.TPR]
    assert (gap.reference, gap.verdict) == ("release=stable", Verdict.FAIL)
    assert canary.states[Metric.TPR] is State.SUSPECTED, "history pages nobody"
    rates = [played.row(f"release={r}").rates[Metric.TPR].value or 0 for r in ("stable", "canary")]
    assert gap.value == pytest.approx(rates[0] - rates[1])
    assert 0.1 < (gap.lower or 0) < (gap.value or 0) < (gap.upper or 0)
    stable = played.row("release=stable")
    assert Metric.TPR not in stable.gaps, "it is what others are compared with"
    crossed = {key for key in played.crossed if "|release|tpr|gap|" in key}
    assert {key.split("|")[4] for key in crossed} == {"release=canary"}


def test_who_sends_no_version_is_a_slice_of_its_own(played: Played) -> None:
    missing = played.row("release=__missing__")
    assert missing.states[Metric.TPR] is not State.SUSPECTED
    everything = len(within(played.sent, played.window.decisions))
    assert played.window.total.rates[Metric.SELECTION].support == everything


def test_within_an_intersection_the_rates_are_those_of_pandas(played: Played) -> None:
    group = played.groups["channel+release"]
    for channel in ("chat", "email"):
        table = played.sent
        own = table[(table["policy"] == "p-42") & (table["channel"] == channel)]
        shown = played.row(f"channel={channel},release=canary", "channel+release")
        expected = weighted_tpr(within(own, group.labelled))
        assert shown.rates[Metric.TPR].value == pytest.approx(expected)


def test_the_page_and_the_answer_show_them_side_by_side(played: Played) -> None:
    (contract,) = played.site.json("/api/v1/snapshot")["contracts"]
    pairs = {pair["version"]["slice"]: pair for pair in contract["versions"]}
    canary = pairs["release=canary"]
    assert canary["beside"]["slice"] == "release=stable"
    (tpr,) = (one for one in canary["version"]["cells"] if one["metric"] == "tpr")
    assert (tpr["state"], tpr["gap"]["reference"]) == ("suspected", "release=stable")
    email = pairs["channel=email,release=canary"]
    assert email["beside"]["slice"] == "channel=email,release=stable"
    assert "release=stable" not in pairs
    assert "release=canary: ready replies served less often" in played.site.get("/")[1]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.mark.parametrize(("screen", "dark"), [("desktop", False), ("phone", True)])
def test_axe_finds_nothing_and_nothing_is_cut(
    played: Played, chromium: Browser, screen: str, dark: bool, tmp_path: Path
) -> None:
    with page(chromium, width=WIDTHS[screen], dark=dark, script=True) as shown:
        shown.goto(played.site.base)
        assert shown.locator("h3", has_text="Versions side by side").count() == 1
        assert violations(shown) == []
        assert shown.evaluate("document.documentElement.scrollWidth") <= WIDTHS[screen]
        assert len(picture(shown, tmp_path / f"{screen}.png")) > 10_000
        if PICTURES and screen == "desktop":
            shown.set_viewport_size({"width": WIDTHS[screen], "height": 820})
            shown.evaluate("document.getElementById('versions-1').scrollIntoView()")
            shown.screenshot(path=Path(PICTURES) / "status-page-versions.png")
