"""The real data set of the tests: US-census employment predictions from the nannyml wheel.

The wheel is pinned by version and hash and kept in the cache of the tests; the data themselves are
in no repository of ours.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import lesson
import msgspec
import pandas as pd
import pytest
from signed_probes import signed

from monitor.core.time import to_datetime

VERSION = "0.13.1"
SHA256 = "cf5f4a33489834ae6773cb1baa33a0f98c0a3ee6ed9b43049478b25ce22fe869"
FOLDER = "nannyml/datasets/data/"
FILES = ("employment_MA_analysis.pq", "employment_MA_analysis_target.pq")
ROWS = 208_892
EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"
FETCH_SECONDS = 300


def data_files() -> tuple[Path, Path]:
    """Predictions and outcomes, fetched from the package index when not there yet."""
    base = os.environ.get("SLICEWATCH_CACHE") or Path.home() / ".cache" / "slicewatch-tests"
    folder = Path(base) / f"nannyml-{VERSION}-data"
    if not folder.is_dir():
        _fetch(folder)
    return folder / FILES[0], folder / FILES[1]


def _fetch(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        asked = [f"nannyml=={VERSION}", "--no-deps", "--only-binary=:all:", "-d", scratch]
        command = [sys.executable, "-m", "pip", "download", "-q", *asked]
        done = subprocess.run(command, timeout=FETCH_SECONDS, check=False)
        if done.returncode != 0:
            _missing(f"nannyml {VERSION} (the package index does not give it)")
        (wheel,) = Path(scratch).glob("*.whl")
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        assert found == SHA256, f"{wheel.name} is not the pinned one: sha256 {found}"
        extracted = Path(scratch, "data")
        extracted.mkdir()
        with zipfile.ZipFile(wheel) as archive:
            for name in FILES:
                (extracted / name).write_bytes(archive.read(FOLDER + name))
        try:  # all or nothing; another test run may have been faster
            extracted.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise


def _missing(what: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true and not there: {what}", pytrace=False)
    pytest.skip(f"not there: {what}")


@cache
def script() -> ModuleType:
    """deploy/examples/census_to_events.py, as a user has it."""
    spec = importlib.util.spec_from_file_location(
        "census_to_events", EXAMPLES / "census_to_events.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def people() -> pd.DataFrame:
    """All 208,892 rows."""
    frame: pd.DataFrame = script().read(*data_files())
    assert len(frame) == ROWS
    return frame


@dataclass(frozen=True)
class History:
    """The events of one variant, and the rows they were made from.

    Attributes:
        spread: how the rows lie in event time.
        audit: audited share of auto_serve.
        days: only the rows of the first days of each year; None is all.
    """

    spread: str
    audit: float
    days: int | None = None

    @cached_property
    def frame(self) -> pd.DataFrame:
        prepared: pd.DataFrame = script().prepare(people(), self.spread, self.audit)
        if self.days is None:
            return prepared
        day = pd.to_datetime(prepared["decided"], unit="us").dt.day_of_year
        return prepared[day <= self.days].reset_index(drop=True)

    @cached_property
    def decisions(self) -> list[bytes]:
        return list(script().decisions(self.frame))

    @cached_property
    def labels(self) -> list[bytes]:
        return list(script().labels(self.frame))

    def close(self, number: int) -> bytes:
        """A probe after the end: closes the last hour of one partition, is in no rate."""
        last = to_datetime(int(self.frame["decided"].max()))
        at = last.replace(minute=0, second=0, microsecond=0) + pd.Timedelta(minutes=90)
        attributes = {"sex": "1", "rac1p": "1"}
        probe = lesson.decision(f"close-{number}", at, 0.9, traffic="probe", attributes=attributes)
        return msgspec.json.encode(signed(probe))


def messages(events: Iterable[bytes], size: int = 500) -> Iterator[bytes]:
    """Messages that hold an array of up to ``size`` events."""
    rest = iter(events)
    while part := list(islice(rest, size)):
        yield b"[" + b",".join(part) + b"]"
