"""Every number in a table of a report is one of its JSON file, and every section says something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import census_weeks
import msgspec
import numpy as np
import pytest
from demo_history import demo_report
from released_rows import facts_of, released, report_of, rows_of

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.coding import Coding
from monitor.core.publish.release import Revision, decode, encode
from monitor.core.publish.words import moment_text, percent, points
from monitor.core.state import State
from monitor.reports import ReportFacts, WeeklyReport, as_json
from monitor.reports.document import document
from monitor.reports.formats import as_html

GOLDEN = Path(__file__).parents[2] / "data" / "weekly_2026-W23.json"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
NAMES = ["guarded", "census", "census, all labelled", pytest.param("demo", marks=pytest.mark.full)]
WORDS = {"95", "28", "100", "0"}  # of the program: confidence, the longest window, per cent
MOST_BYTES = 2_000_000


@cache
def report(name: str) -> WeeklyReport:
    if name == "demo":
        return demo_report()
    if name != "guarded":
        return census(1.0 if name == "census, all labelled" else 0.2)
    stored = msgspec.json.decode(GOLDEN.read_bytes())
    body = encode(decode(msgspec.json.encode(stored["release"])))
    facts = msgspec.convert(stored["facts"], ReportFacts)
    world = Revision(stored["week"], 1, stored["as_of"], body)
    return WeeklyReport(world, 1, world, release=world.release, facts=facts)


def census(audit: float) -> WeeklyReport:
    """A week of 7,000 people, by race."""
    people = census_weeks.rows().sample(7_000, random_state=np.random.default_rng(3))
    coding = Coding((), census_weeks.EDGES, (1.0, audit))
    counts = census_weeks.counts_of(people, "w=" + people["rac1p"], audit)
    whole = census_weeks.counts_of(people, people["rac1p"].map(lambda _: "w=all"), audit)
    (total,) = rows_of(whole, coding)
    rows = rows_of(counts, coding, reference=COMPLEMENT)
    return report_of(released(rows, total), facts_of(coding, present_threshold=0.5))


def leaves(document: object) -> Iterator[object]:
    if isinstance(document, dict):
        for name, value in document.items():
            yield from leaves(name)
            yield from leaves(value)
    elif isinstance(document, list):
        for value in document:
            yield from leaves(value)
    else:
        yield document


def forms(value: object) -> Iterator[str]:
    """Every way in which a value of the JSON file is written."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from (percent(value), points(value), f"{value:,}", f"{value:.2f}", f"{value:.3f}")
        yield from (f"{100 * value:.1f}", f"{100 * value:.3f}")
        if isinstance(value, int) and value > 10**12:
            yield moment_text(value)


def known(one: WeeklyReport) -> set[str]:
    document = msgspec.json.decode(as_json.render(one))
    found = {n for leaf in leaves(document) for form in forms(leaf) for n in NUMBER.findall(form)}
    states = [s for s in leaves(document["release"]) if s in [*State]]
    return found | WORDS | {str(n) for n in range(len(states) + 1)}


@pytest.mark.parametrize("name", NAMES)
def test_every_number_of_a_table_traces_to_the_json_file(name: str) -> None:
    one = report(name)
    numbers, checked = known(one), 0
    for section in document(one).sections:
        for part in section.tables:
            for cells in part.rows:
                for cell in cells:
                    found = NUMBER.findall(cell.text)
                    missing = [n for n in found if n not in numbers]
                    assert not missing, (section.title, cell.text)
                    checked += len(found)
    assert checked > 400


@pytest.mark.parametrize("name", NAMES)
def test_every_section_has_numbers_or_a_sentence_why_not(name: str) -> None:
    one = report(name)
    for section in document(one).sections:
        rows = sum(len(part.rows) for part in section.tables)
        assert rows or any(section.notes), section.title
    page = as_html(one)
    assert len(page.encode()) < MOST_BYTES
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_the_planners_say_something_of_a_real_week() -> None:
    planned = msgspec.json.decode(as_json.render(report("census")))["planned"]
    for name in ("label_budget", "detectable_gaps", "threshold_what_if", "tipping_points"):
        assert planned[name], name
    for name in ("criteria", "trends"):
        assert planned[name], name
