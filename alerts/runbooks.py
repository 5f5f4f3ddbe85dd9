"""Runbooks as Markdown: one for each alert, in the words of :mod:`alerts.runbook_texts`."""

from __future__ import annotations

from collections.abc import Iterator

from alerts.alert import Alert, Severity
from alerts.rules import duration

_LOUD = {
    Severity.PAGE: "somebody is woken",
    Severity.TICKET: "somebody looks at it in office hours",
    Severity.INFO: "said, and nobody must act",
    Severity.NONE: "a sign of life",
}


def runbook(alert: Alert) -> str:
    """The whole page."""
    return "\n".join(_lines(alert)).rstrip("\n") + "\n"


def _lines(alert: Alert) -> Iterator[str]:
    text = alert.runbook
    yield f"# {alert.name}\n"
    yield f"Severity **{alert.severity.value}**: {_LOUD[alert.severity]}. {_patience(alert)}\n"
    yield f"{text.means}\n"
    yield "## The first five minutes\n"
    yield f"1. **The monitor?** {text.monitor}"
    yield f"2. **The sampler?** {text.sampler}"
    yield f"3. **The router?** {text.router}\n"
    yield f"## Who owns it\n\n{text.owner}\n"
    yield from _moves("Safe moves", text.safe)
    yield from _moves("Wrong moves", text.wrong)
    yield from _silence(alert)
    yield f"## The rule\n\n```promql\n{alert.expr}\n```"


def _patience(alert: Alert) -> str:
    waits = f"It fires after {duration(alert.wait)}" if alert.wait else "It fires at once"
    keeps = f", and ends {duration(alert.keep)} after its cause" if alert.keep else ""
    return f"{waits}{keeps}.{_stands(alert)}"


def _stands(alert: Alert) -> str:
    if alert.held is None:
        return ""
    return f" While no {alert.held.words} is shown it stands as it was, for six hours."


def _moves(title: str, moves: tuple[str, ...]) -> Iterator[str]:
    yield f"## {title}\n"
    yield from (f"- {move}" for move in moves)
    yield ""


def _silence(alert: Alert) -> Iterator[str]:
    matchers = " ".join([f"alertname={alert.name}", *alert.runbook.silence])
    yield "## Silence\n"
    yield "For two hours, by name and with a reason; put in what is in capitals:\n"
    yield (
        "```sh\namtool silence add --alertmanager.url=http://localhost:9093 --duration=2h"
        f" --author=NAME --comment=REASON {matchers}\n```\n"
    )
