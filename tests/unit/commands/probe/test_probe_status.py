"""``slicewatch probe status``: the pairs that flip now, by name, and errors of one line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pipeline import SETTINGS, Pipeline
from signed_probes import DIGEST, SET, SET_TABLE

from monitor.commands.probe import command as probe
from monitor.commands.probe.probe_status import MOST_LINES
from monitor.composition.evaluator import declared_sets
from monitor.core.counts.cells import Route
from monitor.core.probes.flips import Observed
from monitor.core.probes.probe_decisions import ProbeDecision
from monitor.core.probes.rounds import DeclaredSet
from monitor.core.time import DAY, MINUTE, to_micros
from monitor.errors import SlicewatchError
from monitor.evaluate.probes import WatchedSet
from monitor.store.evaluator.probe_sets import ProbeSetsChange, StoredProbeSet
from monitor.store.evaluator.store import Cycle, EvaluatorStore

A_CASE = "A flip is a case to investigate, not a population disparity."
PAIRS = 80
TEXT = SETTINGS.replace("pairs = 4", f"pairs = {PAIRS}")
T0 = to_micros(datetime(2026, 6, 1, 10, tzinfo=UTC))
SERVED = Observed(Route.AUTO_SERVE, 0.78, 0.70)
LOW = Observed(Route.HUMAN_REVIEW, 0.67, 0.70)
BLOCKED = Observed(Route.BLOCKED_BY_EVIDENCE, None, 0.70, evidence_passed=False)


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with Pipeline(tmp_path, text=TEXT) as made:
        yield made


def status(pipeline: Pipeline, *options: str, text: str = TEXT) -> Result:
    url = pipeline.engine.url.render_as_string(hide_password=False)
    return run(Path(str(pipeline.engine.url.database)).parent, url, text, *options)


def run(folder: Path, url: str, text: str, *options: str) -> Result:
    path = folder / "asked.toml"
    path.write_text(text)
    words = ["status", "--settings", str(path), *options]
    return CliRunner(env={"SLICEWATCH__STORE__URL": url}).invoke(probe, words)


def failed(result: Result) -> str:
    assert isinstance(result.exception, SlicewatchError), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


def declared(pipeline: Pipeline) -> DeclaredSet:
    return declared_sets(pipeline.settings.probes)[0]


def rounds(flips: Sequence[Collection[int]]) -> Iterator[ProbeDecision]:
    """Rounds of all pairs, a day apart; the numbers of the pairs that flip in each."""
    for number, flipping in enumerate(flips):
        for pair in range(PAIRS):
            at = T0 + number * DAY + pair * MINUTE
            seen = LOW if pair in flipping else SERVED
            ready = pair % 3 > 0  # of every third pair an unready reply is expected
            yield ProbeDecision(DIGEST, f"p{pair:02}", "formal", at, SERVED, ready)
            yield ProbeDecision(DIGEST, f"p{pair:02}", "conversational", at, seen, ready)


def keep(pipeline: Pipeline, *flips: Collection[int], of: DeclaredSet | None = None) -> None:
    """Store what the evaluator makes of some rounds."""
    watched = WatchedSet.start(of or declared(pipeline))
    watched.pairs.add(rounds(flips))
    for compared in watched.pairs.advance(T0 + len(flips) * DAY):
        watched.watch.follow(compared, live=True)
    store(pipeline, watched.stored())


def store(pipeline: Pipeline, state: StoredProbeSet) -> None:
    store = EvaluatorStore(pipeline.engine, "decisions")
    epoch = store.lease.acquire("me", DAY)
    assert epoch is not None
    store.commit(epoch, Cycle(probes=ProbeSetsChange({SET: state})), T0)


def test_the_pairs_that_flip_now_are_named(pipeline: Pipeline) -> None:
    keep(pipeline, range(20), [0, *range(30, 44)])
    done = status(pipeline)
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.output.splitlines() if "held_back  " in line]
    assert [row[1] for row in rows] == ["p00", *(f"p{pair}" for pair in range(30, 44))]
    told = ["conversational", "held_back", "judge_score"]
    assert rows[0][2:] == [*told, "not", "ready", "2026-06-02T10:00Z"]
    assert rows[2][2:] == [*told, "ready", "2026-06-02T10:31Z"]
    said = "a ready reply was delayed 9 times; an unready reply was served 6 times"
    assert f"{SET}: behind the evidence gate, {said}" in done.output
    (line,) = [line for line in done.output.splitlines() if "held_back since" in line]
    assert line.split()[:3] == [SET, "160", "0"]
    assert line.split()[-1] == "15"
    assert "Probes are synthetic test conditions. " + A_CASE in done.output


def test_all_of_them_are_in_the_json(pipeline: Pipeline) -> None:
    keep(pipeline, range(70))
    printed = status(pipeline).output
    assert printed.count("judge_score") == MOST_LINES
    assert "The first 50 rows; 20 more are in --json." in printed
    found = json.loads(status(pipeline, "--json").output)
    (one,) = found["sets"]
    assert A_CASE in found["note"]
    assert [flip["pair"] for flip in one["flipping"]] == [f"p{pair:02}" for pair in range(70)]
    assert one["flipping"][-1] == {
        **{"pair": "p69", "variant": "conversational", "direction": "held_back"},
        **{"stage": "judge_score", "expected": "not_ready", "at": "2026-06-01T11:09:00Z"},
    }
    assert one["errors"] == {"ready": 46, "not_ready": 24, "unknown": 0}
    assert {key: one[key] for key in ("name", "digest", "pairs", "reference", "compared")} == {
        **{"name": SET, "digest": DIGEST, "pairs": PAIRS, "reference": "formal"},
        **{"compared": PAIRS},
    }
    assert (one["incomplete"], one["covered"]) == (0, "2026-06-01T10:00:00Z")
    assert one["pages"] == {"held_back": "2026-06-01T10:09:00Z"}


def test_a_flip_at_the_gate_is_named_and_pages_nothing(pipeline: Pipeline) -> None:
    watched = WatchedSet.start(declared(pipeline))
    watched.pairs.add(
        replace(one, observed=BLOCKED if one.variant == "conversational" else SERVED)
        for one in rounds([()])
    )
    for compared in watched.pairs.advance(T0 + DAY):
        watched.watch.follow(compared, live=True)
    store(pipeline, watched.stored())
    (one,) = json.loads(status(pipeline, "--json").output)["sets"]
    assert {flip["stage"] for flip in one["flipping"]} == {"evidence_gate"}
    assert (len(one["flipping"]), one["pages"]) == (PAIRS, {})
    assert {flip["expected"] for flip in one["flipping"]} == {"ready", "not_ready"}
    assert set(one["errors"].values()) == {0}
    assert "behind the evidence gate" not in status(pipeline).output


def test_a_set_that_was_not_seen_yet_or_is_another_one_now_has_nothing(
    pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    before = status(pipeline, "--json").output
    (one,) = json.loads(before)["sets"]
    assert (one["compared"], one["covered"], one["flipping"]) == (0, None, [])
    assert "judge_score" not in status(pipeline).output
    keep(pipeline, range(20), of=replace(declared(pipeline), digest="0" * 64))
    assert status(pipeline, "--json").output == before
    assert not caplog.records, "the service tells of it, who asks for a status begins nothing"


def test_without_a_set_or_a_store_there_is_one_line(pipeline: Pipeline, tmp_path: Path) -> None:
    without = TEXT.replace(SET_TABLE.replace("pairs = 4", f"pairs = {PAIRS}"), "")
    assert failed(status(pipeline, text=without)).startswith("no probe set is declared")
    nowhere = run(tmp_path, f"sqlite:///{tmp_path}/nowhere.db", TEXT)
    assert "does not exist yet" in failed(nowhere)
