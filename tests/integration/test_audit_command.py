"""``slicewatch audit``: the shipped examples through the command line, and how it fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import lesson
import pytest
import yaml

from monitor import cli
from monitor.audit.audit_report import FLIP_SENTENCE, SYNTHETIC_SENTENCE
from monitor.audit.inputs import digest
from monitor.audit.set_files import read_results, read_set
from monitor.commands import audit
from monitor.core.time import to_micros
from monitor.present.terminal import PIPED_WIDTH

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples" / "audit"
PAIRS = EXAMPLES / "ten_pairs.jsonl"
CANDIDATE = EXAMPLES / "ten_pairs_candidate.jsonl"
SETTINGS = ("--settings", EXAMPLES / "audit.toml")
SIGN_OFF = EXAMPLES / "sign_off.toml"
SIGNED_SOON_AFTER = datetime(2026, 6, 10, tzinfo=UTC)
FORMATS = ("json", "html", "markdown", "junit")


@dataclass(frozen=True)
class Done:
    """What a command line came to."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``slicewatch audit`` as a shell would, on a day on which the example is signed."""

    class Clock:
        def now(self) -> int:
            return to_micros(SIGNED_SOON_AFTER)

    def of(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["slicewatch", "audit", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        code = stopped.value.code
        assert isinstance(code, int)
        return Done(code, captured.out, captured.err)

    monkeypatch.setattr(audit, "SystemClock", Clock)
    return of


def written(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def one_line(done: Done) -> str:
    assert done.code == 2
    assert done.err.startswith("slicewatch: ")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    return done.err


def as_json(done: Done) -> Any:
    return json.loads(done.out)


def test_the_examples_are_the_lessons_pairs() -> None:
    for path in (PAIRS, CANDIDATE):
        results = read_results(path)
        assert results.probe_set.synthetic
        assert len(results.rows) == 2 * len(lesson.PAIRS)
    found = {(row.item.pair, row.item.variant): row.observed for row in read_results(PAIRS).rows}
    for pair, _, _, formal, conversational in lesson.PAIRS:
        assert found[pair, "formal"].score == formal
        assert found[pair, "conversational"].score == conversational


def test_the_baseline_is_blocked_and_the_table_has_the_lessons_numbers(run: Run) -> None:
    done = run(PAIRS, *SETTINGS)
    said = " ".join(done.out.split())

    assert (done.code, done.err) == (1, "")
    assert done.out.count(SYNTHETIC_SENTENCE) == 2
    assert FLIP_SENTENCE in done.out
    for words in (
        "60 % 83.3 %",
        "30 % 50 %",
        "(43.6 to 97.0 %)",
        "(18.8 to 81.2 %)",
        "+33.3 FAIL -17.2 to +67.4",
        "-25 FAIL -69.9 to +28.1",
        "conversational below 0.70 7 42.9 %",
        "conversational 0.70 to 0.90 3 100 %",
        "conversational 0.90 and above 0 absent",
        "formal below 0.70 4 25 %",
        "formal 0.70 to 0.90 5 80 %",
        "formal 0.90 and above 1 100 %",
        "language_variety ready 6 2 2 0 0 judge_or_route/ 0.5",
        "language_variety not ready 4 1 1 0 0 judge_or_route/ 1",
        "The baseline is blocked: 5 of 5 requirements are missing.",
    ):
        assert words in said
    assert max(map(len, done.out.splitlines())) <= PIPED_WIDTH


def test_a_repaired_candidate_is_still_blocked(run: Run) -> None:
    done = run(PAIRS, *SETTINGS, "--candidate", CANDIDATE)

    assert done.code == 1
    assert "The candidate is blocked: 4 of 5 requirements are missing." in done.out
    assert "Regression repaired on synthetic pairs, not validated for release." in done.out
    assert "No pair flipped, of 10 compared." in done.out


def test_a_signed_candidate_is_approved(run: Run) -> None:
    done = run(PAIRS, *SETTINGS, "--candidate", CANDIDATE, "--sign-off", SIGN_OFF)

    assert (done.code, done.err) == (0, "")
    assert "APPROVED." in done.out
    assert "Example team on call" in done.out
    assert "2026-06-01" in done.out


def test_a_signed_candidate_is_green_on_a_build_server(run: Run) -> None:
    signed = (PAIRS, *SETTINGS, "--candidate", CANDIDATE, "--sign-off", SIGN_OFF)
    root = ET.fromstring(run(*signed, "--junit", "-").out)

    assert (root.get("failures"), root.get("errors")) == ("0", "0")
    assert int(root.get("skipped", "0")) > 0


def test_for_another_release_nothing_is_signed(run: Run) -> None:
    done = run(PAIRS, *SETTINGS, "--sign-off", SIGN_OFF)

    assert (done.code, done.err) == (1, "")
    assert "signed for judge j2, this is j1" in " ".join(done.out.split())
    assert "5 of 5 requirements are missing" in done.out


@pytest.mark.parametrize(
    ("name", "stage", "cause"),
    [
        ("evidence_gate", "evidence_gate", None),
        ("judge_score", "judge_or_route", "judge_score"),
        ("threshold", "judge_or_route", "threshold"),
        ("judge_score_and_threshold", "judge_or_route", "judge_score_and_threshold"),
        ("route", "judge_or_route", "route"),
    ],
)
def test_there_is_an_example_for_each_stage(
    run: Run, name: str, stage: str, cause: str | None
) -> None:
    found = as_json(run(EXAMPLES / "stages" / f"{name}.jsonl", *SETTINGS, "--json", "-"))
    (part,) = found["baseline"]["parts"]
    (flip,) = part["flips"]

    assert (flip["stage"], flip["cause"]) == (stage, cause)
    assert [advice["stage"] for advice in part["advice"]] == [*part["counts"][0]["stages"]]


def test_there_is_an_example_without_a_flip(run: Run) -> None:
    found = as_json(run(EXAMPLES / "stages" / "no_observed_flip.jsonl", *SETTINGS, "--json", "-"))

    assert found["baseline"]["parts"][0]["flips"] == []
    assert len([*(EXAMPLES / "stages").iterdir()]) == 6


@pytest.mark.parametrize("path", [PAIRS, *sorted((EXAMPLES / "stages").iterdir())])
def test_every_output_says_that_the_set_is_invented(run: Run, path: Path, tmp_path: Path) -> None:
    targets = [tmp_path / name for name in FORMATS]
    options = [
        word for name, to in zip(FORMATS, targets, strict=True) for word in (f"--{name}", to)
    ]
    done = run(path, *SETTINGS, *options)

    for said in (done.out, *(target.read_text() for target in targets)):
        assert SYNTHETIC_SENTENCE in said


@pytest.mark.parametrize("name", FORMATS)
def test_a_dash_prints_the_document_and_nothing_else(run: Run, name: str, tmp_path: Path) -> None:
    target = tmp_path / "report"
    assert run(PAIRS, *SETTINGS, f"--{name}", target).code == 1
    done = run(PAIRS, *SETTINGS, f"--{name}", "-")

    assert (done.code, done.err) == (1, "")
    assert done.out == target.read_text()


def test_the_formats_can_be_read(run: Run, tmp_path: Path) -> None:
    assert as_json(run(PAIRS, *SETTINGS, "--json", "-"))["format"] == 1
    root = ET.fromstring(run(PAIRS, *SETTINGS, "--junit", "-").out)
    assert root.tag == "testsuites"
    assert int(root.get("failures", "0")) > 0
    assert run(PAIRS, *SETTINGS, "--html", "-").out.startswith("<!doctype html>\n")
    assert run(PAIRS, *SETTINGS, "--markdown", "-").out.startswith("# ")


def test_a_report_may_be_written_again(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "audit.html"
    target.write_text("of yesterday")
    run(PAIRS, *SETTINGS, "--html", target)

    assert target.read_text().startswith("<!doctype html>")


def test_an_excluded_pair_is_reported_and_nothing_is_decided(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "pairs.jsonl", rows_of(PAIRS)[:-1])
    done = run(path, *SETTINGS, "--html", tmp_path / "audit.html")

    assert one_line(done) == "slicewatch: 1 pair is excluded, so nothing is decided\n"
    assert "COULD NOT EVALUATE." in done.out
    assert "variant missing (conversational)" in done.out
    assert "variant missing" in (tmp_path / "audit.html").read_text()


def test_a_score_equal_to_the_threshold_is_served(run: Run, tmp_path: Path) -> None:
    rows = rows_of(PAIRS)
    for row in rows:
        del row["route"]
        if (row["pair_id"], row["variant"]) == ("p4", "conversational"):
            row["judge_score"] = row["threshold"]
    found = as_json(run(written(tmp_path / "pairs.jsonl", rows), *SETTINGS, "--json", "-"))

    assert [flip["pair"] for flip in found["baseline"]["parts"][0]["flips"]] == ["n1", "p5"]


def test_a_held_out_pair_is_reported_apart(run: Run, tmp_path: Path) -> None:
    rows = [row | {"held_out": row["pair_id"] in ("p5", "p6", "n4")} for row in rows_of(PAIRS)]
    done = run(written(tmp_path / "pairs.jsonl", rows), *SETTINGS)

    assert "7 pairs in the regression part; 3 pairs in the held-out part" in done.out
    first, _, apart = done.out.partition("Held-out part: Flips")
    assert "p5  " not in first
    assert "p5  " in apart


def test_flips_become_a_set_that_is_not_written_over(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "regressions.jsonl"
    promote = ("--promote", target, "--set-version", "2")
    done = run(PAIRS, *SETTINGS, *promote)
    made = read_set(target)

    assert done.code == 1
    assert done.err == (
        f"wrote {target}: 3 pairs, ten-pairs 2, {digest(made)}\n"
        "it has no requests, so it cannot be sent: give the set that was sent, --from-set SET\n"
    )
    assert {item.pair for item in made.items} == {"p4", "p5", "n1"}
    before = target.read_bytes()
    again = run(PAIRS, *SETTINGS, *promote, "--json", tmp_path / "audit.json")
    assert "never change" in one_line(again)
    assert again.out == ""
    assert target.read_bytes() == before
    assert not (tmp_path / "audit.json").exists()


def test_nothing_to_promote_is_no_failure(run: Run, tmp_path: Path) -> None:
    quiet = EXAMPLES / "stages" / "no_observed_flip.jsonl"
    promote = ("--promote", tmp_path / "new.jsonl", "--set-version", "2")
    done = run(quiet, *SETTINGS, *promote, "--json", "-")

    assert done.code == as_json(done)["exit_code"] == 1
    assert done.err == "nothing to promote: no pair flipped, held-out pairs aside\n"
    assert not (tmp_path / "new.jsonl").exists()


def test_a_promoted_set_has_the_requests_of_the_set_it_comes_from(run: Run, tmp_path: Path) -> None:
    rows = [
        row | {"request": {"text": f"{row['pair_id']} {row['variant']}"}} for row in rows_of(PAIRS)
    ]
    sent, target = written(tmp_path / "set.jsonl", rows), tmp_path / "regressions.jsonl"
    promote = ("--promote", target, "--set-version", "2", "--from-set", sent)
    done = run(sent, *SETTINGS, *promote)

    assert "--from-set" not in done.err
    assert all(item.request for item in read_set(target).items)
    assert "not the set of these results" in one_line(run(PAIRS, *SETTINGS, *promote))


def test_nothing_is_promoted_while_pairs_are_excluded(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "regressions.jsonl"
    path = written(tmp_path / "pairs.jsonl", rows_of(PAIRS)[:-1])
    one_line(run(path, *SETTINGS, "--promote", target, "--set-version", "2"))

    assert not target.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("no-such.jsonl",), "no-such.jsonl: cannot be read"),
        ((PAIRS, "--candidate", "no-such.jsonl"), "no-such.jsonl: cannot be read"),
        ((PAIRS, "--candidate", EXAMPLES / "stages" / "route.jsonl"), "the same set"),
        ((PAIRS, "--sign-off", "no-such.toml"), "no-such.toml"),
        ((PAIRS, "--use-case", "other"), "use case"),
        ((PAIRS, "--promote", "new.jsonl"), "--set-version"),
        ((PAIRS, "--set-version", "2"), "--promote"),
        ((PAIRS, "--from-set", PAIRS), "--promote"),
        ((PAIRS, "--json", "-", "--html", "-"), "-: given twice"),
        ((PAIRS, "--json", "same", "--html", "same"), "choose another name"),
        ((PAIRS, "--json", "no-such-folder/report.json"), "cannot be written"),
        ((PAIRS, "--json", "."), "cannot be written"),
        (
            (PAIRS, "--promote", "no-such-folder/new.jsonl", "--set-version", "2"),
            "cannot be written",
        ),
        ((PAIRS, "--promote", "new.jsonl", "--set-version", "1"), "a set never changes"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_printed(
    run: Run, words: tuple[object, ...], told: str
) -> None:
    done = run(*words, *SETTINGS)

    assert told in one_line(done)
    assert done.out == ""


@pytest.mark.parametrize("name", FORMATS)
def test_a_report_that_cannot_be_written_leaves_no_json(
    run: Run, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = {one: tmp_path / one for one in FORMATS}
    options = [word for one, to in targets.items() for word in (f"--{one}", to)]
    whole = Path.write_text

    def write(path: Path, *words: Any, **more: Any) -> int:
        if path == targets[name]:
            raise OSError(28, "No space left on device")
        return whole(path, *words, **more)

    monkeypatch.setattr(Path, "write_text", write)
    done = run(PAIRS, *SETTINGS, *options)

    assert "No space left on device" in one_line(done)
    assert done.out == ""
    assert not targets["json"].exists()


def test_a_folder_that_may_not_be_written_is_told_first(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    done = run(PAIRS, *SETTINGS, "--html", tmp_path / "audit.html")

    assert "permission denied" in one_line(done)
    assert done.out == ""


@pytest.mark.parametrize("option", ["--json", "--html", "--markdown", "--junit"])
def test_no_report_is_written_over_what_is_kept(run: Run, option: str, tmp_path: Path) -> None:
    for source in (PAIRS, CANDIDATE, EXAMPLES / "audit.toml"):
        kept = Path(shutil.copy(source, tmp_path))
        one_line(run(PAIRS, *SETTINGS, option, kept))
        assert kept.read_bytes() == source.read_bytes()
    mine = Path(shutil.copy(PAIRS, tmp_path / "pairs"))
    one_line(run(mine, *SETTINGS, option, mine))
    assert mine.read_bytes() == PAIRS.read_bytes()


def test_without_settings_it_says_so(run: Run, tmp_path: Path) -> None:
    assert "none.toml" in one_line(run(PAIRS, "--settings", tmp_path / "none.toml"))


def test_a_usage_error_is_told(run: Run) -> None:
    done = run(PAIRS, "--no-such-option")

    assert done.code == 2
    assert "No such option" in done.err


def test_the_workflow_runs_options_that_exist() -> None:
    workflow = yaml.safe_load((EXAMPLES / "github-workflow.yml").read_text())
    steps = workflow["jobs"]["audit"]["steps"]
    (script,) = (step["run"] for step in steps if step.get("name") == "audit")
    known = {text for parameter in audit.command.params for text in parameter.opts}

    assert script.startswith("slicewatch audit ")
    assert {word for word in script.split() if word.startswith("--")} <= known


def test_a_candidate_that_serves_more_unclear_replies_fails(run: Run, tmp_path: Path) -> None:
    rows = rows_of(CANDIDATE)
    for row in rows:
        if not row["expected_ready"]:
            row |= {"judge_score": 0.75, "route": "auto_serve"}
    served = written(tmp_path / "candidate.jsonl", rows)
    unsigned = run(PAIRS, *SETTINGS, "--candidate", served, "--sign-off", SIGN_OFF)
    assert "5 of 5 requirements are missing" in " ".join(unsigned.out.split())
    was = tomllib.loads(SIGN_OFF.read_text())["for"]["results"]
    told = as_json(run(PAIRS, *SETTINGS, "--candidate", served, "--json", "-"))["results_digest"]
    signed = tmp_path / "signed.toml"
    signed.write_text(SIGN_OFF.read_text().replace(was, told))
    done = run(PAIRS, *SETTINGS, "--candidate", served, "--sign-off", signed)
    said = " ".join(done.out.split())

    assert done.code == 3
    assert "No pair flipped, of 10 compared." in said
    assert "The candidate is blocked: 1 of 5 requirements is missing." in said
    assert "not ready, and newly served 7 n1/conversational" in said
    assert "FPR not above baseline, 100 % FAIL" in said


@pytest.fixture
def of_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, tuple[str, Path]]:
    """Reviewed data of 400 people, with thirty flips, and a use case of real traffic."""
    versions = dict.fromkeys(("judge", "rubric", "policy", "router"), "v1")
    rows: list[dict[str, Any]] = [
        {
            "dataset": "reviewed",
            "synthetic": False,
            "pair_id": f"person-{number}",
            "variant": variety,
            "attributes": {"language_variety": variety, "channel": "chat"},
            "expected_ready": number % 2 == 0,
            "policy": "v1",
            "reviewers_agree": True,
            "judge_score": 0.6789 if number < 30 and variety == "conversational" else 0.8765,
            "threshold": 0.7,
            "evidence_passed": True,
            "versions": versions,
        }
        for number in range(400)
        for variety in ("formal", "conversational")
    ]
    settings = (EXAMPLES / "audit.toml").read_text()
    monkeypatch.setenv("SLICEWATCH__PRIVACY__ID_KEY", "of no use to an audit, but asked for")
    real = tmp_path / "real.toml"
    real.write_text(settings.replace("synthetic = true\nk = 1\n", ""))
    return written(tmp_path / "reviewed.jsonl", rows), ("--settings", real)


def test_of_real_people_nothing_is_listed(
    run: Run, of_people: tuple[Path, tuple[str, Path]], tmp_path: Path
) -> None:
    path, real = of_people
    targets = {name: tmp_path / name for name in FORMATS}
    options = (word for name, to in targets.items() for word in (f"--{name}", to))
    done = run(path, *real, *options)

    assert (done.code, done.err) == (1, "")
    for said in (done.out, *(target.read_text() for target in targets.values())):
        assert "person-" not in said
        assert not re.search(r"\b0\.6(789|79|8)\b", said)
        assert SYNTHETIC_SENTENCE not in said
    assert "Reviewed data of real people: flips are counted below, and listed nowhere." in done.out


def test_excluded_people_are_named_by_their_line(
    run: Run, of_people: tuple[Path, tuple[str, Path]]
) -> None:
    path, real = of_people
    written(path, rows_of(path)[:-1])
    done = run(path, *real, "--markdown", "-")

    one_line(done)
    assert "| line 799 | " in done.out
    assert "person-" not in done.out


def test_people_are_not_promoted(
    run: Run, of_people: tuple[Path, tuple[str, Path]], tmp_path: Path
) -> None:
    path, real = of_people
    target = tmp_path / "regressions.jsonl"

    assert "synthetic" in one_line(run(path, *real, "--promote", target, "--set-version", "2"))
    assert not target.exists()


def test_the_training_set_is_beside_the_pairs(run: Run, tmp_path: Path) -> None:
    counts = ("--dataset", EXAMPLES / "counts.csv")
    done = run(PAIRS, *SETTINGS, *counts)
    said = " ".join(done.out.split())

    assert "conversational 380 38 % 50 % -12" in said
    assert "formal 620 62 % 50 % 12" in said
    assert "At most 12 points off." in said
    assert "It cannot correct labels" in said
    assert done.out.count(SYNTHETIC_SENTENCE) == 3
    training = as_json(run(PAIRS, *SETTINGS, *counts, "--json", "-"))["training"]
    assert training["rows"] == 1000
    assert "Training data by" in run(PAIRS, *SETTINGS, *counts, "--html", "-").out


def test_counts_of_real_people_are_guarded(
    run: Run, of_people: tuple[Path, tuple[str, Path]], tmp_path: Path
) -> None:
    path, real = of_people
    counts = tmp_path / "counts.csv"
    counts.write_text("language_variety,count\nformal,620\nconversational,7\n")
    done = run(path, *real, "--dataset", counts)

    assert "Shares are hidden to protect privacy." in done.out
    assert "627" not in done.out
