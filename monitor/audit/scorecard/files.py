"""Scorecards as files: as ``--json`` writes and reads them, and as events for the stream."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from monitor.audit.record_files import problem
from monitor.audit.scorecard.card import Scorecard

FORMAT = 1
"""Changes when a key goes or changes its meaning; keys may be added under the same number."""
_MAX_BYTES = 16 << 20


def encode(card: Scorecard) -> str:
    """A scorecard as JSON, with what has to be read together with it."""
    content = {"format": FORMAT, "exit_code": card.exit_code, **msgspec.to_builtins(card)}
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def events(card: Scorecard) -> str:
    """The measured dimensions as events for the labels' topic, one a line."""
    lines = (
        {
            "type": "bias_result",
            "dimension": one.name,
            "measured": one.measured,
            "score": one.score,
            "items": one.items,
            "probe_set": one.probe_set,
            "probe_version": one.probe_version,
            "model": one.model,
            "rubric": one.rubric,
        }
        for one in card.dimensions
        if one.score is not None
    )
    return "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)


def read_earlier(path: Path) -> Scorecard:
    """A scorecard of an earlier time, or of what is in use.

    Raises:
        AuditError: the file cannot be read, or is none.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise problem(path, "is too large; give a scorecard that --json wrote")
        return msgspec.json.decode(data, type=Scorecard)
    except OSError as error:
        raise problem(path, f"cannot be read: {error.strerror or 'check the path'}") from None
    except (msgspec.MsgspecError, ValueError):
        text = "not a scorecard; give one that audit --scorecard --json wrote"
        raise problem(path, text) from None
