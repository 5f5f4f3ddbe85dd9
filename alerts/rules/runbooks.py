"""Runbooks: one Markdown page for each alert, from the templates in ``runbooks``."""

from __future__ import annotations

import functools
import re

import jinja2

from alerts.rules.declarations import Alert, Severity

REACTIONS = {
    Severity.PAGE: "somebody is woken",
    Severity.TICKET: "somebody looks at it in office hours",
    Severity.INFO: "shown for information, nobody must act",
    Severity.NONE: "a dead man's switch",
}


def runbook(alert: Alert) -> str:
    """The page of one alert."""
    template = _environment().get_template(f"{alert.runbook or alert.name}.md.j2")
    return template.render(alert=alert, reaction=REACTIONS[alert.severity])


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(str(__package__), "runbooks"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Markdown, from our own files alone
    )
    environment.filters["unwrapped"] = unwrapped
    return environment


def unwrapped(text: str) -> str:
    r"""Markdown with each paragraph and each item of a list on a line of its own.

    Example:
        >>> unwrapped("Two\nlines.\n\n- one\n  item\n- another")
        'Two lines.\n\n- one item\n- another'
    """
    return re.sub(r"(?<!\n)\n *(?!\n|- |\d\. |#)(?=.)", " ", text)
