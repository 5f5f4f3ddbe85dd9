"""What this tree makes of fixed input, as one text; :mod:`compare` runs it in two trees.

Only names that both trees have are used: the command line, files of ``deploy/examples``, and the
worlds of ``tests/support``. What the wall clock or chance decides is left out.
"""

from __future__ import annotations

import importlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

TREE = Path(sys.argv[1])
ROOMS = ("support", "support/drivers", "support/worlds", "support/oracles", "integration")
sys.path[:0] = [str(TREE), *(str(TREE / "tests" / room) for room in ROOMS)]
EXAMPLES = TREE / "deploy/examples"
CHANCE = {
    *("meta", "alembic_version", "ownership", "lease", "delta", "fold_cursor"),
    *("label_arrival", "decision_arrival"),
}
"""Tables whose rows tell of the wall clock, of names that are drawn, or of compressed bytes."""
MOMENTS = {"stored_at", "seen_at", "recorded_at", "consumed_at", "opened_wall", "excluded_at"}
CONTRACT = """
[[use_case]]
name = "routing"
where = { channel = "email" }
owner = "tests"
synthetic = true
k = 1
group_bys = [{ attributes = ["language_variety"] }]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "test"
min_positives = 20
min_negatives = 20
window = "24h"
"""


def rows(path: Path) -> Iterator[str]:
    """Every row of a store, but for what chance decides."""
    with sqlite3.connect(path) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in sorted(names):
            if table in CHANCE:
                continue
            found = connection.execute(f'SELECT * FROM "{table}"')
            kept = [i for i, one in enumerate(found.description) if one[0] not in MOMENTS]
            lines = [repr([as_text(row[i]) for i in kept]) for row in found]
            whole = sha256("\n".join(sorted(lines)).encode()).hexdigest()
            yield f"{table}: {len(lines)} {whole}"


def as_text(value: Any) -> Any:
    """Bytes by their hash, so that a difference is one line."""
    return sha256(value).hexdigest() if isinstance(value, bytes) else value


def pages(path: Path) -> Iterator[str]:
    """What Prometheus would read of the newest Snapshot, and what the Snapshot says."""
    modules = ("alerts.exposition.renderer", "alerts.exposition")
    renderer = first_of(modules).Renderer(100_000)
    decode = first_of(("monitor.core.publish.snapshot", "monitor.core.snapshot")).decode
    with sqlite3.connect(path) as connection:
        bodies = connection.execute("SELECT body FROM snapshot ORDER BY id").fetchall()
    for (body,) in bodies:
        page = renderer.render(decode(body))
        yield f"snapshot {sha256(body).hexdigest()} exposition {sha256(page.plain).hexdigest()}"


def first_of(names: Sequence[str]) -> Any:
    """The module, under the first of its names that this tree has."""
    for name in names:
        with suppress(ImportError):
            return importlib.import_module(name)
    raise ImportError(names)


def replay(folder: Path, settings: str, files: Sequence[Path]) -> Iterator[str]:
    """``slicewatch replay`` of files; its table, and its store."""
    command = (sys.executable, "-m", "monitor", "replay", *map(str, files))
    own = {
        "PYTHONPATH": str(TREE),
        "SLICEWATCH__STORE__URL": "sqlite:///store.db",
        "SLICEWATCH__PRIVACY__ID_KEY": importlib.import_module("id_keys").KEY,
    }
    environment = os.environ | own
    run = subprocess.run(
        (*command, "--settings", settings, "--summary", "--json"),
        cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if run.returncode:
        sys.exit(run.stderr)
    yield f"summary {sha256(run.stdout.encode()).hexdigest()}"
    (store,) = folder.glob("*.db")
    yield from rows(store)
    yield from pages(store)


def ten_pairs(folder: Path) -> Iterator[str]:
    """The lesson."""
    settings = folder / "settings.toml"
    settings.write_text((EXAMPLES / "ten_pairs.toml").read_text())
    files = [EXAMPLES / f"ten_pairs_{topic}.jsonl" for topic in ("decisions", "labels")]
    yield from replay(folder, "settings.toml", files)


def mixed(folder: Path) -> Iterator[str]:
    """Corrections, duplicates, probes, unlisted values, disorder; two contracts."""
    histories = importlib.import_module("histories")
    history = histories.Histories(11, 4000)
    late = histories.shuffled(history.decisions, history.random, hours=0.1)
    decisions = histories.doubled(late, history.random, 0.1, minutes=30)
    for name, events in (("decisions", decisions), ("labels", history.labels)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    lines = importlib.import_module("pipeline").SETTINGS.splitlines(keepends=True)
    text = "".join(one for one in lines if 'attributes = ["channel"' not in one) + CONTRACT
    text = text.replace('"synthetic"\n', '"synthetic"\nwhere = { channel = "chat" }\n', 1)
    (folder / "settings.toml").write_text(text)
    files = [folder / "decisions.jsonl", folder / "labels.jsonl"]
    yield from replay(folder, "settings.toml", files)


def census(folder: Path) -> Iterator[str]:
    """The census: the first 36 days of each year."""
    history = importlib.import_module("census").History("years", 1.0, days=36)
    for name, events in (("decisions", history.decisions), ("labels", history.labels)):
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(events) + b"\n")
    lines = (EXAMPLES / "census.toml").read_text().splitlines(keepends=True)
    own = (one for one in lines if not one.startswith("id_key_file"))  # the environment has a key
    (folder / "census.toml").write_text("".join(own))
    files = [folder / "decisions.jsonl", folder / "labels.jsonl"]
    yield from replay(folder, "census.toml", files)


def incidents(folder: Path) -> Iterator[str]:
    """A live world with a breach: cohorts, detectors, crossings, incidents, every Snapshot."""
    world = importlib.import_module("test_detection_service")
    with world.site(folder / "live") as one:
        for now in world.MOMENTS:
            one.until(now)
        for body in one.snapshots():
            yield f"snapshot {sha256(body).hexdigest()}"
    (store,) = (folder / "live").glob("*.db")
    yield from rows(store)
    yield from pages(store)


def main() -> None:
    """Print every part."""
    for part in (ten_pairs, mixed, incidents, census):
        if sys.argv[2:] and part.__name__ not in sys.argv[2:]:
            continue
        with tempfile.TemporaryDirectory() as name:
            for line in part(Path(name)):
                sys.stdout.write(f"{part.__name__}: {line}\n")


if __name__ == "__main__":
    main()
