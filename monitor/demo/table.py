"""Table of the demo on the terminal: redrawn in place, or printed plainly without a terminal."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from monitor.core.publish.annotations import Behind, Stage
from monitor.core.publish.snapshot import PublishedValue, ShownGap, ShownIncident, ShownRate
from monitor.core.publish.words import iso_text
from monitor.core.time import DAY, HOUR, SECOND
from monitor.demo.view import SYNTHETIC, DemoView, SliceView, contract_window_table
from monitor.demo.world import REGRESSED
from monitor.present.document import Tone
from monitor.present.terminal import STYLES

WIDE = 104
"""Width of the terminal from which on the gap is shown."""
PLAIN_SECONDS = 5.0
SVG_WIDTH = 112

_REMOTE_FONT = re.compile(r",\s*url\([^)]*\) format\([^)]*\)")

_NOTES = """
TPR: of ready replies, the share served at once. kiosk is too small to show."""

_WHAT = {
    Behind.SLICE: "worse off,",
    Behind.REFERENCE: "better off,",
    Behind.LEVEL: "rate",
    None: "gap",
}
"""Words before the value of an incident."""


class Screen:
    """Screen that shows nothing, for ``--json``; base class of the others.

    It is a context manager, since a terminal must be left as it was.
    """

    def show(self, view: DemoView) -> None:
        """Ignore a view; subclasses show it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class LiveScreen(Screen):
    """Screen that redraws the table in place on a terminal; the last one stays."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def show(self, view: DemoView) -> None:
        """Redraw the table in place from a view."""
        self._live.update(render(view, self._console.width), refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


class PlainScreen(Screen):
    """Screen for pipes and logs: prints a table every few seconds, and the last one."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0
        self._unseen: DemoView | None = None

    def show(self, view: DemoView) -> None:
        """Print the table if PLAIN_SECONDS have passed since the last print; else keep the view."""
        self._unseen = view
        if view.seconds >= self._next:
            self._next = view.seconds + PLAIN_SECONDS
            self._print(view)

    def _print(self, view: DemoView) -> None:
        self._console.print(render(view, self._console.width))
        self._unseen = None

    def __exit__(self, *_: object) -> None:
        if self._unseen is not None:
            self._print(self._unseen)


def screen_for(silent: bool) -> Screen:
    """Return a silent screen, a live one for a terminal, or a plain one for a pipe."""
    if silent:
        return Screen()
    console = Console(file=sys.stdout)
    return LiveScreen(console) if console.is_terminal else PlainScreen(console)


def svg(view: DemoView) -> str:
    """Render the table of a view as an SVG document without outside fonts."""
    console = Console(record=True, width=SVG_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(render(view, SVG_WIDTH))
    picture = console.export_svg(title="slicewatch demo")
    return _REMOTE_FONT.sub("", picture)  # a document loads no outside resource


def render(view: DemoView, width: int) -> RenderableType:
    """Return a rich renderable of a view: head, table, incidents and foot; gaps if wide."""
    table = _table(view.slices, wide=width >= WIDE)
    return Group(_head(view), table, *map(partial(_incident, view), view.incidents), _foot(view))


def _head(view: DemoView) -> Text:
    text = Text()
    text.append("slicewatch demo", style="bold")
    text.append(f"  {SYNTHETIC}\n", style="bold yellow")
    pace = DAY / SECOND / view.speed
    text.append(f"simulated {iso_text(view.simulated)}, one day in {pace:.0f} s; ")
    text.append(f"{view.per_second:,.0f} events/s, {view.consumed.events:,} consumed\n")
    text.append(_progress(view))
    return text


def _progress(view: DemoView) -> str:
    """Return the line above the table: how far the labelled window is behind the watermark."""
    snapshot = view.snapshot
    if snapshot is None or snapshot.watermark is None or snapshot.frontier is None:
        return "joining the consumer group, filling the windows ..."
    window = contract_window_table(snapshot)
    if window is None or window.labelled is None:
        return f"watermark {iso_text(snapshot.watermark)}"
    labelled = window.labelled
    hours = max(0, snapshot.watermark - labelled.end) / HOUR
    span = f"{iso_text(labelled.start)} to {iso_text(labelled.end)}"
    return f"TPR, {window.window}: {span}, {hours:.0f} h behind the watermark"


def _table(slices: Sequence[SliceView], wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("TPR of", no_wrap=True, min_width=16)
    table.add_column("truth", justify="right", no_wrap=True, style="dim")
    table.add_column("labelled", justify="right", no_wrap=True, style="dim")
    table.add_column("slicewatch [95 %]", no_wrap=True)
    table.add_column("support", justify="right", no_wrap=True)
    if wide:
        table.add_column("gap to the reference", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for group_by, views in groupby(slices, key=lambda view: view.group_by):
        table.add_row(Text(group_by, style="bold"))
        for view in views:
            table.add_row(*_cells(view, wide))
    return table


def _cells(view: SliceView, wide: bool) -> list[Text]:
    colour = STYLES[Tone(view.state.row.tone)]
    cells = [
        Text(f" {view.row.slice.partition('=')[2]}"),
        Text(_number(view.truth)),
        Text(_number(next((rate for m, rate in view.row.as_labelled.items() if m == "tpr"), None))),
        Text(_rate(view.tpr), style="bold"),
        Text(f"{view.tpr.support:,}+" if view.tpr else "-"),
    ]
    if wide:
        cells.append(Text(_gap(view)))
    return [*cells, Text(_state(view), style=colour)]


def _state(view: SliceView) -> str:
    """Return the TPR's state as text, with the names of other suspected metrics."""
    suspected = [metric for metric in view.suspected if metric != "tpr"]
    return (
        f"{view.state.value} ({', '.join(suspected)} suspected)" if suspected else view.state.value
    )


def _rate(rate: ShownRate | None) -> str:
    if rate is None:
        return "-"
    value = _number(rate.value)
    if rate.at_least is not None:
        value = f">= {rate.at_least:.2f}"
    if rate.at_most is not None:
        value = f"<= {rate.at_most:.2f}"
    return f"{value} {_interval(rate)}"


def _gap(view: SliceView) -> str:
    if view.gap is None:
        return "reference" if view.tpr else "-"
    return f"{_number(view.gap.value, sign='+')} {_interval(view.gap, sign='+')}"


def _interval(shown: ShownRate | ShownGap | PublishedValue, sign: str = "") -> str:
    return f"[{_number(shown.lower, sign)}, {_number(shown.upper, sign)}]"


def _number(number: float | None, sign: str = "") -> str:
    return "-" if number is None else f"{number:{sign}.2f}"


def _incident(view: DemoView, incident: ShownIncident) -> Text:
    """Return an incident as rich text: severity, slice, gap and cause."""
    text = Text()
    text.append(f"{incident.severity.value.upper()} {incident.id}", style="bold white on red")
    text.append(f" {incident.metric.value} of {incident.slice}", style="bold red")
    if incident.latest is not None:
        gap = f"{_number(incident.latest.value, sign='+')} {_interval(incident.latest, sign='+')}"
        text.append(f": {_WHAT[incident.behind]} {gap}")
    text.append("\n  " + "; ".join(_incident_details(view, incident)))
    return text


def _incident_details(view: DemoView, incident: ShownIncident) -> Iterator[str]:
    if incident.share is not None:
        yield f"{incident.share.value} of the excess"
    if incident.stage is not None and incident.stage.stage is not Stage.NONE:
        yield f"stage: {incident.stage.stage.value}"
    shown_at = view.watch.incidents.get(incident.id)
    when = "" if shown_at is None else f", told after {shown_at.seconds:.0f} s"
    yield f"since {iso_text(incident.since)}{when}"


def _foot(view: DemoView) -> Text:
    text = Text(_regression(view))
    if view.watch.regressed is not None:
        text.append(f", suspected after {view.watch.regressed.seconds:.0f} s", style="bold red")
    for slice_text in view.watch.others:
        text.append(f"\n{slice_text} suspected although nothing happened to it", style="bold red")
    text.append(_NOTES, style="dim")
    text.append(f"\nstatus: {view.url}/  {view.url}/metrics  (Ctrl-C stops)")
    return text


def _regression(view: DemoView) -> str:
    seconds_ahead = (view.regression_at - view.simulated) / SECOND / view.speed
    when = f"({iso_text(view.regression_at)})"
    if seconds_ahead > 0:
        return f"{REGRESSED}: TPR falls in {seconds_ahead:.0f} s {when}"
    return f"{REGRESSED}: TPR fell {-seconds_ahead:.0f} s ago {when}"
