"""Settings of the last start are remembered, and what differs is said: on both databases."""

from __future__ import annotations

import json

import sqlalchemy as sa

from monitor.store.upkeep.last_settings import LastSettings

MONTH, WEEK = {"stream.horizon": "30d"}, {"stream.horizon": "7d"}


def test_a_change_is_said_before_and_at_the_start_that_makes_it(engine: sa.Engine) -> None:
    last = LastSettings(engine)
    assert last.changes(MONTH) == last.keep(MONTH) == last.changes(MONTH) == []
    line = "stream.horizon is 7d now, and was 30d at the last start"
    assert last.changes(WEEK) == [line]
    assert last.keep(WEEK) == [line]
    assert last.keep(WEEK) == []
    assert last.changes(MONTH) == ["stream.horizon is 30d now, and was 7d at the last start"]


def test_what_was_never_kept_is_no_change(engine: sa.Engine) -> None:
    last = LastSettings(engine)
    last.keep(MONTH)
    assert last.keep({**MONTH, "stream.clock": "live"}) == []
    assert last.changes({"stream.clock": "history"}) == [
        "stream.clock is history now, and was live at the last start"
    ]


def test_of_a_table_what_differs_is_said_entry_by_entry(engine: sa.Engine) -> None:
    last = LastSettings(engine)

    def table(**fields: str) -> dict[str, str]:
        return {"mapping.decisions": json.dumps({"fields": fields, "times": "seconds"})}

    assert last.keep(table(route="/outcome", unit="/who")) == []
    changed = table(route="/route", audit_p="/p", unit="/who")
    assert last.keep(changed) == [
        'mapping.decisions.fields.audit_p is "/p" now, and was absent at the last start',
        'mapping.decisions.fields.route is "/route" now, and was "/outcome" at the last start',
    ]
    assert last.changes({"mapping.decisions": "{}"})[-1] == (
        'mapping.decisions.times is absent now, and was "seconds" at the last start'
    )
