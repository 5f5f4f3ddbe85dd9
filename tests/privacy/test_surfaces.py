"""The surface table is complete: what is exported has a row, and every row is exported."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import exported_names as exported
import pytest
from published_lesson import BOTH, lesson
from surface_manual import BEGIN, END, MANUAL, written
from surface_types import Surface
from surfaces import TABLE, rows_of

import monitor.settings
from monitor.core.privacy.rules import PrivacyRule as Rule
from monitor.core.publish.snapshot import Snapshot
from monitor.demo.traffic import Produced
from monitor.demo.view import CommittedTotals, DemoView, FirstShown, SliceView, document

ANONYMOUS = "?"
"""A log line whose event is not written where it is logged: that of the access log."""
ACCESS = {
    "access; count path reader since status",
    "access refused; count path reader since status",
}


def logged() -> set[str]:
    """Events of log lines, with their fields."""
    return {line.event for line in exported.log_lines()} - {ANONYMOUS} | ACCESS


@pytest.mark.parametrize(
    ("surface", "names"),
    [
        (Surface.SNAPSHOT, exported.snapshot_names),
        (Surface.PUBLISHED, exported.published_names),
        (Surface.STATUS, exported.status_names),
        (Surface.RECEIVED, exported.received_names),
        (Surface.INCIDENT, exported.incident_names),
        (Surface.PAGE, exported.page_names),
        (Surface.REPORT, exported.report_names),
        (Surface.BACKTEST, exported.backtest_names),
        (Surface.PROBES, exported.probe_names),
        (Surface.AUDIT, exported.audit_names),
        (Surface.LOG, logged),
    ],
)
def test_every_exported_name_has_a_row_and_every_row_is_exported(
    surface: Surface, names: Callable[[], set[str]]
) -> None:
    found, rows = names(), set(rows_of(surface))
    assert found - rows == set(), "exported without a row in tests/privacy/surfaces.py"
    assert rows - found == set(), "a row for what is not exported"


def test_a_name_has_one_row_on_a_surface() -> None:
    seen = Counter((row.surface, row.name) for row in TABLE)
    assert [key for key, number in seen.items() if number > 1] == []
    assert all(row.why for row in TABLE)
    assert all(row.rule in (Rule.ANNOUNCED, Rule.NEVER) for row in rows_of(Surface.LATER).values())


def test_what_must_not_leave_is_not_exported() -> None:
    assert {row.surface for row in TABLE if row.rule is Rule.NEVER} == {Surface.LATER}
    assert {rule for rule in Rule if not any(row.rule is rule for row in TABLE)} == set()


def test_only_the_access_log_has_an_event_that_is_not_written_where_it_is_logged() -> None:
    modules = {line.module for line in exported.log_lines() if line.event == ANONYMOUS}
    assert modules == {"alerts.http.access_log"}


def test_the_texts_of_the_settings_can_know_nothing_else() -> None:
    folder = Path(monitor.settings.__file__).parent
    imported = {
        name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    ours = {name for name in imported if name.startswith(("monitor.", "consumers.", "alerts."))}
    with_data = ("monitor.store", "monitor.evaluate", "monitor.core.publish.snapshot")
    assert not [name for name in ours if name.startswith((*with_data, "consumers", "alerts"))]


def test_who_exports_without_a_row_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The scan sees a new log line."""
    package = tmp_path / "monitor"
    package.mkdir()
    (package / "new.py").write_text('log.info("a decision", extra={"id": one.id})\n')
    monkeypatch.setattr(exported, "PACKAGES", [package])
    assert [line.event for line in exported.log_lines()] == ["a decision; id"]


def test_every_key_of_the_demo_s_document_has_a_row() -> None:
    (table,) = lesson(*BOTH).contracts
    (window,) = table.windows
    window = replace(window, labelled=window.decisions)
    snapshot = Snapshot(0, 0, (replace(table, windows=(window,)),))
    slices = [SliceView(g.group_by, row, 0.5) for g in window.groups for row in g.rows]
    consumed = CommittedTotals(dead_letters={"json": 1})
    view = DemoView(
        1.0, 0, 1.0, 0, snapshot, slices, FirstShown(), consumed, 1.0, "http://127.0.0.1"
    )
    found = exported.builtins(document(view, Produced(), 1))
    closed = frozenset({"published", "suspected", "dead_letters"})
    assert exported.keys_of(found, closed) == set(rows_of(Surface.DEMO))
    row = found["slices"][0]["published"]
    assert {f"SliceRow.{name}" for name in row} <= set(rows_of(Surface.SNAPSHOT))


def test_the_manual_has_the_table() -> None:
    manual = MANUAL.read_text()
    assert manual.count(BEGIN) == manual.count(END) == 1
    assert written(manual) == manual, "run: python tests/privacy/surface_manual.py"
