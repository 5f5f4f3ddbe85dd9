"""Versions of the router side by side: on the page, in the answer and in the file."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from published_lesson import T0, full, hidden, lesson
from served_site import ServedSite, publish, served_site
from set_clock import SetClock

from monitor.core.contract import Contract, GroupBy, Limits
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.metric import Metric
from monitor.core.publish.side_by_side import VersionGroup, version_groups
from monitor.core.publish.snapshot import ShownGap, ShownRate, SliceRow, Snapshot
from monitor.core.state import State
from monitor.core.time import DAY, HOUR
from monitor.web import SiteFacts

STABLE = ShownRate(0.83, 0.80, 0.86, 540)
CANARY = ShownRate(0.71, 0.66, 0.76, 270)
WORSE = ShownGap("release=stable", 0.12, 0.06, 0.18)
BASELINE = {"release": "stable"}
FACTS = SiteFacts("1", versions=(VersionGroup("lesson", "release", BASELINE),))


def row(name: str, rate: ShownRate, gap: ShownGap | None, state: State) -> SliceRow:
    gaps = {} if gap is None else {Metric.TPR: gap}
    states = dict.fromkeys(Metric, state)
    return SliceRow(name, states, {Metric.TPR: rate}, gaps)


ROWS = (
    row("release=canary", CANARY, WORSE, State.BREACH),
    row("release=stable", STABLE, None, State.WITHIN_CONTRACT),
    hidden("release=next"),
)


def released(*rows: SliceRow, group_by: str = "release", at: int = T0) -> Snapshot:
    """One group-by of these slices."""
    made = lesson(*rows, at=at)
    (table,) = made.contracts
    (window,) = table.windows
    (group,) = window.groups
    named = replace(window, groups=(replace(group, group_by=group_by),))
    return replace(made, contracts=(replace(table, windows=(named,)),))


@pytest.fixture
def site(engine: sa.Engine) -> Iterator[ServedSite]:
    with served_site(engine, SetClock(T0 + HOUR), FACTS) as site:
        yield site


def pairs(site: ServedSite, query: str = "") -> list[Any]:
    (contract,) = site.json(f"/api/v1/snapshot{query}")["contracts"]
    found: list[Any] = contract["versions"]
    return found


def rows_of(site: ServedSite, path: str = "/") -> list[str]:
    """Texts of the rows of the table of versions."""
    _, page = site.get(path)
    table = re.search(r"<h3 id=\"versions-1\">.*?</table>", page, re.DOTALL)
    rows = re.findall(r"<tr>.*?</tr>", table[0], re.DOTALL)[1:] if table else []
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in rows]


def test_a_worse_canary_stands_beside_the_stable_version(
    engine: sa.Engine, site: ServedSite
) -> None:
    publish(engine, released(*ROWS), T0)
    first = rows_of(site)[0]
    assert first == (
        "release=canary Ready replies served at once (TPR) 71 % [66 %, 76 %]"
        " 83 % [80 %, 86 %] release=stable +12 [+6 to +18] breach"
    )


def test_page_answer_and_file_say_the_same(engine: sa.Engine, site: ServedSite) -> None:
    publish(engine, released(*ROWS), T0)
    canary, following = pairs(site)
    cells = [next(c for c in line["cells"] if c["metric"] == "tpr")
             for line in (canary["version"], canary["beside"])]  # fmt: skip
    assert [cell["rate"]["value"] for cell in cells] == [0.71, 0.83]
    assert (canary["beside"]["slice"], cells[0]["gap"]["value"]) == ("release=stable", 0.12)
    assert following["version"]["slice"] == "release=next"
    found = list(csv.DictReader(io.StringIO(site.get("/versions.csv")[1])))
    assert [row["slice"] for row in found] == ["release=canary"] * 2 + ["release=next"] * 2
    shown = next(row for row in found if row["metric"] == "tpr")
    assert {name: shown[name] for name in ("value", "gap", "gap_lower", "state")} == {
        "value": "0.71", "gap": "0.12", "gap_lower": "0.06", "state": "breach",
    }  # fmt: skip
    beside = {name: shown[f"beside_{name}"] for name in ("slice", "value", "lower", "support")}
    assert beside == {"slice": "release=stable", "value": "0.83", "lower": "0.8", "support": "540"}


def test_a_hidden_version_has_no_number(engine: sa.Engine, site: ServedSite) -> None:
    publish(engine, released(hidden("release=canary"), *ROWS[1:]), T0)
    texts = [text for text in rows_of(site) if text.startswith("release=canary")]
    for text in texts:
        left = text.replace("83 % [80 %, 86 %]", "")  # of the stable version, which is shown
        assert not re.findall(r"\d", left)
        assert left.endswith("hidden")
    assert texts
    for found in csv.DictReader(io.StringIO(site.get("/versions.csv")[1])):
        own = ("value", "lower", "upper", "at_least", "at_most", "support", "gap", "gap_lower")
        assert {found[name] for name in own} == {""}


def test_a_hidden_reference_shows_nothing_beside(engine: sa.Engine, site: ServedSite) -> None:
    alone = row("release=canary", CANARY, None, State.INSUFFICIENT_SUPPORT)
    publish(engine, released(alone, hidden("release=stable")), T0)
    first = rows_of(site)[0]
    assert "71 % [66 %, 76 %] \N{EN DASH} release=stable \N{EN DASH} not enough data" in first


def test_a_pair_differs_in_its_version_alone(engine: sa.Engine) -> None:
    """In an intersection each version stands beside the baseline of the same channel."""
    names = [f"channel={c},release={r}" for c in ("chat", "email") for r in ("canary", "stable")]
    rows = [row(name, CANARY, None, State.NO_LIMIT) for name in (*names, "channel=fax,release=old")]
    facts = replace(FACTS, versions=(VersionGroup("lesson", "channel+release", BASELINE),))
    publish(engine, released(*rows, group_by="channel+release"), T0)
    with served_site(engine, SetClock(T0 + HOUR), facts) as site:
        found = {p["version"]["slice"]: p["beside"] and p["beside"]["slice"] for p in pairs(site)}
    assert found == {
        "channel=chat,release=canary": "channel=chat,release=stable",
        "channel=email,release=canary": "channel=email,release=stable",
        "channel=fax,release=old": None,
    }


def test_a_difference_from_anything_else_is_none_of_versions(engine: sa.Engine) -> None:
    """Its state is of that comparison, and says so; the file has its numbers."""
    other = ShownGap("channel=chat,release=stable", None, 0.02, 0.2)
    one = row("channel=email,release=canary", CANARY, other, State.INCONCLUSIVE)
    stable = row("channel=email,release=stable", STABLE, None, State.WITHIN_CONTRACT)
    facts = replace(FACTS, versions=(VersionGroup("lesson", "channel+release", BASELINE),))
    publish(engine, released(one, stable, group_by="channel+release"), T0)
    with served_site(engine, SetClock(T0 + HOUR), facts) as site:
        text = rows_of(site)[0]
        (found, *_) = csv.DictReader(io.StringIO(site.get("/versions.csv")[1]))
    assert text.endswith("\N{EN DASH} undecided against channel=chat, release=stable")
    assert (found["reference"], found["gap_lower"]) == ("channel=chat,release=stable", "0.02")


def test_without_a_named_reference_each_version_stands_alone(engine: sa.Engine) -> None:
    facts = replace(FACTS, versions=(VersionGroup("lesson", "release", {}),))
    publish(engine, released(*ROWS), T0)
    with served_site(engine, SetClock(T0 + HOUR), facts) as site:
        found = pairs(site)
    assert [pair["beside"] for pair in found] == [None] * 3
    assert found[0]["version"]["slice"] == "release=canary"


def test_a_group_by_of_no_version_has_no_pairs(engine: sa.Engine, site: ServedSite) -> None:
    publish(engine, lesson(full("channel=chat")), T0)
    assert pairs(site) == []
    assert "Versions side by side" not in site.get("/")[1]


def test_an_older_state_has_its_own_versions(engine: sa.Engine, site: ServedSite) -> None:
    publish(engine, released(*ROWS), T0)
    publish(engine, released(hidden("release=canary"), *ROWS[1:], at=T0 + DAY), T0 + DAY)
    then = "?as_of=2024-10-04T12%3A00%3A00Z"
    assert pairs(site)[-1]["version"]["cells"][0]["rate"] is None
    assert pairs(site, then)[0]["version"]["cells"][0]["rate"]["value"] == 0.71
    assert rows_of(site, f"/{then}")[0].startswith("release=canary")


def test_many_versions_fit_on_a_page(engine: sa.Engine) -> None:
    names = [f"channel={i:04},release={r}" for i in range(500) for r in ("canary", "stable")]
    gap = ShownGap("complement", 0.1, 0.0, 0.2)
    rows = [row(name, CANARY, gap, State.INCONCLUSIVE) for name in names]
    facts = replace(FACTS, versions=(VersionGroup("lesson", "channel+release", BASELINE),))
    publish(engine, released(*rows, group_by="channel+release"), T0)
    with served_site(engine, SetClock(T0 + HOUR), facts) as site:
        _, page = site.get("/")
        assert len(page) < 500_000
        assert "400 more are in the CSV." in page
        assert site.get("/versions.csv")[1].count("\n") == 1 + 2 * 500


def test_the_settings_say_which_group_bys_are_of_versions() -> None:
    coding = Coding((Attribute("channel", ("chat",)), Attribute("release", ("a", "b"), "policy")))
    groups = (
        GroupBy(("channel",)),
        GroupBy(("release",), "release=a"),
        GroupBy(("channel", "release"), "channel=chat,release=a"),
    )
    limits = Limits(None, None, None, None, None, 50, 30)  # type: ignore[arg-type]
    contract = Contract("c", "1", "me", limits, "7d", groups, False, 11)
    assert list(version_groups([contract], coding)) == [
        VersionGroup("c", "release", {"release": "a"}),
        VersionGroup("c", "channel+release", {"release": "a"}),
    ]
