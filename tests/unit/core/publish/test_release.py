"""Whether anything was released."""

from __future__ import annotations

from dataclasses import replace

from published_lesson import lesson

from monitor.core.publish.release import has_decisions


def test_tables_without_a_period_have_no_decisions() -> None:
    (table,) = lesson().contracts
    empty = replace(table, windows=())
    assert [has_decisions(tables) for tables in ([], [empty], [empty, table])] == [
        False,
        False,
        True,
    ]
