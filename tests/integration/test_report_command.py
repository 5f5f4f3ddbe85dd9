"""``slicewatch report``: files of a stored week, signatures, and one line for every mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from adversary.worlds import Shape, make_world
from releasing import Releasing
from weekly import WEEK, revisions, weekly_store

from monitor.core.publish.release import encode


@dataclass
class Result:
    exit_code: int
    output: str


@dataclass(frozen=True)
class Command:
    made: Releasing

    def __call__(self, *arguments: str) -> Result:
        """As cron calls it: a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "monitor", "report", *arguments, "-s", "settings.toml"],
            cwd=self.made.folder,
            env={**os.environ, "SLICEWATCH__STORE__URL": f"sqlite:///{self.made.folder}/store.db"},
            capture_output=True,
            text=True,
            check=False,
        )
        return Result(done.returncode, done.stdout + done.stderr)


@pytest.fixture
def report(tmp_path: Path) -> Iterator[Command]:
    with weekly_store(exact=False).releasing(tmp_path) as made:
        made.evaluator.release_lease()
        yield Command(made)


def test_all_formats_are_written_and_again_the_same(report: Command) -> None:
    folders = [report.made.folder / name for name in ("one", "two")]
    for folder in folders:
        done = report("--week", WEEK.name, "--out", str(folder))
        assert done.exit_code == 0, done.output
        assert len(done.output.splitlines()) == 6
    names = sorted(file.name for file in folders[0].iterdir())
    ends = ("-calibration.csv", "-gaps.csv", "-rates.csv", ".html", ".json", ".md")
    assert names == [f"fairness-{WEEK.name}{end}" for end in ends]
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    newest = revisions(report.made)[-1]
    document = (folders[0] / f"fairness-{WEEK.name}.json").read_bytes()
    assert newest.body in document
    assert json.loads(document)["digest"] == newest.digest
    frame = pd.read_csv(folders[0] / f"fairness-{WEEK.name}-rates.csv")
    assert frame["value"].notna().any()
    assert encode(newest.release) == newest.body


def test_one_format_of_an_older_revision(report: Command) -> None:
    done = report("--week", WEEK.name, "--revision", "1", "--format", "md", "--out", "old")
    assert done.output.split() == [f"old/fairness-{WEEK.name}.md"]
    text = (report.made.folder / "old" / f"fairness-{WEEK.name}.md").read_text()
    assert f"revision: 1 (revision {len(revisions(report.made))} is newer)" in text


def test_a_signature_is_of_its_revision_alone(report: Command) -> None:
    first, *_, last = revisions(report.made)
    signed = report("sign", "--week", WEEK.name, "--revision", "1", "--by", "A. Person")
    assert signed.exit_code == 0, signed.output
    assert first.digest in signed.output
    assert report("sign", "--week", WEEK.name, "--by", "B", "--note", "seen").exit_code == 0
    report("--week", WEEK.name, "--format", "json,md", "--out", ".")
    made = json.loads((report.made.folder / f"fairness-{WEEK.name}.json").read_text())
    assert [
        (one["signature"]["by"], one["signature"]["digest"], one["of_this_revision"])
        for one in made["signatures"]
    ] == [("A. Person", first.digest, False), ("B", last.digest, True)]
    text = (report.made.folder / f"fairness-{WEEK.name}.md").read_text()
    assert "NOT this revision" in next(x for x in text.splitlines() if x.startswith("| A. Person"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--week", "2026-W25"), "week 2026-W25 is not over: it ends 2026-06-22 00:00 UTC"),
        (("--week", "2026-W10"), "there is no Release of week 2026-W10; stored are 2026-W23"),
        (("--week", "2026-W54"), "--week must be an ISO week, such as 2026-W47"),
        (("--week", "last"), "--week must be an ISO week"),
        ((), "--week is missing"),
        (("--week", "2026-W23", "--last-week"), "--week and --last-week exclude each other"),
        (("--last-week",), "is not over"),
        (("--week", "2026-W23", "--format", "pdf"), "--format must be a list of html, json"),
        (("--week", "2026-W23", "--revision", "99"), "has no such revision; the newest is"),
        (("--week", "2026-W23", "--out", "settings.toml"), "settings.toml"),
        (("sign", "--week", "2026-W23"), "--by is missing"),
        (("sign", "--by", "A"), "--week is missing"),
        (("sign", "--week", "2026-W23", "--by", "A\nB"), "--by must be one line"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    report: Command, arguments: tuple[str, ...], said: str
) -> None:
    done = report(*arguments)
    assert done.exit_code == 2
    assert said in done.output.splitlines()[-1]
    assert "Traceback" not in done.output


def test_a_store_without_a_week_says_so(tmp_path: Path) -> None:
    world = make_world(1, Shape(values=(2,), days=1))
    with Releasing(world, tmp_path) as made:
        done = Command(made)("--week", WEEK.name)
    assert done.exit_code == 2
    assert "nothing is counted yet" in done.output
