"""Acknowledging and closing incidents by form: who may, from where, and what is put on record."""

from __future__ import annotations

import base64
import csv
import io
import logging
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
import sqlalchemy as sa
from published_lesson import BOTH, T0, lesson
from served import connect, fetch
from served_site import OPEN, ServedSite, publish, served_site
from set_clock import SetClock

from alerts.http import HttpConfig
from monitor.core.contract import Severity
from monitor.core.metric import Metric
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.incidents import Incident
from monitor.core.publish.snapshot import ShownIncident, Snapshot
from monitor.core.time import DAY, HOUR
from monitor.store import database
from monitor.store.evaluator.stored_incidents import IncidentChange
from monitor.store.schema import incident_act
from monitor.web import SiteFacts

ACK = {"incident": "1", "by": "triage team", "note": "looking at the judge"}
TOKENS = {"oncall": "token-of-oncall", "grafana": "token-of-grafana"}
GUARDED = HttpConfig(port=0, tokens=TOKENS, responders=("oncall",))


@pytest.fixture
def engine(engine: sa.Engine) -> sa.Engine:
    slice_ = ("channel", "channel=chat")
    opened = Incident(1, IncidentKind.BREACH, "lesson", Metric.TPR, T0 - DAY, T0, *slice_)
    publish(engine, _with_incident(), T0, IncidentChange([opened]))
    return engine


def _with_incident() -> Snapshot:
    (table,) = lesson(*BOTH).contracts
    shown = ShownIncident(
        1, IncidentKind.BREACH, Severity.PAGE, Metric.TPR, T0 - DAY, "channel", "channel=chat"
    )
    return replace(lesson(), contracts=(replace(table, incidents=(shown,)),))


@pytest.fixture
def site(engine: sa.Engine) -> Iterator[ServedSite]:
    with served_site(engine, SetClock(T0 + HOUR)) as site:
        yield site


@pytest.fixture
def guarded(engine: sa.Engine) -> Iterator[ServedSite]:
    with served_site(engine, SetClock(T0 + HOUR), config=GUARDED) as site:
        yield site


def acts(engine: sa.Engine) -> list[tuple[str, str, str, str | None]]:
    with database.reading(engine) as connection:
        columns = (incident_act.c.action, incident_act.c.by, incident_act.c.note)
        query = sa.select(*columns, incident_act.c.outcome).order_by(incident_act.c.number)
        return [tuple(row) for row in connection.execute(query)]


def basic(token: str) -> str:
    return "Basic " + base64.b64encode(f"whoever:{token}".encode()).decode()


def test_an_incident_is_acknowledged_and_closed_by_form(
    engine: sa.Engine, site: ServedSite, caplog: pytest.LogCaptureFixture
) -> None:
    _, page = site.get("/incidents/1")
    assert "Nobody has acknowledged it" in site.get("/")[1]
    assert '<form method="post" action="/acknowledge">' in page
    with caplog.at_level(logging.INFO, "slicewatch.access"):
        status, headers, _ = site.post("/acknowledge", ACK)
    assert (status, headers["location"]) == (303, "/incidents/1")
    (line,) = [record for record in caplog.records if record.message == "incident acknowledged"]
    assert (line.__dict__["incident"], line.__dict__["reader"]) == (1, "anonymous")
    assert "acknowledged, by triage team" in site.get("/incidents/1")[1]

    accepted = {**ACK, "outcome": "accepted", "until": "2024-10-20", "note": ""}
    assert site.post("/close", accepted)[0] == 303
    assert site.post("/close", {**ACK, "outcome": "fixed"})[0] == 303
    assert acts(engine) == [
        ("ack", "triage team", "looking at the judge", None),
        ("close", "triage team", "", "accepted"),
        ("close", "triage team", "looking at the judge", "fixed"),
    ]
    page = site.get("/incidents/1")[1]
    assert "closed: fixed" in page
    assert "<form" not in page, "it is over"


def test_an_incident_shows_slice_and_limit_in_one_line_with_charts(engine: sa.Engine) -> None:
    facts = SiteFacts("1", runbooks={Metric.TPR: "/runbooks/tpr"})
    publish(engine, replace(_with_incident(), watermark=T0 + DAY), T0 + DAY)
    with served_site(engine, SetClock(T0 + DAY), facts) as site:
        page = site.get("/incidents/1")[1]
    text = " ".join(re.sub(r"<[^>]*>", "", page).split())
    assert (
        "83 % here (limit at least 60 %), 83 % for the reference; gap +33 [-10 to +70] points"
        " (limit 10)"
    ) in text
    assert 'aria-label="gap +33 [-10 to +70] points; limit 10 points"' in page
    assert '<svg class="history"' in page
    assert '<a href="/runbooks/tpr">runbook</a>' in page


def test_the_file_of_incidents_says_how_severe_each_is(site: ServedSite) -> None:
    (row,) = csv.DictReader(io.StringIO(site.get("/incidents.csv")[1]))
    assert (row["id"], row["kind"], row["severity"]) == ("1", "breach", "page")


@pytest.mark.parametrize(
    ("path", "change", "said"),
    [
        ("/acknowledge", {"by": " "}, "Your name is missing: a person on duty or a team"),
        ("/acknowledge", {"by": "x" * 81}, "Your name must have at most 80 characters"),
        ("/acknowledge", {"note": "two\nlines"}, "The note must be one line of plain text"),
        ("/close", {"outcome": "SECRET"}, "Outcome must be one of fixed"),
        ("/close", {"outcome": "accepted"}, "Outcome accepted needs Last day"),
        ("/close", {"outcome": "accepted", "until": "SECRET"}, "Last day must be a day"),
        ("/close", {"outcome": "accepted", "until": "2020-01-01"}, "must be a future day"),
        ("/close", {"outcome": "fixed", "until": "2024-10-20"}, "Last day is only for"),
    ],
)
def test_what_is_wrong_in_a_form_is_said_and_nothing_is_kept(
    engine: sa.Engine, site: ServedSite, path: str, change: dict[str, str], said: str
) -> None:
    status, _, page = site.post(path, {**ACK, **change})
    assert (status, said in page, acts(engine)) == (400, True, [])
    assert "SECRET" not in page


@pytest.mark.parametrize("number", ["", "2", "0", "x", "1 "])
def test_no_other_incident_is_acted_on(engine: sa.Engine, site: ServedSite, number: str) -> None:
    assert site.post("/acknowledge", {**ACK, "incident": number})[0] == 404
    assert acts(engine) == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": ""},  # sent without one, and without a bearer token
        {"Host": "rebound.example", "Origin": "http://rebound.example"},
        {"Host": "rebound.example"},
    ],
)
def test_a_page_of_somebody_else_cannot_act(
    engine: sa.Engine, site: ServedSite, headers: dict[str, str]
) -> None:
    assert site.post("/acknowledge", ACK, **headers)[0] == 403
    assert acts(engine) == []


@pytest.mark.parametrize(
    ("host", "config", "status"),
    [
        ("evil.example", OPEN, 403),
        ("127.0.0.1.evil.example:9095", OPEN, 403),
        ("[evil", OPEN, 403),
        ("monitor.example", replace(OPEN, origins=("https://monitor.example",)), 200),
        ("localhost:1", OPEN, 200),
        ("[::1]:9095", OPEN, 200),
        ("prometheus-target.example:9095", replace(OPEN, host="0.0.0.0", insecure=True), 200),
    ],
)
def test_nobody_reads_under_a_name_that_is_not_ours(
    engine: sa.Engine, host: str, config: HttpConfig, status: int
) -> None:
    """Else a page of somebody else reads all that this machine's browser can (DNS rebinding)."""
    with served_site(engine, SetClock(T0 + HOUR), config=config) as site:
        for path in ("/", "/overview.csv", "/api/v1/snapshot", "/metrics"):
            assert site.get(path, Host=host)[0] == status, path
        assert site.get("/livez", Host=host)[0] == 200, "it says nothing of anybody"
        if status == 403:
            assert "set alerting.external_url" in site.get("/", Host=host)[1]


def test_a_reader_with_a_token_may_call_us_by_any_name(guarded: ServedSite) -> None:
    reader = basic(TOKENS["grafana"])
    assert guarded.get("/metrics", Host="evil.example", Authorization=reader)[0] == 200


def test_a_proxy_s_address_is_an_origin_of_ours(engine: sa.Engine) -> None:
    config = replace(GUARDED, origins=("https://monitor.example",))
    with served_site(engine, SetClock(T0 + HOUR), config=config) as site:
        headers = {"Origin": "https://monitor.example", "Authorization": basic(TOKENS["oncall"])}
        assert site.post("/acknowledge", ACK, **headers)[0] == 303


def test_only_named_readers_may_act_and_browsers_are_asked_for_a_password(
    engine: sa.Engine, guarded: ServedSite
) -> None:
    assert guarded.get("/incidents/1")[0] == guarded.post("/acknowledge", ACK)[0] == 401
    reader, oncall = basic(TOKENS["grafana"]), basic(TOKENS["oncall"])
    status, page = guarded.get("/incidents/1", Authorization=reader)
    assert (status, "<form" in page, "server.responders" in page) == (200, False, True)
    assert guarded.post("/acknowledge", ACK, Authorization=reader)[0] == 403
    assert "<form" in guarded.get("/incidents/1", Authorization=oncall)[1]
    assert guarded.post("/acknowledge", ACK, Authorization=oncall)[0] == 303
    bearer = f"Bearer {TOKENS['oncall']}"
    assert guarded.post("/acknowledge", ACK, Authorization=bearer, Origin="")[0] == 303
    assert len(acts(engine)) == 2


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("text/plain", "incident=1&by=x", 415),
        ("multipart/form-data; boundary=x", "--x--", 415),
        ("application/x-www-form-urlencoded; charset=utf-8", "incident=1&by=x", 303),
        ("application/x-www-form-urlencoded", "note=" + "x" * 9_000, 413),
        ("application/x-www-form-urlencoded", "&".join(f"a{i}=1" for i in range(99)), 400),
        ("application/x-www-form-urlencoded", "by=%ff%fe", 400),
    ],
)
def test_only_small_forms_are_read(site: ServedSite, kind: str, body: str, status: int) -> None:

    headers = {"Content-Type": kind, "Origin": site.base}
    assert fetch(site.servers, "/acknowledge", "POST", body, **headers)[0] == status


def test_who_sends_a_form_slowly_is_answered_all_the_same(engine: sa.Engine) -> None:
    config = replace(OPEN, body_seconds=0.3)
    with (
        served_site(engine, SetClock(T0 + HOUR), config=config) as site,
        connect(site.servers) as client,
    ):
        client.sendall(
            b"POST /acknowledge HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\n"
            b"Origin: http://127.0.0.1\r\n\r\nincident=1"
        )
        answer = client.recv(65_536)  # waits far less long than a connection may be idle
        assert answer.startswith(b"HTTP/1.1 408 ")


def test_reading_acts_on_nothing(engine: sa.Engine, site: ServedSite) -> None:
    for path in ("/acknowledge", "/close"):
        assert site.get(f"{path}?incident=1&by=x&outcome=fixed")[0] == 405
    for path in ("/", "/incidents/1", "/metrics"):
        assert site.post(path, ACK)[0] == 405
    assert acts(engine) == []


def test_a_slice_shows_its_incidents_also_when_they_are_over(site: ServedSite) -> None:
    slice_ = "/api/v1/slice?group_by=channel&slice=channel%3Dchat"
    site.post("/close", {**ACK, "outcome": "fixed"})
    (past,) = site.json(slice_)["past"]
    assert (past["id"], past["outcome"], past["resolved_at"]) == (1, "fixed", None)
    assert site.json(f"{slice_}&metric=fpr")["past"] == []
    assert site.json("/api/v1/slice?group_by=channel&slice=channel%3Demail")["past"] == []
    page = site.get("/slice?group_by=channel&slice=channel%3Dchat")[1]
    assert "not resolved (fixed)" in page
