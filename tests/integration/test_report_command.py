"""``slicewatch report``: files of a stored week, signatures, and one line for every mistake."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from adversary.worlds import Shape, make_world
from releasing import Releasing
from warm_start import run
from weekly import LIMITATION, WEEK, revisions, weekly_store

from monitor.core.publish.release import encode
from monitor.core.publish.snapshot import decode
from monitor.reports.frames import weekly
from monitor.store.evaluator.records import newest_snapshot


@dataclass
class Result:
    """What it printed: names of files on one stream, a decision or a mistake on the other."""

    exit_code: int
    output: str
    said: str


@dataclass(frozen=True)
class Command:
    made: Releasing

    def __call__(self, *arguments: str) -> Result:
        """As cron calls it: a process of its own."""
        done = run(
            ["report", *arguments, "-s", "settings.toml"],
            cwd=self.made.folder,
            env={**os.environ, "SLICEWATCH__STORE__URL": f"sqlite:///{self.made.folder}/store.db"},
        )
        return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def report(tmp_path: Path) -> Iterator[Command]:
    with weekly_store(exact=False).releasing(tmp_path) as made:
        made.evaluator.release_lease()
        yield Command(made)


def test_all_formats_are_written_and_again_the_same(report: Command) -> None:
    folders = [report.made.folder / name for name in ("one", "two")]
    for folder in folders:
        done = report("--week", WEEK.name, "--out", str(folder))
        assert done.exit_code == 1, "the week is not approved"
        assert done.said.startswith("BLOCKED: Over the limit: "), done.said
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
    with report.made.engine.connect() as connection:
        stored = newest_snapshot(connection)
    assert stored is not None
    shown = [one.id for table in decode(stored[1]).contracts for one in table.incidents]
    assert [one["id"] for one in json.loads(document)["open_now"]["incidents"]] == sorted(shown)
    frame = pd.read_csv(folders[0] / f"fairness-{WEEK.name}-rates.csv")
    assert frame["value"].notna().any()
    assert encode(newest.release) == newest.body


@pytest.mark.full
def test_one_format_of_an_older_revision(report: Command) -> None:
    done = report("--week", WEEK.name, "--revision", "1", "--format", "md", "--out", "old")
    assert done.output.split() == [f"old/fairness-{WEEK.name}.md"]
    assert (done.exit_code, done.said.partition(":")[0]) == (1, "UNDECIDED")
    text = (report.made.folder / "old" / f"fairness-{WEEK.name}.md").read_text()
    assert f"revision: 1 (revision {len(revisions(report.made))} is newer)" in text


@pytest.mark.full
def test_sheets_are_written_where_they_are_asked_for(report: Command) -> None:
    done = report("--week", WEEK.name, "--format", "pdf", "--out", "sheets")
    assert done.output.split() == [f"sheets/fairness-{WEEK.name}.pdf"], done.output
    assert (report.made.folder / done.output.strip()).read_bytes().startswith(b"%PDF-")


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


@pytest.mark.full
def test_a_bundle_has_the_report_and_all_it_rests_on_and_again_the_same_bytes(
    report: Command,
) -> None:
    report("sign", "--week", WEEK.name, "--revision", "1", "--by", "A. Person")
    for folder in ("one", "two"):
        done = report("--week", WEEK.name, "--bundle", "--format", "html,json", "--out", folder)
        assert done.output.split() == [f"{folder}/fairness-{WEEK.name}.zip"], done.output
    first, second = (
        report.made.folder / folder / f"fairness-{WEEK.name}.zip" for folder in ("one", "two")
    )
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as opened:
        opened.extractall(report.made.folder)
    inside = report.made.folder / f"fairness-{WEEK.name}"
    names = [f"fairness-{WEEK.name}{end}" for end in (".html", ".json")]
    names += [f"{name}.json" for name in ("manifest", "ledger", "signatures", "contracts")]
    assert {one.name for one in inside.iterdir()} == {*names, "release.json", "SHA256SUMS"}
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=inside,
        capture_output=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
    assert len(checked.stdout.splitlines()) == len(names) + 1
    kept = revisions(report.made)
    body = (inside / "release.json").read_bytes()
    manifest = json.loads((inside / "manifest.json").read_bytes())
    assert body == kept[-1].body
    assert manifest["digest"] == hashlib.sha256(body).hexdigest()
    page = (inside / names[0]).read_text()
    for said in (manifest["digest"], manifest["settings_digest"], manifest["program"]):
        assert said in page, "what identifies a report is printed in it"
    ledger = json.loads((inside / "ledger.json").read_bytes())
    assert [(one["number"], one["digest"]) for one in ledger["revisions"]] == [
        (one.number, one.digest) for one in kept
    ]
    (hidden,) = ledger["hidden"]
    frame = weekly(kept[-1].release)["rates"]
    assert hidden["hidden"] == (frame["state"] == "suppressed").sum()
    assert hidden["cells"] == len(frame)
    (signed,) = json.loads((inside / "signatures.json").read_bytes())
    assert signed["signature"]["by"] == "A. Person"
    (contract,) = json.loads((inside / "contracts.json").read_bytes())
    assert (contract["name"], contract["version"]) == ("replies", "1")
    assert contract["record"]["name"] == "replies"


@pytest.mark.full
def test_other_settings_have_another_digest_and_other_addresses_have_not(report: Command) -> None:
    file = report.made.folder / "settings.toml"
    plain = file.read_text()
    found = []
    for more in ("", '\n[links]\ngrafana = "https://g.example"\n', LIMITATION):
        file.write_text(plain + more)
        report("--week", WEEK.name, "--format", "json", "--out", ".")
        made = json.loads((report.made.folder / f"fairness-{WEEK.name}.json").read_text())
        found.append(made["facts"]["settings_digest"])
    assert found[0] == found[1] != found[2]
    assert len(found[0]) == 64


@pytest.mark.full
def test_a_file_leads_to_the_status_page_where_others_reach_it(report: Command) -> None:
    file, page = (
        report.made.folder / one for one in ("settings.toml", f"fairness-{WEEK.name}.html")
    )
    plain, found = file.read_text(), []
    for more in ("", '\n[alerting]\nexternal_url = "https://status.example/x/"\n'):
        file.write_text(plain + more)
        report("--week", WEEK.name, "--format", "html", "--out", ".")
        found.append(re.findall(r'<a href="([a-z][^"]*)"', page.read_text()))
    assert found[0] == []
    assert "https://status.example/x/reports" in found[1]
    newest = f"week={WEEK.name}&amp;revision={len(revisions(report.made))}"
    assert f"https://status.example/x/api/v1/report?{newest}" in found[1]


@pytest.mark.full
def test_changes_are_told_against_a_revision(report: Command) -> None:
    def changes(*arguments: str) -> Any:
        report("--week", WEEK.name, "--format", "json", "--out", ".", *arguments)
        return json.loads((report.made.folder / f"fairness-{WEEK.name}.json").read_text())[
            "changes"
        ]

    assert changes("--revision", "1") is None
    assert len(revisions(report.made)) > 1
    assert changes()["since"] == 1
    assert changes("--diff", "1")["since"] == 1
    report("sign", "--week", WEEK.name, "--revision", "1", "--by", "A")
    assert changes()["since"] == 1, "what somebody has read and signed"
    assert changes("--revision", "2")["since"] == 1


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
        (("--week", "2026-W23", "--format", "docx"), "--format must be a list of html, json"),
        (("--week", "2026-W23", "--revision", "99"), "has no such revision; the newest is"),
        (("--week", "2026-W23", "--out", "settings.toml"), "settings.toml"),
        (("--week", "2026-W23", "--diff", "99"), "--diff: week 2026-W23 has no such revision"),
        (("--week", "2026-W23", "--revision", "1", "--diff", "1"), "--diff is the revision that"),
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
    assert said in done.said.splitlines()[-1]
    assert "Traceback" not in done.said


def test_a_store_without_a_week_says_so(tmp_path: Path) -> None:
    world = make_world(1, Shape(values=(2,), days=1))
    with Releasing(world, tmp_path) as made:
        done = Command(made)("--week", WEEK.name)
    assert done.exit_code == 2
    assert "decisions are complete in no hour yet; take" in done.said
