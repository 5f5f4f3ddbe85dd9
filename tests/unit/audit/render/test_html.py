"""The HTML report: one file, accessible, everything escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import audit_reports as made

from monitor.audit.audit_report import AuditReport
from monitor.audit.inputs import Excluded
from monitor.audit.render.document import document
from monitor.present import html

VOID = {"meta", "br"}


def rendered(report: AuditReport) -> str:
    return html.page(document(report))


class Page(HTMLParser):
    """What is in a page; elements must be closed in the order in which they were opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_it_is_one_file_without_script_or_anything_from_elsewhere() -> None:
    text = rendered(made.COMPARED)
    page = Page(text)
    names = {name for name, _ in page.elements}

    assert not names & {"script", "link", "img", "iframe", "object", "form", "base"}
    assert not re.search(r"url\((?!#)|@import|https?:|//\w", text)
    assert not any(key.startswith("on") for _, found in page.elements for key in found)
    (policy,) = (m for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_tables_have_names_and_headers_with_scopes() -> None:
    page = Page(rendered(made.COMPARED))

    assert page.all("table")
    assert all(table["aria-labelledby"] for table in page.all("table"))
    assert all(header.get("scope") in ("col", "row") for header in page.all("th"))
    assert page.all("html") == [{"lang": "en"}]


def test_regions_are_labelled_by_headings_that_exist_once() -> None:
    page = Page(rendered(made.HELD_OUT))
    ids = [found["id"] for _, found in page.elements if "id" in found]

    assert len(ids) == len(set(ids))
    assert {f["aria-labelledby"] for _, f in page.elements if "aria-labelledby" in f} == {
        one for one in ids if one and one.startswith("section-")
    }


def test_text_is_escaped() -> None:
    hostile = "<img src=x onerror=alert(1)>&\"'"
    flip = made.flip(hostile, True, 0.78, 0.67)
    part = replace(made.PART, flips=(flip,))
    report = replace(
        made.BLOCKED,
        dataset=hostile,
        baseline=replace(made.BASELINE, parts=(part,)),
        excluded=(Excluded(hostile, hostile),),
    )
    page = Page(rendered(report))

    assert page.all("img") == []
    assert page.all("html") == [{"lang": "en"}]
    assert "&lt;img src=x" in rendered(report)


def test_it_has_light_dark_and_print() -> None:
    text = rendered(made.BLOCKED)

    assert "@media (prefers-color-scheme: dark)" in text
    assert "@media print" in text


def test_the_decision_is_the_title() -> None:
    assert "<title>BLOCKED: Matched-pair audit of ten-pairs 1</title>" in rendered(made.BLOCKED)
    assert "<title>APPROVED: " in rendered(made.APPROVED)
    assert "<title>COULD NOT EVALUATE: " in rendered(made.EXCLUDED)


def test_the_lessons_numbers_are_in_it() -> None:
    text = rendered(made.BLOCKED)

    for shown in (
        "83.3 %\n(43.6 to 97.0 %)",
        "-17.2 to +67.4",
        "-69.9 to +28.1",
        ">+33.3\nworse off<",
        ">0.5<",
        ">not ready<",
    ):
        assert shown in text
