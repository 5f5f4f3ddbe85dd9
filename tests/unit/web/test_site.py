"""The status page and the API over a real port: what is shown, and what is not."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
import sqlalchemy as sa
from published_lesson import BOTH, T0, full, hidden, lesson
from served_site import ServedSite, publish, served_site
from set_clock import SetClock

from alerts.rules import alerts, runbooks
from monitor.core.metric import Metric
from monitor.core.publish.conditions import StandingCondition
from monitor.core.publish.pipeline import Pipeline, TopicFacts
from monitor.core.publish.snapshot import GroupTable, LimitKind, ShownAgreement, SliceRow, Snapshot
from monitor.core.state import State
from monitor.core.time import DAY, HOUR, to_datetime
from monitor.records import Shard
from monitor.settings import Settings
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.schema import ownership
from monitor.web import Limitation, SiteFacts
from monitor.web.beginning import beginning
from monitor.web.openapi import ANSWERS, DOCUMENT

SLICE = "?contract=lesson&group_by=channel&slice=channel%3Dchat"
HIDDEN = "?contract=lesson&group_by=channel&slice=channel%3Demail"
PAGES = ("/", f"/slice{SLICE}", f"/slice{HIDDEN}", "/incidents")
FILES = (
    *("/overview.csv", "/versions.csv", f"/slice.csv{SLICE}", f"/history.csv{SLICE}"),
    "/incidents.csv",
)
ANSWERED = (
    *("/api/v1/snapshot", f"/api/v1/slice{SLICE}", f"/api/v1/slice{HIDDEN}"),
    *(f"/api/v1/history{SLICE}", "/api/v1/incidents"),
)


@pytest.fixture
def clock() -> SetClock:
    return SetClock(T0 + 3 * HOUR)


@pytest.fixture
def site(engine: sa.Engine, clock: SetClock) -> Iterator[ServedSite]:
    with served_site(engine, clock) as site:
        yield site


@pytest.mark.parametrize("evaluated", [False, True])
@pytest.mark.parametrize("query", ["", "?contract=lesson&window=7d&group_by=channel"])
def test_before_anything_is_published_the_page_says_what_it_waits_for(
    engine: sa.Engine, site: ServedSite, *, evaluated: bool, query: str
) -> None:
    """The first cycle of an evaluator stores a Snapshot whose contracts have no tables."""
    if evaluated:
        (table,) = lesson().contracts
        publish(engine, Snapshot(None, None, (replace(table, windows=()),)), T0)
    for path in ("/", "/overview.csv", "/versions.csv", "/api/v1/snapshot"):
        assert site.get(f"{path}{query}")[0] == 200, path
    assert "No hour of" not in (page := _text(site.get("/")[1]))
    assert "Nothing is published yet." in page
    assert "Arrived so far: no events of decisions and no " in page
    answer = site.json("/api/v1/snapshot")
    assert (answer["verdict"]["word"], answer["moment"]) == ("insufficient_support", None)
    assert answer["beginning"]["waits_for"] in page
    assert answer["beginning"]["slices_from"] == "2024-10-04T13:10:00Z"
    for path in ("/slice", "/slice.csv", "/history.csv", "/api/v1/slice", "/api/v1/history"):
        status, said = site.get(f"{path}{query}")
        assert (status, "othing is published yet" in said) == (404, True), path
    for path in ("/reports.csv", "/incidents.csv", "/api/v1/reports", "/api/v1/incidents"):
        assert site.get(path)[0] == 200, path
    assert site.get("/report.csv")[0] == site.get("/api/v1/report")[0] == 404, "no week has ended"
    assert "There never was an incident." in site.get("/incidents")[1]


@pytest.mark.parametrize(
    ("newest", "lateness", "said"),
    [
        (None, HOUR, "for a first decision that can be read. The first table comes"),
        (None, HOUR, "60 minutes (stream.lateness) after the end of its hour."),
        (T0, HOUR, "read to 2024-10-04 11:00 UTC: then comes the table of the"),
    ],
)
def test_until_when_follows_from_the_newest_decision(
    newest: int | None, lateness: int, said: str
) -> None:
    at = None if newest is None else to_datetime(newest)
    topics = (
        TopicFacts("decisions", 1, 0, 0, at, 1_300, 7),
        TopicFacts("labels", 1, 0, 0, at, 0, 0),
    )
    found = beginning(Pipeline(topics, at, None), lateness, T0)
    assert said in found.waits_for
    assert found.arrived == (
        "Arrived so far: up to 1,300 events of decisions and no events of labels; 7 are unreadable"
        " (slicewatch db dead-letters)."
    )


def test_the_first_line_is_the_verdict_with_the_age_of_the_data(
    engine: sa.Engine, site: ServedSite
) -> None:
    publish(engine, lesson(*BOTH), T0)
    _, page = site.get("/")
    heading = _text(_element(page, "h1"))
    assert heading == "undecided No limit is broken; undecided checks: 4 of 4."
    assert "complete to 2024-10-04 09:00 UTC (3 hours ago), labels to 2024-10-04 08:00 UTC." in (
        _text(page)
    )


def test_who_is_blind_does_not_say_that_all_is_well(engine: sa.Engine, clock: SetClock) -> None:
    publish(engine, _in_state(State.WITHIN_CONTRACT), T0)
    with served_site(engine, clock, blind=["no worker reads decisions/0"]) as site:
        page = site.get("/")[1]
        then = site.json("/api/v1/snapshot?as_of=2024-10-04T09:30:00Z")
    assert _text(_element(page, "h1")).startswith("blind slicewatch does not see the router.")
    assert '<p class="error" role="alert">no worker reads decisions/0</p>' in page
    assert '<table class="rows blind">' in page, "no colour says that anything is well"
    assert then["verdict"]["word"] == "pass", "what is blind now says nothing of then"


def test_what_is_too_old_is_not_well_any_more(engine: sa.Engine, clock: SetClock) -> None:
    """Of a service that has stopped, the newest state stays green; the page does not."""
    snapshot = _in_state(State.WITHIN_CONTRACT)
    (table,) = snapshot.contracts
    publish(engine, replace(snapshot, contracts=(replace(table, max_age=2 * DAY),)), T0)
    words = {}
    with served_site(engine, clock) as site:
        for days in (2, 3):
            clock.at = T0 + days * DAY
            words[days] = site.json("/api/v1/snapshot")["verdict"]["word"]
            page = site.get("/")[1]
            assert ('<span class="badge old">was within limit' in page) is (days == 3)
            heading = _text(_element(page, "h1"))
            assert ("no newer decision came; see" in heading) is (days == 3)
        then = site.json("/api/v1/snapshot?as_of=2024-10-04T09:00:00Z")
    assert words == {2: "pass", 3: "insufficient_support"}
    assert (then["outdated"], then["verdict"]["word"]) == (False, "pass"), "of then it was new"


def test_who_is_behind_is_said_where_the_store_has_newer_decisions(
    engine: sa.Engine, clock: SetClock
) -> None:
    snapshot = _in_state(State.WITHIN_CONTRACT)
    (table,) = snapshot.contracts
    publish(engine, replace(snapshot, contracts=(replace(table, max_age=2 * DAY),)), T0)
    store = IngestStore(engine, "decisions", clock)
    shard = Shard("decisions", 0)
    store.register([shard])
    with engine.begin() as connection:
        newest = sa.update(ownership).values(max_decided_at=T0 + 3 * DAY - HOUR)
        connection.execute(newest)
    clock.at = T0 + 3 * DAY
    with served_site(engine, clock) as site:
        heading = _text(_element(site.get("/")[1], "h1"))
    assert heading.endswith("too old to judge: the evaluator is behind; see slicewatch db status.")


def _in_state(state: State, **more: Any) -> Snapshot:
    row = replace(full("channel=chat"), states=dict.fromkeys(Metric, state), **more)
    return lesson(row)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (State.SUPPRESSED, "Hidden to protect privacy."),
        (State.INSUFFICIENT_SUPPORT, "Not enough data yet. You need 50 labelled ready replies per"),
        (
            State.MATURING,
            "Labels are still to come. Labels of the slice or of its reference are missing.",
        ),
        (State.INCONCLUSIVE, "Not enough data yet to tell."),
        (State.STALE, "Was within the limit; the data are too old now. They end 2024-10-04 09:00"),
        (State.WITHIN_CONTRACT, ""),
        (State.BREACH, ""),
    ],
)
def test_a_cell_that_is_not_decided_says_why(
    engine: sa.Engine, site: ServedSite, state: State, said: str
) -> None:
    publish(engine, _in_state(state), T0)
    cell = site.json(f"/api/v1/slice{SLICE}")["line"]["cells"][0]
    assert cell["metric"] == "tpr"
    assert f"{cell['why']} {cell['until']}".startswith(said)
    assert bool(cell["why"]) is bool(said)
    page = _text(site.get(f"/slice{SLICE}")[1])
    assert said in page


def test_a_rate_says_what_disagreeing_reviewers_may_do_to_it(
    engine: sa.Engine, site: ServedSite
) -> None:
    shown = full("channel=chat")
    rates = {**shown.rates, Metric.TPR: replace(shown.rates[Metric.TPR], if_wrong=(0.412, 0.907))}
    agreement = ShownAgreement(0.62, None, 0.5, 0.7, 0.08)
    publish(engine, _in_state(State.INCONCLUSIVE, rates=rates, agreement=agreement), T0)
    cell = site.json(f"/api/v1/slice{SLICE}")["line"]["cells"][0]
    assert cell["rate"]["if_wrong"] == [0.412, 0.907]
    said = "if 8 % of labels are wrong, as their disagreement implies: 41.2 % to 90.7 %"
    assert said in _text(site.get(f"/slice{SLICE}")[1])


def test_a_cell_says_what_missing_labels_could_hide(engine: sa.Engine, site: ServedSite) -> None:
    shown = full("channel=chat")
    gaps = {Metric.TPR: replace(shown.gaps[Metric.TPR], least=-0.12, most=0.21)}
    publish(engine, _in_state(State.MATURING, gaps=gaps), T0)
    cell = site.json(f"/api/v1/slice{SLICE}")["line"]["cells"][0]
    assert (cell["gap"]["least"], cell["gap"]["most"]) == (-0.12, 0.21)
    text = "Whatever the missing ones say, the gap is -12 to +21 points."
    assert cell["until"] == text
    assert f"Labels are still to come. {text}" in _text(site.get(f"/slice{SLICE}")[1])


@pytest.mark.parametrize("state", [State.BREACH, State.INCONCLUSIVE])
def test_a_cell_names_the_limit_that_decides(
    engine: sa.Engine, site: ServedSite, state: State
) -> None:
    crossed = {Metric.TPR: LimitKind.MAX_GAP} if state is State.BREACH else {}
    publish(engine, _in_state(state, breach_limits=crossed), T0)
    for path in ("/", f"/slice{SLICE}")[state is State.INCONCLUSIVE :]:
        page = _text(site.get(path)[1])
        assert len(re.findall("limit: gap at most 10 points", page)) >= 1


def test_a_hidden_slice_has_no_number_in_page_answer_or_file(
    engine: sa.Engine, site: ServedSite
) -> None:
    publish(engine, lesson(*BOTH), T0)
    row = next(tr for tr in _elements(site.get("/")[1], "tr") if "channel=email" in tr)
    assert '<rect class="hatch" x="0"' in row
    without_link = re.sub(r'href="[^"]*"', "", row)
    visible = re.sub(r"<svg.*?</svg>", "", without_link)
    assert not re.findall(r"\d+", _text(visible))
    drawn = re.findall(r'<svg class="strip hidden".*?</svg>', row)
    assert len(set(drawn)) == 1, "the same for whatever is hidden"

    content = site.json(f"/api/v1/slice{HIDDEN}")
    assert content["line"]["completeness"] is None
    for cell in content["line"]["cells"]:
        assert (cell["rate"], cell["gap"], cell["evidence"]) == (None, None, None)
    assert content["calibration"] == content["findings"] == []
    hidden_rows = [r for r in _csv(site.get("/overview.csv")[1]) if r["slice"] == "channel=email"]
    assert len(hidden_rows) == 2
    shown_of_it = {name: row[name] for row in hidden_rows for name in row if row[name]}
    assert shown_of_it.keys() <= {
        *("as_of", "snapshot", "contract", "version", "window", "group_by", "slice", "metric"),
        *(
            "state",
            "mirror_of",
            "max_gap",
            "min_ratio",
            "min_level",
            "max_level",
            "ends_at",
            "why",
            "until",
        ),
    }


def test_page_answer_and_file_say_the_same(engine: sa.Engine, site: ServedSite) -> None:
    publish(engine, lesson(*BOTH), T0)
    (contract,) = site.json("/api/v1/snapshot")["contracts"]
    cell = next(c for c in contract["slices"][0]["cells"] if c["metric"] == "tpr")
    rows = _csv(site.get("/overview.csv")[1])
    row = next(r for r in rows if (r["slice"], r["metric"]) == ("channel=chat", "tpr"))
    assert [float(row[name]) for name in ("value", "lower", "upper", "gap", "gap_upper")] == [
        *(cell["rate"][name] for name in ("value", "lower", "upper")),
        *(cell["gap"]["value"], cell["gap"]["upper"]),
    ]
    page = _text(site.get("/")[1])
    assert "undecided 83 %, gap +33" in page
    assert "against channel=chat" in page
    assert "83 % [43 %, 98 %]" in _text(site.get(f"/slice{SLICE}")[1])


def test_the_worst_comes_first(engine: sa.Engine, site: ServedSite) -> None:
    states = {
        **{"a": State.SUPPRESSED, "b": State.WITHIN_CONTRACT, "c": State.BREACH},
        **{"d": State.INCONCLUSIVE, "e": State.SUSPECTED},
    }
    rows = [
        replace(full(f"channel={name}"), states=dict.fromkeys(Metric, state))
        for name, state in states.items()
    ]
    rows[2] = replace(rows[2], breach_limits=dict.fromkeys(Metric, LimitKind.MAX_GAP))
    publish(engine, lesson(*rows), T0)
    (contract,) = site.json("/api/v1/snapshot")["contracts"]
    assert [one["slice"][-1] for one in contract["slices"]] == ["c", "e", "d", "b", "a"]
    assert contract["verdict"]["sentence"].startswith(
        "channel=c: ready replies served less often than for channel=chat (33 points, limit 10)."
    )


def test_slices_are_counted_and_found_by_state_and_name(
    engine: sa.Engine, site: ServedSite
) -> None:
    states = {
        **{"Chat": State.BREACH, "email": State.SUSPECTED, "fax": State.MATURING},
        **{"mail": State.SUPPRESSED, "post": State.WITHIN_CONTRACT, "voice": State.NO_LIMIT},
    }
    rows = [
        replace(full(f"channel={name}"), states=dict.fromkeys(Metric, state))
        for name, state in states.items()
    ]
    publish(engine, lesson(*rows), T0)
    for query, names in (
        ("", set(states)),
        ("?show=within_limit", {"post", "voice"}),
        ("?show=undecided", {"fax"}),
        ("?find=CHA", set(states)),
        ("?find=chat", {"Chat"}),
        ("?find=mail&show=over_limit", {"email"}),
        ("?find=nobody", set()),
    ):
        (contract,) = site.json(f"/api/v1/snapshot{query}")["contracts"]
        assert {line["slice"].partition("=")[2] for line in contract["slices"]} == names, query
        counts = {"breach": 1, "over_limit": 1, "undecided": 1, "hidden": 1, "within_limit": 2}
        assert contract["counts"] == counts, "of all slices, whatever the view looks for"
        page = site.get(f"/{query}")[1]
        assert set(re.findall(r"channel=(\w+)</a>", page)) == names, query
        assert ("No slice matches." in page) is (not names)
        file = _csv(site.get(f"/overview.csv{query}")[1])
        assert {row["slice"].partition("=")[2] for row in file} - {""} == names
    assert '<a href="?show=breach" class="bad"><strong>1</strong> breach</a>' in page


def test_a_search_text_cannot_become_markup(engine: sa.Engine, site: ServedSite) -> None:
    publish(engine, lesson(*BOTH), T0)
    page = site.get("/?find=%22%3E%3Cscript%3E")[1]
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_every_answer_is_what_the_openapi_document_says(
    engine: sa.Engine, site: ServedSite
) -> None:
    publish(engine, lesson(*BOTH), T0)
    document = site.json(DOCUMENT)
    assert document["info"]["version"] == "1.2.3"
    assert set(document["paths"]) == set(ANSWERS)
    for path in ANSWERED:
        of = path.partition("?")[0]
        (media,) = document["paths"][of]["get"]["responses"]["200"]["content"].values()
        schema = {**media["schema"], "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(site.json(path))


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("contract=SECRET", "contract must be one of lesson"),
        ("window=SECRET", "window must be one of 1h, 24h, 7d, 28d"),
        ("contract=lesson&window=28d", "window must be one of 7d"),
        ("contract=lesson&group_by=SECRET", "group_by must be one of channel"),
        ("SECRET=1", "1 of its parameters are unknown"),
        ("show=SECRET", "show must be one of breach, over_limit, undecided, hidden"),
        ("metric=SECRET", "metric must be one of selection, tpr, fpr, blocked, ready"),
        ("as_of=SECRET", "as_of must be a time with its zone, such as 2026-06-01T10:00:00Z"),
        ("as_of=2026-06-01T10:00:00", "as_of must be a time with its zone"),
        ("as_of=9999-12-31T23:59:59-23:59", "as_of must be a time with its zone"),
        ("page=0", "page must be a whole number from 1 on"),
        ("page=SECRET", "page must be a whole number from 1 on"),
        (f"slice={'x' * 1_025}", "a parameter is longer than 1024 characters"),
    ],
)
def test_a_link_that_shows_nothing_says_why_and_echoes_nothing(
    engine: sa.Engine, site: ServedSite, query: str, why: str
) -> None:
    publish(engine, lesson(*BOTH), T0)
    status, page = site.get(f"/?{query}")
    assert status == 400
    assert why.lower() in _text(page).lower()
    status, answer = site.get(f"/api/v1/snapshot?{query}")
    assert (status, why in json.loads(answer)["error"]) == (400, True)
    assert "SECRET" not in page + answer


def test_a_page_repeats_nothing_that_it_does_not_show(engine: sa.Engine, site: ServedSite) -> None:
    publish(engine, lesson(*BOTH), T0)
    for query in ("slice=SECRET", "contract=lesson&slice=SECRET&metric=tpr"):
        status, page = site.get(f"/?{query}")
        assert (status, "SECRET" in page) == (200, False)


def test_an_unknown_slice_or_incident_is_not_there(engine: sa.Engine, site: ServedSite) -> None:
    publish(engine, lesson(*BOTH), T0)
    gone = "/slice?contract=lesson&group_by=channel&slice=channel%3DSECRET"
    assert site.get(gone)[0] == site.get(f"/api/v1{gone}")[0] == 400
    assert "SECRET" not in site.get(gone)[1]
    for path in ("/incidents/1", "/incidents/0", "/incidents/x", "/incidents/9999999999"):
        assert site.get(path)[0] == site.get(f"/api/v1{path}")[0] == 404


def test_an_older_state_is_shown_under_its_own_time(engine: sa.Engine, site: ServedSite) -> None:
    publish(engine, lesson(full("channel=chat", 0.5)), T0)
    publish(engine, lesson(hidden("channel=chat"), at=T0 + 2 * DAY), T0 + 2 * DAY)
    then = "as_of=2024-10-05T00%3A00%3A00Z"
    assert site.json(f"/api/v1/slice{SLICE}")["line"]["cells"][0]["rate"] is None
    content = site.json(f"/api/v1/slice{SLICE}&{then}")
    assert content["line"]["completeness"] == 0.5
    assert (content["moment"]["newest"], content["moment"]["snapshot"]) == (False, 1)
    assert [point["day"] for point in content["history"]] == ["2024-10-04"], "no later ones"
    assert "This is not the newest state." in site.get(f"/slice{SLICE}&{then}")[1]
    assert site.get("/?as_of=2024-10-01T00:00:00Z")[0] == 404


def test_conditions_stand_above_the_contracts_each_with_its_runbook(
    engine: sa.Engine, clock: SetClock
) -> None:
    publish(engine, lesson(), T0)
    anchor = "/runbooks/SlicewatchNeedsAttention.md#consumer_lag"
    lag = StandingCondition("consumer_lag", "labels partition 0 lags by <b>", anchor)
    lost = StandingCondition("SlicewatchDataLoss", "Data loss", "/r")
    with served_site(engine, clock, conditions=(lag, lost)) as site:
        _, page = site.get("/")
        answer = site.json("/api/v1/snapshot")["conditions"]
        earlier = site.json("/api/v1/snapshot?as_of=2030-01-01T00:00:00Z")
    listed = page[page.index('id="conditions"') : page.index('id="contract-1"')]
    assert "labels partition 0 lags by &lt;b&gt;. " in listed
    assert f'<a href="{anchor}">Runbook: consumer_lag</a>' in listed
    assert "Data loss. " in listed
    assert [one["condition"] for one in answer] == ["consumer_lag", "SlicewatchDataLoss"]
    assert answer[0]["runbook"] == anchor
    assert earlier["conditions"] == [], "they are of now"


def test_without_a_condition_there_is_no_list(engine: sa.Engine, site: ServedSite) -> None:
    publish(engine, lesson(), T0)
    assert 'id="conditions"' not in site.get("/")[1]
    assert site.json("/api/v1/snapshot")["conditions"] == []


def test_texts_of_the_settings_cannot_become_markup_or_formulas(
    engine: sa.Engine, clock: SetClock
) -> None:
    evil = '=HYPERLINK("x")<script>alert(1)</script>'
    (table,) = lesson(*BOTH, replace(full(f"channel={evil}"), gaps={})).contracts
    snapshot = replace(lesson(), contracts=(replace(table, contract=evil, owner=evil),))
    publish(engine, snapshot, T0)
    limits = (Limitation(evil, evil),)
    with served_site(engine, clock, SiteFacts("1", limitations=limits)) as site:
        _, page = site.get("/")
        _, text = site.get("/overview.csv")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert {row["contract"] for row in _csv(text)} == {f"'{evil}"}


def test_a_thousand_slices_fit_on_pages_of_a_hundred(engine: sa.Engine, site: ServedSite) -> None:
    rows = [full(f"channel={i:04}") for i in range(1_000)]
    publish(engine, lesson(*rows), T0)
    _, first = site.get("/")
    assert len(first) < 500_000
    _, last = site.get("/?page=10")
    shown = [set(re.findall(r"channel=(\d{4})</a>", page)) for page in (first, last)]
    assert [len(one) for one in shown] == [100, 100]
    assert not shown[0] & shown[1]
    assert len(_csv(site.get("/overview.csv")[1])) == 2 * 1_001


def test_nothing_on_a_page_comes_from_elsewhere(engine: sa.Engine, site: ServedSite) -> None:
    publish(engine, lesson(*BOTH), T0)
    for path in PAGES:
        _, page = site.get(path)
        assert not re.findall(r"<(?:script|link|img|iframe|object)\b|javascript:|\bon\w+=", page)
        assert not re.findall(r"https?://", page)


def test_every_path_is_served(engine: sa.Engine, site: ServedSite) -> None:
    publish(engine, lesson(*BOTH), T0)
    assert [(path, site.get(path)[0]) for path in (*PAGES, *FILES, *ANSWERED)] == [
        (path, 200) for path in (*PAGES, *FILES, *ANSWERED)
    ]


def test_without_a_calibration_or_a_period_a_slice_is_shown_all_the_same(
    engine: sa.Engine, site: ServedSite
) -> None:
    bare = SliceRow("channel=chat", dict.fromkeys(Metric, State.SUPPRESSED))
    (table,) = lesson().contracts
    (window,) = table.windows
    empty = replace(window, groups=(GroupTable("channel", (bare,)),), decisions=None)
    publish(engine, replace(lesson(), contracts=(replace(table, windows=(empty,)),)), T0)
    page = _text(site.get(f"/slice{SLICE}")[1])
    assert "Nothing is published yet. The first numbers come after twice the usual delay" in page
    assert "Selection and blocked rates: nothing is published yet." in page


def _csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def _elements(page: str, name: str) -> list[str]:
    return re.findall(rf"<{name}\b.*?</{name}>", page, re.DOTALL)


def _element(page: str, name: str) -> str:
    return _elements(page, name)[0]


def _text(markup: str) -> str:
    bare = re.sub(r"<[^>]*>", " ", markup)
    return re.sub(r"\s+([.,;:)])", r"\1", re.sub(r"\s+", " ", bare)).strip().replace("&#39;", "'")


def test_runbooks_are_pages_with_a_place_for_each_condition(
    engine: sa.Engine, clock: SetClock
) -> None:
    texts = runbooks(Settings())
    with served_site(engine, clock, SiteFacts("1", runbook_texts=lambda: texts)) as site:
        assert site.get("/")[1].count('href="/runbooks"') == 1
        _, listed = site.get("/runbooks")
        assert re.findall(r'href="/runbooks/([^"]+)"', listed) == list(texts)
        for name in texts:
            status, page = site.get(f"/runbooks/{name}")
            assert status == 200
            assert re.search(rf'<h1 id="{name.removesuffix(".md")}">.*?</h1>\s*<p>First: ', page)
            assert not re.search(r"`|\*\*|\n(?:-|#|\d\.) ", page.partition("<main")[2])
        _, page = site.get("/runbooks/SlicewatchNeedsAttention.md")
        sections = re.findall(r'<h2 id="(\w+)">', page)
        assert sections == [
            alert.condition
            for alert in alerts(Settings())
            if alert.name == "SlicewatchNeedsAttention"
        ]
        assert site.get("/runbooks/SlicewatchOther.md")[0] == 404
