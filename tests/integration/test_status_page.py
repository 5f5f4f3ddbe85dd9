"""The status page of a running demo in Chromium: a breach seen, understood and acknowledged."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser import WIDTHS, browser, page, picture, violations
from free_ports import free_port
from playwright.sync_api import Browser, Page

from monitor.demo.view import REGRESSED_SLICE

PAGED_WITHIN = 400.0
"""Seconds until the regression is paged, at most; it takes about forty on a machine of its own."""
PICTURES = os.environ.get("SLICEWATCH_PICTURES")
"""Where to keep pictures of the pages: those of the documentation are made by this test."""

pytestmark = pytest.mark.usefixtures("tansu")


@contextmanager
def running_demo(folder: Path) -> Iterator[str]:
    """A demo as a user starts it; the address that it serves."""
    port = free_port()
    command = [sys.executable, "-m", "monitor", "demo", "--port", str(port), "--seed", "7"]
    environment = os.environ | {"TMPDIR": str(folder)}
    with (folder / "demo.log").open("w") as log:
        demo = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(timeout=60)


def answer(base: str, path: str) -> Any:
    with urllib.request.urlopen(base + path, timeout=60) as found:
        return json.load(found)


def wait_until_paged(base: str) -> dict[str, Any]:
    """The first answer with an incident of the slice that regressed, and its state: a day later."""
    end = time.monotonic() + PAGED_WITHIN
    while time.monotonic() < end:
        try:
            found: dict[str, Any] = answer(base, "/api/v1/snapshot")
        except OSError:
            found = {"incidents": []}
        if any(one["slice"] == REGRESSED_SLICE for one in found["incidents"]):
            (contract,) = found["contracts"]
            worst = contract["slices"][0]
            if worst["slice"] == REGRESSED_SLICE and "breach" in [
                c["state"] for c in worst["cells"]
            ]:
                return found
        time.sleep(0.5)
    raise AssertionError("the regression was not paged")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_demo(tmp_path_factory.mktemp("demo")) as base:
        wait_until_paged(base)
        yield base


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


def addresses(base: str) -> dict[str, str]:
    regressed = REGRESSED_SLICE.replace("=", "%3D")
    number = answer(base, "/api/v1/incidents")["incidents"][0]["id"]
    return {
        "overview": "/",
        "slice": f"/slice?contract=demo&group_by=language_variety&slice={regressed}",
        "incident": f"/incidents/{number}",
        "incidents": "/incidents",
    }


def test_the_breach_is_the_first_line_and_the_right_slice_the_first_row(
    demo: str, chromium: Browser
) -> None:
    with page(chromium) as shown:
        shown.goto(demo)
        heading = shown.locator("h1").inner_text()
        assert heading.startswith("over limit")
        assert len(heading.split()) <= 17, "the badge, and fifteen words"
        assert f"{REGRESSED_SLICE}: ready replies served less often" in heading
        rows = shown.locator("table.rows tbody tr").all_inner_texts()
        assert rows[1].startswith(REGRESSED_SLICE), "after all decisions"
        assert "breach" in rows[1]
        assert sum("breach" in row for row in rows) == 1


def test_what_is_suppressed_has_no_number_anywhere(demo: str, chromium: Browser) -> None:
    """Kiosk has six decisions a day: no page, answer, drawing or file says a number of it."""
    query = "contract=demo&group_by=device&slice=device%3Dkiosk"
    with page(chromium) as shown:
        shown.goto(demo)
        row = shown.locator("tr", has_text="device=kiosk")
        assert not re.findall(r"\d", row.inner_text())
        assert set(row.locator("svg").evaluate_all("all => all.map(one => one.outerHTML)")) == {
            row.locator("svg").first.evaluate("one => one.outerHTML")
        }
        shown.goto(f"{demo}/slice?{query}")
        assert set(shown.locator("td[data-name=Slice]").all_inner_texts()) == {"\N{EN DASH}"}
    content = answer(demo, f"/api/v1/slice?{query}")
    for cell in content["line"]["cells"]:
        assert (cell["rate"], cell["gap"], cell["evidence"]) == (None, None, None)
    assert all(point["value"] is None for point in content["history"])
    with urllib.request.urlopen(f"{demo}/slice.csv?{query}", timeout=60) as found:
        lines = found.read().decode().splitlines()[1:]
    assert lines
    for line in lines:
        assert ",suppressed,,,,,,,,,,,,,,," in line


def test_a_person_acknowledges_the_incident_by_keyboard_alone(demo: str, chromium: Browser) -> None:
    with page(chromium) as shown:
        shown.goto(demo)
        tab_to(shown, "Incident ")
        shown.keyboard.press("Enter")
        shown.wait_for_url(re.compile(r"/incidents/\d+$"))
        tab_to(shown, "", name="by")
        shown.keyboard.type("on call")
        shown.keyboard.press("Tab")
        shown.keyboard.type("looking at the judge")
        shown.keyboard.press("Enter")
        shown.get_by_text("looking at the judge").wait_for()
        assert "acknowledged, by on call" in shown.locator("dl").inner_text()
        shown.goto(demo)


def tab_to(shown: Page, text: str, name: str = "") -> None:
    """Press the tabulator until a link with a text, or a field of a name, has the focus."""
    for _ in range(60):
        shown.keyboard.press("Tab")
        focused = shown.locator(":focus")
        if name and focused.get_attribute("name") == name:
            return
        if not name and focused.inner_text().startswith(text):
            return
    raise AssertionError(f"not reached by keyboard: {text or name}")


@pytest.mark.parametrize("screen", ["phone", pytest.param("desktop", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", ["overview", "slice", "incident", "incidents"])
def test_axe_finds_nothing_on_any_screen_and_nothing_is_cut(
    demo: str, chromium: Browser, tmp_path: Path, name: str, screen: str
) -> None:
    folder = Path(PICTURES) if PICTURES else tmp_path
    path = addresses(demo)[name]
    width = WIDTHS[screen]
    for dark in (False, True):
        with page(chromium, width=width, dark=dark, script=True) as shown:
            shown.goto(demo + path)
            assert violations(shown) == []
            wide = "document.documentElement.scrollWidth"
            assert shown.evaluate(wide) <= width
            kind = f"{name}-{screen}{'-dark' if dark else ''}"
            assert len(picture(shown, folder / f"{kind}.png")) > 10_000


def test_five_questions_are_answered_within_two_clicks(demo: str, chromium: Browser) -> None:
    with page(chromium) as shown:
        shown.goto(demo)
        # Is anything wrong now, and how many slices does it concern?
        assert shown.locator("h1 .badge").inner_text() == "over limit"
        assert re.match(r"1\s+breach", shown.locator(".tiles li").first.inner_text())
        # Why is kiosk grey?
        assert "hidden" in shown.locator("tr", has_text="device=kiosk").inner_text()
        shown.locator(".help summary").click()
        assert "We do not say which." in shown.locator(".help").inner_text()
        # Only the devices, without a script.
        shown.get_by_label("Slice contains").fill("DEVICE")
        shown.get_by_role("button", name="Show slices").click()
        rows = shown.locator("[aria-labelledby=contract-1] tbody th").all_inner_texts()
        assert rows
        assert all(row.startswith("device=") for row in rows)
        shown.goto(demo)
        # Since when, and after which change?
        shown.get_by_role("link", name=re.compile(r"^Incident \d")).first.click()
        facts = shown.locator("dl").inner_text()
        assert re.search(r"Since\s+about 2026-01-\d\d", facts)
        # Did the fix help? The history of exactly that slice and metric.
        shown.locator("dd a", has_text=REGRESSED_SLICE).click()
        assert shown.locator("svg.history").count() >= 2
        assert shown.locator(".event.incident").count() >= 1
        # Is email worse than chat?
        shown.goto(demo)
        shown.get_by_role("link", name="channel=email").first.click()
        assert "compared with channel=chat" in shown.locator("main").inner_text()
        assert "within limit" in shown.locator("td[data-name=State]").first.inner_text()
