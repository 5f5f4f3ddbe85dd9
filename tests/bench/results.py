"""What was measured, kept with the commit and the day: files that the docs are rendered from."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"


def keep(name: str, **content: object) -> Path:
    """Write what one benchmark has found, and where and when it did."""
    from common import machine

    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    about = {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine()}
    path.write_text(json.dumps(about | content, indent=1) + "\n")
    return path


def kept(name: str) -> dict[str, Any]:
    """What :func:`keep` has written; nothing where it never has."""
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def commit() -> str:
    """The commit that is checked out, with a plus where files differ from it."""
    say = ["git", "-C", str(ROOT)]
    head = _output([*say, "rev-parse", "--short=12", "HEAD"])
    changed = _output([*say, "status", "--porcelain", "--", ".", ":!tests/bench", ":!deploy/docs"])
    return f"{head or 'unknown'}{'+' if changed else ''}"


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()
