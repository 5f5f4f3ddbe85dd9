"""The report as PDF, opened page by page."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pypdf
import pytest
from demo_history import demo_report
from published_lesson import BOTH, full, hidden, lesson

from monitor.core.publish.release import Release, Revision, Signature, encode
from monitor.core.publish.snapshot import SliceRow
from monitor.core.time import DAY, IsoWeek, to_datetime
from monitor.errors import SlicewatchError
from monitor.present import html
from monitor.present.pdf_drawings import for_sheets
from monitor.reports import ReportFacts, WeeklyReport, as_json
from monitor.reports.document import CANNOT_SAY, PAGE_ONE, document
from monitor.reports.formats import as_html, as_pdf

WEEK = IsoWeek.named("2024-W40")


def report(*rows: SliceRow, synthetic: bool = True, by: str = "A. Person") -> WeeklyReport:
    (table,) = lesson(*rows, at=WEEK.end).contracts
    (window,) = table.windows
    named = replace(
        table, window=WEEK.name, synthetic=synthetic, windows=(replace(window, window=WEEK.name),)
    )
    made = Release(WEEK.name, WEEK.start, WEEK.end, (named,))
    revision = Revision(WEEK.name, 3, WEEK.end + DAY, encode(made))
    signed = Signature(WEEK.name, 1, 3, revision.digest, WEEK.end, by, "")
    facts = ReportFacts("slicewatch 1", status_url="https://status.example")
    return WeeklyReport(revision, 3, None, (signed,), release=made, facts=facts)


@pytest.fixture(scope="module")
def opened() -> pypdf.PdfReader:
    return pypdf.PdfReader(io.BytesIO(as_pdf(report(*BOTH))))


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_every_page_has_its_number_the_week_and_the_banner(opened: pypdf.PdfReader) -> None:
    number = len(opened.pages)
    assert number > 3
    for at, page in enumerate(opened.pages, 1):
        text = flat(page.extract_text())
        assert f"page {at} of {number}" in text
        assert f"slicewatch: week {WEEK.name}, revision 3" in text
        assert "SYNTHETIC: declared test conditions" in text


def test_page_one_has_the_decision_and_page_two_what_it_cannot_say(opened: pypdf.PdfReader) -> None:
    pages = [flat(page.extract_text()) for page in opened.pages]
    assert "UNDECIDED" in pages[0]
    assert f"Weekly fairness report {WEEK.name}" in pages[0]
    at = [pages[0].index(title) for title, _ in PAGE_ONE]
    assert at == sorted(at)
    assert "A. Person" in pages[0]
    assert "83 %" in pages[0]
    assert CANNOT_SAY in pages[1]
    assert "Annex" not in pages[0] + pages[1]
    whole, titles = " ".join(pages), [section.title for section in document(report(*BOTH)).sections]
    at = [whole.index(title) for title in titles]
    assert at == sorted(at)
    assert {page.mediabox.width > page.mediabox.height for page in opened.pages} == {True}


MOST_SHEETS, MOST_WORDS = 8, 3_000


@pytest.mark.full
def test_the_report_of_the_demo_is_short_and_page_one_holds_the_decision() -> None:
    one = demo_report()
    pages = [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(as_pdf(one))).pages]
    assert len(pages) <= MOST_SHEETS
    assert sum(len(page.split()) for page in pages) <= MOST_WORDS
    first = flat(pages[0])
    assert "BLOCKED Over the limit: language_variety=conversational: ready replies served" in first
    for slice_name in (
        *(f"language_variety={name}" for name in ("formal", "conversational", "code_switched")),
        *(f"channel={name}" for name in ("chat", "email", "voice")),
        *(f"device={name}" for name in ("phone", "desktop", "tablet", "kiosk")),
    ):
        assert slice_name in first
    assert "gap \N{LESS-THAN OR EQUAL TO} 10" in first
    for title, _ in PAGE_ONE:
        assert title in first
    for said in ("Last week", "Last signed report", "SHA-256", "Owner of the use case: ...."):
        assert said in first
    assert CANNOT_SAY in pages[1]


def test_what_identifies_a_report_is_printed_in_it() -> None:
    """People sign what stands there."""
    facts = ReportFacts("slicewatch 1", settings_digest=32 * "5e")
    made = replace(report(*BOTH), facts=facts)
    pages = pypdf.PdfReader(io.BytesIO(as_pdf(made))).pages
    whole = flat(" ".join(page.extract_text() for page in pages))
    told = json.loads(as_json.render(made))
    as_of = f"{to_datetime(told['release']['end'] + DAY):%Y-%m-%d %H:%M} UTC"
    first = flat(pages[0].extract_text())
    for value in (f"week: {told['week']} (", f"revision: {told['revision']} (", as_of):
        assert value in first
    assert told["digest"] in first
    assert f"Written by {told['facts']['program']}" in whole
    assert told["facts"]["settings_digest"] in whole


def test_of_people_there_is_no_banner() -> None:
    found = pypdf.PdfReader(io.BytesIO(as_pdf(report(*BOTH, synthetic=False))))
    assert "SYNTHETIC" not in "".join(page.extract_text() for page in found.pages)


def test_equal_reports_have_equal_bytes_and_say_nothing_of_now() -> None:
    made = as_pdf(report(full("channel=chat"), hidden("channel=email")))
    assert made == as_pdf(report(full("channel=chat"), hidden("channel=email")))
    assert made != as_pdf(report(full("channel=chat"), by="B"))
    document = pypdf.PdfReader(io.BytesIO(made))
    assert "/CreationDate" not in (document.metadata or {})


def test_links_of_pages_lead_nowhere_but_to_the_status_page(opened: pypdf.PdfReader) -> None:
    found = {
        str(one.get_object()["/A"]["/URI"])
        for page in opened.pages
        for one in page.get("/Annots", [])
        if "/A" in one.get_object()
    }
    assert all(one.startswith("https://status.example") for one in found)


def test_a_text_that_is_a_link_to_a_file_fetches_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"not to be read")
    evil = f'<img src="file://{secret}"><link rel=stylesheet href="file://{secret}">'
    text = " ".join(
        page.extract_text()
        for page in pypdf.PdfReader(io.BytesIO(as_pdf(report(*BOTH, by=evil)))).pages
    )
    assert "<img" in flat(text), "it is text"


def test_drawings_have_the_colours_of_print() -> None:
    page = as_html(report(*BOTH))
    style = html.style()
    drawn = for_sheets(page, style)
    parts = re.findall(r"<(?:rect|line|path|circle)\b[^>]*>", "".join(_drawings(drawn)))
    assert len(parts) > 5
    assert "var(" not in "".join(parts)
    assert all(" fill=" in one or " stroke=" in one for one in parts)
    hatched = [one for one in _drawings(drawn) if 'fill="url(#hatch)"' in one]
    assert hatched
    assert all('<pattern id="hatch"' in one for one in hatched), "each brings its own"
    assert re.sub(r"<svg.*?</svg>", "", drawn, flags=re.S) == re.sub(
        r"<svg.*?</svg>", "", page, flags=re.S
    ), "nothing else is changed"


def _drawings(page: str) -> list[str]:
    return re.findall(r"<svg\b.*?</svg>", page, re.DOTALL)[1:]


@pytest.mark.parametrize("missing", ["import weasyprint_is_not_there", 'raise OSError("pango")'])
def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    (tmp_path / "weasyprint.py").write_text(missing)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [one for one in sys.modules if one.split(".")[0] == "weasyprint"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SlicewatchError, match=r'pip install "slicewatch\[pdf\]".*libpango-1\.0-0'):
        as_pdf(report(*BOTH))


def test_who_asks_for_no_pdf_does_not_load_what_makes_it() -> None:
    code = "import sys, monitor.commands.report; sys.exit('weasyprint' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
