"""``slicewatch audit --scorecard``: bias evaluations by dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from monitor.audit.render.card_document import card_document
from monitor.audit.scorecard.card import Scorecard
from monitor.audit.scorecard.card_file import read_card
from monitor.audit.scorecard.files import encode, events, read_earlier
from monitor.audit.scorecard.scoring import score_card
from monitor.clock import SystemClock
from monitor.core.time import to_datetime
from monitor.present import html, markdown

CARD_FORMATS: Mapping[str, Callable[[Scorecard], str]] = {
    "json": encode,
    "events": events,
    "html": lambda card: html.page(card_document(card)),
    "markdown": lambda card: markdown.short(card_document(card)),
}


def scored(path: Path, *, previous: Path | None, baseline: Path | None) -> Scorecard:
    """Return the scorecard of a file, compared with earlier scorecards if they are given.

    Raises:
        AuditError: a file cannot be used.
    """
    today = to_datetime(SystemClock().now()).date()
    return score_card(
        read_card(path, today),
        path.parent,
        today,
        previous=read_earlier(previous) if previous else None,
        baseline=read_earlier(baseline) if baseline else None,
    )
