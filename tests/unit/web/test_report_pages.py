"""Weekly reports on the status page: their list, their pages and files, over a real port."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace

import jsonschema
import msgspec
import pytest
import sqlalchemy as sa
from browser import WIDTHS, browser, page, violations
from published_lesson import BOTH, full, hidden, lesson
from served import fetch
from served_site import OPEN, TOPICS, ServedSite, served_site
from set_clock import SetClock

from monitor.core.contract import Severity
from monitor.core.metric import Metric
from monitor.core.publish.act_input import ActInput
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.incidents import Stand
from monitor.core.publish.release import Release, ReleasedIncident, Revision, encode
from monitor.core.publish.snapshot import SliceRow
from monitor.core.time import DAY, IsoWeek
from monitor.reports import ReportFacts, WeeklyReport, as_json
from monitor.reports.frames import COLUMNS
from monitor.reports.weekly_report import TABLES
from monitor.store import database
from monitor.store.evaluator import weekly_releases
from monitor.store.evaluator.store import Cycle, EvaluatorStore
from monitor.web import SiteFacts
from monitor.web.openapi import ANSWERS, DOCUMENT, REPORT, REPORTS

WEEK = IsoWeek.named("2024-W40")
NOW = WEEK.end + 9 * DAY
EVIL = "<script>alert(1)</script>"
FACTS = SiteFacts("1.2.3", report=ReportFacts("slicewatch 1.2.3"))
PAGE_SIZED = ("/reports", "/report")
FILES = (
    *("/reports.csv", "/report.csv", REPORTS, REPORT),
    *(f"/report.csv?table={name}" for name in TABLES),
)
PAGED = ReleasedIncident(
    *(7, IncidentKind.BREACH, Severity.PAGE, "lesson", Metric.TPR, "", "withheld", WEEK.start),
    *(Stand.OPEN, None, None),
)


def revision(number: int, *rows: SliceRow, week: IsoWeek = WEEK) -> Revision:
    (table,) = lesson(*(rows or BOTH), at=week.end).contracts
    (window,) = table.windows
    named = replace(table, window=week.name, windows=(replace(window, window=week.name),))
    made = Release(week.name, week.start, week.end, (named,), (PAGED,))
    return Revision(week.name, number, week.end + number * DAY, encode(made))


def store_all(engine: sa.Engine, *revisions: Revision) -> None:
    store = EvaluatorStore(engine, TOPICS[0])
    epoch = store.lease.acquire("me", DAY)
    assert epoch is not None
    store.commit(epoch, Cycle(weeks=revisions), NOW)


@pytest.fixture
def site(engine: sa.Engine) -> Iterator[ServedSite]:
    with served_site(engine, SetClock(NOW), FACTS) as site:
        yield site


def test_before_the_first_week_the_list_says_so_and_there_is_no_report(site: ServedSite) -> None:
    status, page = site.get("/reports")
    assert status == 200
    assert "No week has been released yet." in page
    assert site.json(REPORTS) == {"reports": [], "more": False}
    for path in ("/report", "/report?week=2024-W40", REPORT, "/report.csv"):
        status, said = site.get(path)
        assert status == 404
        assert "week has been released yet" in said


def test_the_list_has_each_week_with_its_newest_revision_and_who_signed_it(
    engine: sa.Engine, site: ServedSite
) -> None:
    first, second = revision(1), revision(2, full("channel=chat", 0.99), hidden("channel=email"))
    store_all(engine, first, revision(1, week=WEEK.before))
    weekly_releases.sign(engine, first, ActInput(f"A {EVIL}"), NOW)
    assert site.json(REPORTS)["reports"][0]["signatures"][0]["of_this_revision"] is True
    store_all(engine, second)
    found = site.json(REPORTS)["reports"]
    assert [(one["week"], one["revision"], one["revisions"]) for one in found] == [
        (WEEK.name, 2, [1, 2]),
        (WEEK.before.name, 1, [1]),
    ]
    assert found[0]["digest"] == second.digest
    assert found[0]["decision"] == "BLOCKED"
    assert found[0]["signatures"][0]["of_this_revision"] is False
    _, page = site.get("/reports")
    assert "revision 1, whose numbers were others" in page
    assert "<script" not in page
    rows = list(csv.DictReader(io.StringIO(site.get("/reports.csv")[1])))
    assert [(row["week"], row["signatures"]) for row in rows] == [
        (WEEK.name, ""),
        (WEEK.before.name, ""),
    ]


def test_what_erasure_has_rewritten_is_listed_as_it_is_now(
    engine: sa.Engine, site: ServedSite
) -> None:
    store_all(engine, revision(1))
    before = site.json(REPORTS)["reports"][0]["digest"]
    with database.writing(engine) as connection:
        weekly_releases.rewrite(connection, lambda one: replace(one, contracts=()))
    after = site.json(REPORTS)["reports"][0]
    assert after["digest"] not in (before, "")
    assert "there is nothing to check" not in after["verdict"]


def test_the_newest_report_is_shown_and_any_revision_by_its_link(
    engine: sa.Engine, site: ServedSite
) -> None:
    other = revision(2, full("channel=chat", 0.99), hidden("channel=email"))
    store_all(engine, revision(1, week=WEEK.before), revision(1), other)
    for query, of in (
        ("", other),
        (f"?week={WEEK.name}", other),
        (f"?week={WEEK.name}&revision=1", revision(1)),
        (f"?week={WEEK.before.name}", revision(1, week=WEEK.before)),
    ):
        status, page = site.get(f"/report{query}")
        assert status == 200
        assert of.digest in page
        body = fetch(site.servers, f"{REPORT}{query}")[2]
        assert of.body in body
        assert json.loads(body)["digest"] == of.digest
    with engine.connect() as connection:
        stored = weekly_releases.stored_report(connection, WEEK)
    assert stored is not None
    assert fetch(site.servers, REPORT)[2] == as_json.render(
        WeeklyReport.from_stored(stored, FACTS.report)
    ), "the very bytes that the command writes"


def test_links_lead_to_pages_and_files_that_are_served(engine: sa.Engine, site: ServedSite) -> None:
    store_all(engine, revision(1))
    _, page = site.get("/report")
    links = [one.replace("&amp;", "&") for one in re.findall(r'href="(/[^"]*)"', page)]
    assert f"/api/v1/report?week={WEEK.name}&revision=1" in links
    assert "/incidents/7" in links
    assert "/reports" in links
    for link in set(links) - {"/incidents/7"}:
        assert site.get(link)[0] == 200, link
    assert 'href="/reports"' in site.get("/")[1]
    assert f'href="/report?week={WEEK.name}"' in site.get("/reports")[1]


def test_a_browser_may_load_the_report_s_own_style_and_nothing_else(
    engine: sa.Engine, site: ServedSite
) -> None:
    store_all(engine, revision(1))
    _, headers, body = fetch(site.servers, "/report")
    policy = headers.get("content-security-policy", headers.get("Content-Security-Policy", ""))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.findall(rb"<(?:script|link|img|iframe|object)\b|\bon\w+=", body)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("week=2024-W54", "week must be an ISO week, such as 2026-W47"),
        ("week=SECRET", "week must be an ISO week"),
        ("revision=0", "revision must be a whole number from 1 on"),
        ("revision=1e3", "revision must be a whole number"),
        ("table=SECRET", "table must be one of rates, gaps, calibration"),
        ("SECRET=1", "1 of its parameters are unknown"),
    ],
)
def test_a_wrong_parameter_is_said_and_not_echoed(
    engine: sa.Engine, site: ServedSite, query: str, said: str
) -> None:
    store_all(engine, revision(1))
    for path in ("/report", REPORT, "/report.csv"):
        status, text = site.get(f"{path}?{query}")
        assert status == 400
        assert said in text.replace("Week", "week").replace("Revision", "revision").replace(
            "Table", "table"
        )
        assert "SECRET" not in text


def test_what_is_not_stored_is_not_there(engine: sa.Engine, site: ServedSite) -> None:
    store_all(engine, revision(1))
    for query in ("week=2024-W30", "revision=2", f"week={WEEK.name}&revision=99999"):
        assert site.get(f"/report?{query}")[0] == site.get(f"{REPORT}?{query}")[0] == 404


def test_csv_files_are_those_of_the_command(engine: sa.Engine, site: ServedSite) -> None:
    store_all(engine, revision(1))
    assert tuple(COLUMNS) == TABLES
    for name in TABLES:
        _, text = site.get(f"/report.csv?table={name}")
        assert next(csv.DictReader(io.StringIO(text))).keys() == set(COLUMNS[name])
    assert site.get("/report.csv")[1] == site.get("/report.csv?table=rates")[1]


def test_answers_are_as_the_openapi_document_says(engine: sa.Engine, site: ServedSite) -> None:
    store_all(engine, revision(1))
    document = site.json(DOCUMENT)
    for path in (REPORTS, REPORT):
        schema = {
            "$ref": f"#/components/schemas/{ANSWERS[path].__name__}",
            "components": document["components"],
        }
        jsonschema.validate(site.json(path), schema)
        msgspec.convert(site.json(path), ANSWERS[path])


def test_only_admitted_readers_see_reports(engine: sa.Engine) -> None:
    store_all(engine, revision(1))
    config = replace(OPEN, tokens={"auditor": "0123456789abcdef"}, responders=())
    with served_site(engine, SetClock(NOW), FACTS, config=config) as site:
        for path in (*PAGE_SIZED, *FILES):
            assert site.get(path)[0] == 401, path
            assert site.get(path, Authorization="Bearer 0123456789abcdef")[0] == 200, path


@pytest.mark.parametrize("screen", ["phone", pytest.param("desktop", marks=pytest.mark.full)])
def test_axe_finds_nothing_and_nothing_is_cut(
    engine: sa.Engine, site: ServedSite, screen: str
) -> None:
    width = WIDTHS[screen]
    with browser() as chromium:
        for stored in (False, True):
            if stored:
                store_all(engine, revision(1, full("channel=chat"), hidden("channel=email")))
            for path in PAGE_SIZED if stored else PAGE_SIZED[:1]:
                with page(chromium, width=width, dark=stored, script=True) as shown:
                    shown.goto(site.base + path)
                    assert violations(shown) == [], path
                    wide = "document.documentElement.scrollWidth"
                    assert shown.evaluate(wide) <= width, path
