"""The worked incident: its commands are run in order, and print what the page shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pipeline import Pipeline

from alerts.rules import alerts
from monitor.cli import cli
from monitor.commands.incident import command as incident
from monitor.commands.incident_report import lines
from monitor.core.contract import Severity, Verdict
from monitor.core.metric import Metric
from monitor.core.plain_text import LONGEST_NAME, LONGEST_NOTE
from monitor.core.publish.annotations import Behind, IncidentKind, Outcome, Share, Stage
from monitor.core.publish.incident_reports import report
from monitor.core.publish.incidents import Incident
from monitor.core.publish.snapshot import (
    ComponentChange,
    ContractTable,
    GroupTable,
    LimitKind,
    PublishedValue,
    ShownGap,
    ShownIncident,
    ShownLimit,
    ShownRate,
    ShownStage,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.state import State
from monitor.core.time import DAY, HOUR
from monitor.settings import Settings
from monitor.store.evaluator.store import Cycle, EvaluatorStore
from monitor.store.evaluator.stored_incidents import IncidentChange

PAGE = (Path(__file__).parents[3] / "deploy" / "docs" / "on-call.md").read_text()
T0 = 1_780_308_000_000_000  # 2026-06-01T10:00Z
CONTRACT, SLICE = "reply-routing", "language=de"
FIRST = PublishedValue(0.22, 0.15, 0.29, T0)
OPENED = Incident(
    3, IncidentKind.BREACH, CONTRACT, Metric.TPR, T0, T0 + HOUR, "language", SLICE,
    share=Share.MOST, first=FIRST, crossings=(1,),
)  # fmt: skip
SHOWN = ShownIncident(
    3, IncidentKind.BREACH, Severity.PAGE, Metric.TPR, T0, "language", SLICE, Share.MOST,
    ("channel=chat,language=de",), first=FIRST,
    latest=PublishedValue(0.24, 0.18, 0.30, T0 + HOUR), stage=ShownStage(Stage.SCORE, Share.MOST),
    versions_changed_at=T0 - 5 * HOUR, sampling="5 % of what is served",
    resolvable_at=T0 + 9 * DAY, behind=Behind.SLICE, limit=ShownLimit(LimitKind.MAX_GAP, 0.1),
    versions_changed=(ComponentChange("judge", "j1", "j2"),),
)  # fmt: skip
ROW = SliceRow(
    SLICE,
    {Metric.TPR: State.BREACH},
    {Metric.TPR: ShownRate(0.58, 0.54, 0.62, 700)},
    {Metric.TPR: ShownGap("complement", 0.24, 0.18, 0.30, verdict=Verdict.FAIL)},
)


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with Pipeline(tmp_path, store__url=f"sqlite:///{tmp_path}/store.db") as made:
        store = EvaluatorStore(made.engine, "decisions")
        epoch = store.lease.acquire("me", DAY)
        assert epoch is not None
        store.commit(epoch, Cycle(incidents=IncidentChange([OPENED])), T0)
        window = WindowTable("7d", SliceRow("", {}), (GroupTable("language", (ROW,)),))
        limits: dict[Metric, float] = {Metric.TPR: 0.1}
        table = ContractTable(
            CONTRACT, "1", "tests", True, 1, "7d", limits, {}, {}, {}, (window,),
            incidents=(SHOWN,),
        )  # fmt: skip
        store.commit(epoch, Cycle(snapshot=Snapshot(T0, None, (table,))), T0)
        yield made


def test_every_command_prints_what_is_shown(pipeline: Pipeline) -> None:
    runner = CliRunner(env={"SLICEWATCH__STORE__URL": pipeline.settings.store.url})
    settings = str(pipeline.path.with_name("settings.toml"))
    both = re.findall(r"^```bash\n(.*?)\n```\n+```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(both) == 3
    for command, shown in both:
        found = runner.invoke(cli, [*shlex.split(command)[1:], "-s", settings])
        assert found.exit_code == 0, found.output
        assert [line.rstrip() for line in found.output.splitlines()] == shown.splitlines(), command


def test_the_sample_has_every_line_but_those_of_other_incidents() -> None:
    names = {name.strip() for name, _ in lines(report(OPENED, (), SHOWN, T0))} - {""}
    sample = re.search(r"^```text\n(incident .*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert sample is not None
    shown = {re.split("  +", line.strip())[0] for line in sample[1].splitlines()}
    others = {"by", "further slices", "probably began", "resolved", "settings changed"}
    assert names - shown == others


def test_the_alert_is_one_of_ours() -> None:
    named = set(re.findall(r"\bSlicewatch\w+", PAGE))
    assert named <= {alert.name for alert in alerts(Settings())}
    assert "SlicewatchBreach" in named


SECTION = PAGE.partition("\n## Outcomes\n")[2].partition("\n## ")[0]


def test_every_command_has_an_example() -> None:
    for name, command in incident.commands.items():
        assert f"Example: slicewatch incident {name}" in (command.help or "")


def test_every_outcome_has_a_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", SECTION, re.MULTILINE)
    assert sorted(rows) == sorted(Outcome)


def test_the_limits_are_those_of_the_command() -> None:
    assert f"Name ({LONGEST_NAME} characters) and note ({LONGEST_NOTE})" in SECTION
