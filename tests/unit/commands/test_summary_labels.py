"""Lines of the summary on labels that are missing."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from monitor.commands.summary import summary
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    ShownRate,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.state import State
from monitor.present.terminal import printed as on_terminal

RATES = {
    Metric.TPR: ShownRate(0.8, 0.75, 0.84, 500, least=0.4, most=1.0),
    Metric.FPR: ShownRate(0.1, 0.07, 0.14, 500, least=0.0, most=0.5),
    Metric.READY: ShownRate(0.5, 0.47, 0.53, 500),
}
FINE = SliceRow("channel=chat", dict.fromkeys(RATES, State.INCONCLUSIVE), RATES, completeness=1.0)


def printed(*rows: SliceRow) -> str:
    window = WindowTable("7d", replace(FINE, slice=""), (GroupTable("channel", rows),))
    table = ContractTable("c", "1", "o", False, 11, "7d", {}, {}, {}, {}, (window,))
    console = Console(file=io.StringIO(), record=True, width=200)
    console.print(*map(on_terminal, summary(Snapshot(None, None, (table,)))))
    return " ".join(console.export_text().split())


def test_a_slice_that_lacks_labels_says_what_they_could_change_at_most() -> None:
    states = dict.fromkeys(RATES, State.MATURING)
    poor = replace(FINE, slice="channel=email", states=states, completeness=0.64)
    text = printed(FINE, poor)
    assert "channel=email lacks labels (completeness 0.64)" in text
    assert "whatever they would say: TPR 40 to 100 %, FPR 0 to 50 %" in text


def test_nothing_is_said_where_all_are_alike() -> None:
    assert "lacks labels" not in printed(FINE, replace(FINE, slice="channel=email"))
