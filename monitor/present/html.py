"""A document as one HTML file: no script, no outside resource, every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources

import jinja2
from markupsafe import Markup

from monitor.present.document import Document


def style() -> str:
    """Return the style sheet of all pages."""
    return _text("style.css")


def page(document: Document, home: str | None = None, links: Sequence[tuple[str, str]] = ()) -> str:
    """Return a document as an HTML page.

    Args:
        document: the document.
        home: URL of the status page, without a slash at its end, for links of cells; empty if the
            same server serves both. Without it (None), the page links nowhere.
        links: name and URL of pages at the top.
    """
    return _template().render(
        document=document,
        style=Markup(style()),  # noqa: S704 - our own file
        home=home,
        links=links,
    )


@cache
def _template() -> jinja2.Template:
    """Load the template of pages, once per process, with HTML escaping on."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(_text("page.html.j2"))


def _text(name: str) -> str:
    return (resources.files(str(__package__)) / name).read_text(encoding="utf-8")
