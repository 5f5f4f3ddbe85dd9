"""Scorecards as files: the JSON that ``--json`` writes and reads, and events for the stream."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from monitor.audit.record_files import problem
from monitor.audit.scorecard.card import Scorecard

FORMAT = 1
"""Format version: changes when a key goes or changes its meaning, not when one is added."""
_MAX_BYTES = 16 << 20


def encode(card: Scorecard) -> str:
    """Encode a scorecard as indented JSON text, with its format version and exit code."""
    content = {"format": FORMAT, "exit_code": card.exit_code, **msgspec.to_builtins(card)}
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def events(card: Scorecard) -> str:
    """Return the measured dimensions as JSON lines, which are events for the labels topic."""
    lines = (
        {
            "type": "bias_result",
            "dimension": dimension.name,
            "measured": dimension.measured,
            "score": dimension.score,
            "items": dimension.items,
            "probe_set": dimension.probe_set,
            "probe_version": dimension.probe_version,
            "model": dimension.model,
            "rubric": dimension.rubric,
        }
        for dimension in card.dimensions
        if dimension.score is not None
    )
    return "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)


def read_earlier(path: Path) -> Scorecard:
    """Read a scorecard that ``--json`` wrote, for comparison with the present one.

    Raises:
        AuditError: the file cannot be read, or is no scorecard.
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
