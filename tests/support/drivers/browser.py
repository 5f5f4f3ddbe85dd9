"""A headless browser: pages as people see them, their keyboard, and a check of accessibility."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from monitoring import binary
from playwright.sync_api import Browser, Page, sync_playwright

WIDTHS = {"desktop": 1280, "phone": 390}
_ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
_WAIT_MS = 30_000


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Chromium as the system has it."""
    path = binary("chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        try:
            yield started
        finally:
            started.close()


@contextlib.contextmanager
def page(
    of: Browser, *, width: int = WIDTHS["desktop"], dark: bool = False, script: bool = False
) -> Iterator[Page]:
    """A new page; scripts are off, as the pages have none, but for tools that need them."""
    context = of.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        java_script_enabled=script,
        bypass_csp=script,  # the policy of our pages forbids scripts, those of tools too
        service_workers="block",
    )
    context.set_default_timeout(_WAIT_MS)
    try:
        yield context.new_page()
    finally:
        context.close()


def violations(shown: Page) -> list[tuple[str, str, list[Any]]]:
    """What axe-core finds on a page: rule, why, and where."""
    found = Axe().run(shown).response["violations"]
    return [(one["id"], one["help"], [node["target"] for node in one["nodes"]]) for one in found]


def picture(shown: Page, path: Path) -> bytes:
    """A picture of the whole page."""
    return shown.screenshot(path=path, full_page=True)
