"""One million distinct things, whatever they are: memory, rows and series stay as they were.

Each case lives in a process of its own, through the service's own parts; ``flood.py`` can be run
by hand. What is measured is printed (``pytest -s``).
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import flood
import lesson
import pytest
from pipeline import DECISIONS, Pipeline, messages

from consumers.cardinality import STANDARD_ERROR
from consumers.coder import MAX_STRAY_BYTES
from monitor.core.time import DAY, SECOND

PROGRAM = Path(flood.__file__)
MILLION = 1_000_000
SECONDS = 1500
"""A million takes two minutes, or several times as long on a busy machine."""
FEW = 200_000


@dataclass(frozen=True)
class Case:
    """What is distinct, how many of it, and which limits that reaches."""

    name: str
    distinct: int
    limited: frozenset[str] = frozenset()
    refused: bool = False
    per_message: int = flood.PER_MESSAGE


CASES = [
    Case("values", MILLION, frozenset({"values"})),
    Case("names", FEW),
    Case("versions", FEW, frozenset({"versions"})),
    Case("malformed ids", FEW, refused=True),
    Case("long values", FEW, frozenset({"values"})),
    Case("thresholds", FEW, frozenset({"versions"})),
    Case("audit rates", FEW),
    Case("spellings", FEW),
    Case("huge values", 2_000, refused=True, per_message=1),
]


@cache
def live_through(case: Case) -> dict[str, Any]:
    process = subprocess.run(
        [sys.executable, str(PROGRAM), case.name, f"--distinct={case.distinct}",
         f"--per-message={case.per_message}"],
        # One arena: what another thread has freed is no growth, and differs from run to run.
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-2000:]
    for word in ("decision ", "value ", "name_", "elsewhere", "Traceback"):
        assert word not in process.stderr, "a log line tells of an event"
    told: dict[str, Any] = json.loads(process.stdout)
    return told


def _bounded(series: Mapping[str, float]) -> set[str]:
    """All series but those that tell of the flood itself, of which there are few.

    Strata whose labels are not asked for: at most routes x audit rates x faults. Fields that are
    not known: one for all that are rare. And the newest week, if one has ended meanwhile.
    """
    told = (
        "slicewatch_label_request_fault",
        f"{_FIELDS} event=decision field=__other__",
        "slicewatch_report_stored_timestamp_seconds",
    )
    return {name for name in series if not name.startswith(told)}


_FIELDS = "slicewatch_unknown_fields_total"


@pytest.mark.full
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_flood_leaves_memory_and_series_as_they_were(case: Case) -> None:
    told = live_through(case)
    before, after, rows = told["before"], told["after"], told["rows"]
    sys.stdout.write(
        f"\n{case.name}: {case.distinct:,} distinct in {told['events']:,} events, resident memory"
        f" {told['grown'] / 1e6:+.1f} MB, at most {told['keys']:,} keys, rows {rows}\n"
    )
    assert told["grown"] < (30e6 if case.distinct == MILLION else 10e6), "ten days end a week"
    assert told["keys"] <= MAX_STRAY_BYTES // 400 + 1_000
    assert _bounded(before) == _bounded(after), "the series are the same"
    reached = {
        limit: after[f"slicewatch_cardinality_limited limit={limit}"]
        for limit in ("series", "versions", "values")
    }
    assert reached == {limit: float(limit in case.limited) for limit in reached}
    assert rows["atom"] <= 6
    assert rows["version"] <= 65
    assert rows["cell"] <= 200
    assert not told["traces"], "the store knows neither ids nor unlisted texts"
    totals = told["totals"]
    assert totals["counted"] + totals["dead"] == told["events"]
    assert (totals["dead"] >= case.distinct) if case.refused else not totals["dead"]
    assert rows["dead_letter"] == totals["dead"] - totals["unkept"] <= 10_000
    unkept = "slicewatch_dead_letters_unkept_total partition=0 topic=decisions"
    assert after[unkept] == totals["unkept"]


@pytest.mark.full
@pytest.mark.timeout(SECONDS + 60)
def test_how_many_distinct_values_there_were_is_told_in_a_band() -> None:
    case = CASES[0]  # what is told of it is looked at twice
    assert case.name == "values"
    name = "slicewatch_attribute_values_unknown_distinct attribute="
    told = live_through(case)
    shown, error = told["after"][f"{name}channel"], 6 * STANDARD_ERROR
    assert MILLION * (1 - error) / 1.25 <= shown <= MILLION * (1 + error)
    assert told["after"][f"{name}language_variety"] == 0
    assert told["before"][f"{name}channel"] == 0, "one value is below the first band"


def test_distinct_values_are_told_of_the_day_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_bytes", bytes)  # the same estimate in every run

    def send(*channels: str) -> None:
        events = [
            lesson.decision(f"{day}-{i}", lesson.START, 0.8, attributes={"channel": channel})
            for i, channel in enumerate(channels)
        ]
        pipeline.broker.produce(DECISIONS, messages(events))
        pipeline.drain()

    with Pipeline(tmp_path) as pipeline:
        pipeline.worker()
        day = 1
        send(*(f"value {i % 30}" for i in range(90)), "chat", "email")
        assert pipeline.seen.unlisted == {"channel": 30, "language_variety": 0}
        pipeline.clock.seconds += DAY / SECOND
        pipeline.drain()
        assert pipeline.seen.unlisted == {"channel": 0, "language_variety": 0}
        day = 2
        send("value 1", "value 2", "chat")
        pipeline.clock.seconds += 10
        pipeline.drain()
        assert pipeline.seen.unlisted == {"channel": 2, "language_variety": 0}
        assert pipeline.seen.unknown["channel"] == 92, "the counter goes on"
