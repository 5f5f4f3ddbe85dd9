"""The manual of alerts: all of them, as they are."""

from __future__ import annotations

import re
from pathlib import Path

from declaring import DECLARING

from alerts.rules import Alert, alerts

ROOT = Path(__file__).parents[3]
MANUAL = ROOT / "deploy" / "docs" / "alerts.md"
TEXT = MANUAL.read_text()
STATUS_PAGE = MANUAL.with_name("status-page.md").read_text()


def page(case: Alert) -> str:
    """The runbook; where only some installations have it, its template."""
    if case.only_with:
        return f"../../alerts/rules/runbooks/{case.name}.md.j2"
    return f"../runbooks/{max(case.runbooks)}.md"


def test_the_tables_have_every_alert_and_every_condition_in_the_order_of_the_rules() -> None:
    cell = r" ([^|]+) \|"
    rows = re.findall(rf"^\| \[`(\w+)`\]\((\S+)\) \|{cell}{cell}{cell}", TEXT, re.MULTILINE)
    declared = alerts(DECLARING)
    named = [case for case in declared if not case.condition]
    assert [row[:4] for row in rows[: len(named)]] == [
        (case.name, page(case), case.severity, case.for_ or "at once") for case in named
    ]
    conditions = [case for case in declared if case.condition]
    assert rows[len(named) :] == [
        (case.key, f"../runbooks/{case.name}.md", f"`{case.name}`", case.severity, case.for_)
        for case in conditions
    ]


def test_the_manual_of_the_page_names_what_only_prometheus_can_tell() -> None:
    section = STATUS_PAGE.partition("## What needs attention")[2].partition("\n## ")[0]
    untold = {alert.key for alert in alerts(DECLARING) if not alert.when}
    never_a_condition = {"SlicewatchBreach", "SlicewatchReportReady", "SlicewatchWatchdog"}
    assert untold - never_a_condition <= set(re.findall(r"`(\w+)`", section))
