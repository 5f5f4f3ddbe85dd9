"""Charts as inline SVG: intervals against their limit, history by day, calibration by score band.

Every chart says in words what it shows. What is withheld is a hatched area that no number has any
part in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from itertools import groupby
from typing import Protocol

from markupsafe import Markup

from monitor.core.contract import State
from monitor.core.publish.history import HistoryPoint
from monitor.core.publish.lines import Cell, SliceLine
from monitor.core.publish.snapshot import ShownRate
from monitor.core.publish.words import bounds, gap_text, points, rate_text
from monitor.drawing import svg
from monitor.drawing.svg import Axis

STRIP_WIDTH, STRIP_HEIGHT = 200, 22
WIDTH, HEIGHT = 640, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 8, 10, 24
_SMALLEST_SCALE = 0.1
_STEP = 0.05
_TICKS = 6
_DAY = 86_400
_ACROSS = (_LEFT, WIDTH - _RIGHT)
_STRIP, _MIDDLE = (3, STRIP_HEIGHT - 3), STRIP_HEIGHT / 2

TONES = {
    State.BREACH: "bad",
    State.SUSPECTED: "bad",
    State.BETTER_OFF: "plain",
    State.WITHIN_CONTRACT: "good",
    State.INCONCLUSIVE: "unsure",
    State.STALE: "old",
    State.MATURING: "old",
    State.INSUFFICIENT_SUPPORT: "grey",
    State.NO_LIMIT: "plain",
    State.SUPPRESSED: "hidden",
}
"""The class of a state: its colour, which never says anything that the words do not."""


class Band(Protocol):
    """P(ready | score band); the rate is None where too few were labelled."""

    @property
    def band(self) -> str:
        """Its scores."""

    @property
    def rate(self) -> ShownRate | None:
        """The rate."""


def gap_scales(lines: Iterable[SliceLine]) -> float:
    """The half width of the axis that all gaps of a page share, in rate units."""
    return gap_scale([_SMALLEST_SCALE, *(size for one in lines for size in _sizes(one.cells))])


def gap_scale(sizes: Iterable[float]) -> float:
    """A half width that holds some gaps and limits: a multiple of 5 points, up to 100."""
    widest = max(sizes, default=_SMALLEST_SCALE)
    return min(1.0, max(_SMALLEST_SCALE, math.ceil(widest / _STEP - 1e-9) * _STEP))


def _sizes(cells: Iterable[Cell]) -> Iterator[float]:
    for cell in cells:
        if cell.max_gap is not None:
            yield 1.5 * cell.max_gap
        if cell.gap is not None:
            yield from (abs(b) for b in (cell.gap.lower, cell.gap.upper) if b is not None)


def sizes(cells: Iterable[Cell]) -> list[float]:
    """Sizes of gaps and limits that a scale has to hold."""
    return list(_sizes(cells))


def gap_strip(cell: Cell, scale: float) -> Markup:
    """The interval of a gap against its limit: left the reference, right the slice is worse off.

    Args:
        cell: of one metric.
        scale: half width of the axis.
    """
    if cell.rate is None:
        return _hatched()
    gap = cell.gap
    if gap is None or gap.lower is None or gap.upper is None:
        return Markup("")
    x = Axis(-scale, scale, 0, STRIP_WIDTH)
    allowed = "" if cell.max_gap is None else f"; limit {points(cell.max_gap).lstrip('+')} points"
    parts = [
        *_allowed(cell.max_gap, x),
        svg.line("zero", (x(0), x(0)), (1, STRIP_HEIGHT - 1)),
        svg.line("range", (x(gap.lower), x(gap.upper)), (_MIDDLE, _MIDDLE)),
    ]
    if gap.value is not None:
        parts.append(_mark(x(gap.value), cell.state))
    label = f"gap {gap_text(gap)} points{allowed}"
    return svg.drawing(STRIP_WIDTH, STRIP_HEIGHT, label, parts, f"strip {TONES[cell.state]}")


def rate_strip(cell: Cell) -> Markup:
    """The interval of a rate from 0 to 100 %, with the level that it has to keep."""
    rate = cell.rate
    if rate is None:
        return _hatched()
    if rate.lower is None or rate.upper is None:
        return Markup("")
    x = Axis(0.0, 1.0, 0, STRIP_WIDTH)
    parts = [
        *_level(cell, x),
        svg.line("range", (x(rate.lower), x(rate.upper)), (_MIDDLE, _MIDDLE)),
    ]
    if rate.value is not None:
        parts.append(_mark(x(rate.value), cell.state))
    label = f"rate {rate_text(rate)}, {bounds(rate.lower, rate.upper)}, from 0 to 100 %"
    return svg.drawing(STRIP_WIDTH, STRIP_HEIGHT, label, parts, f"strip {TONES[cell.state]}")


def _level(cell: Cell, x: Axis) -> Iterator[str]:
    """Limit of the contract, and the ends of the axis."""
    if cell.min_level is not None or cell.max_level is not None:
        first, last = cell.min_level or 0.0, 1.0 if cell.max_level is None else cell.max_level
        yield svg.rect("allowed", (x(first), x(last)), _STRIP)
    for end in (0.0, 1.0):
        yield svg.line("zero", (x(end), x(end)), (1, STRIP_HEIGHT - 1))


def _allowed(limit: float | None, x: Axis) -> Iterator[str]:
    if limit is not None:
        yield svg.rect("allowed", (x(-limit), x(limit)), _STRIP)


def _mark(x: float, state: State) -> str:
    """A circle; a diamond where it is outside, so that colour is not all that tells."""
    if TONES[state] == "bad":
        return svg.diamond("mark", x, _MIDDLE, 6)
    return svg.circle("mark", x, _MIDDLE, 4.5)


def _hatched() -> Markup:
    body = svg.rect("hatch", (0, STRIP_WIDTH), _STRIP)
    return svg.drawing(STRIP_WIDTH, STRIP_HEIGHT, "hidden", [body], "strip hidden")


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment on the axis of time: ``kind`` is incident, resolved, contract or version."""

    at: datetime
    kind: str
    text: str


def rate_history(history: Sequence[HistoryPoint], marks: Sequence[Mark]) -> Markup:
    """A rate by day with its interval as a band; interrupted where it was withheld."""
    drawn = [_Drawn(_when(p), p.lower, p.upper, p.value) for p in history]
    low, high = _steps(drawn, ())
    y = Axis(max(0.0, low), min(1.0, high), HEIGHT - _BOTTOM, _TOP)
    return _history(drawn, marks, y, (), "rate by day in per cent, with its 95 % interval")


def gap_history(
    history: Sequence[HistoryPoint], marks: Sequence[Mark], unit: str = "days"
) -> Markup:
    """A gap by day, or another unit, with its interval as a band, between its limits."""
    limits = [p.limit for p in history if p.limit is not None]
    lines = (limits[-1], -limits[-1], 0.0) if limits else (0.0,)
    drawn = [_Drawn(_when(p), p.gap_lower, p.gap_upper, p.gap) for p in history]
    y = Axis(*_steps(drawn, lines), HEIGHT - _BOTTOM, _TOP)
    label = f"gap by {unit.removesuffix('s')} in points, with its interval"
    return _history(drawn, marks, y, lines, label, unit)


@dataclass(frozen=True, slots=True)
class _Drawn:
    at: float
    lower: float | None
    upper: float | None
    value: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)


def _when(point: HistoryPoint) -> float:
    """Time at which a point is drawn: the end of what it is of, not the day it was published."""
    if point.ends_at is not None:
        return point.ends_at.timestamp()
    return datetime.combine(point.day, time(), UTC).timestamp()


def _steps(drawn: Sequence[_Drawn], lines: Sequence[float]) -> tuple[float, float]:
    """Ends of a vertical axis, in steps of 5 points, around what is shown."""
    known = [*lines, *(bound for one in drawn if one.interval for bound in one.interval)]
    known = known or [0.0, 1.0]
    low, high = math.floor(min(known) / _STEP) * _STEP, math.ceil(max(known) / _STEP) * _STEP
    return (low, high) if high - low >= 2 * _STEP else (low - _STEP, high + _STEP)


def _history(  # noqa: PLR0917 - what is drawn, and what is said of it
    drawn: Sequence[_Drawn],
    marks: Sequence[Mark],
    y: Axis,
    lines: Sequence[float],
    label: str,
    unit: str = "days",
) -> Markup:
    if not any(one.interval for one in drawn):
        return Markup("")
    times = [one.at for one in drawn]
    first, last = min(times), max(times)
    x = Axis(first, last if last > first else first + _DAY, _LEFT, WIDTH - _RIGHT)
    parts = [*_y_ticks(y), *_x_ticks(x)]
    parts += [svg.line("limit" if v else "zero", _ACROSS, (y(v), y(v))) for v in lines]
    for run in _runs(drawn):
        parts += _band(run, x, y)
    parts += [_event(one, x) for one in marks if first <= one.at.timestamp() <= last]
    said = f"{label}; from {_date(first)} to {_date(last)}, {len(drawn)} {unit}"
    return svg.drawing(WIDTH, HEIGHT, said, parts, "history")


def _runs(drawn: Sequence[_Drawn]) -> Iterator[list[_Drawn]]:
    """Points without a withheld one between them."""
    for shown, run in groupby(drawn, key=lambda one: one.interval is not None):
        if shown:
            yield list(run)


def _band(run: Sequence[_Drawn], x: Axis, y: Axis) -> Iterator[str]:
    edges = [(x(one.at), *map(y, one.interval)) for one in run if one.interval]
    if len(edges) == 1:  # alone, a band would have no width
        at, low, high = edges[0]
        yield svg.line("range", (at, at), (low, high))
    outline = [(at, high) for at, _, high in edges] + [(at, low) for at, low, _ in edges[::-1]]
    yield svg.shape("polygon", "band", outline)
    valued = [(x(one.at), y(one.value)) for one in run if one.value is not None]
    yield svg.shape("polyline", "line", valued)
    yield from (svg.circle("dot", at, value, 2.5) for at, value in valued)


def _event(one: Mark, x: Axis) -> str:
    at = x(one.at.timestamp())
    drawn = svg.line(f"event {one.kind}", (at, at), (_TOP, HEIGHT - _BOTTOM))
    return svg.titled(drawn, one.text)


def _y_ticks(y: Axis) -> Iterator[str]:
    """A few round values of the axis, which begins and ends at multiples of 5 points."""
    first, last = round(y.first / _STEP), round(y.last / _STEP)
    every = next(n for n in (1, 2, 4, 5, 10, 20) if (last - first) / n < _TICKS)
    for number in range(-(-first // every) * every, last + 1, every):
        at = y(number * _STEP)
        yield svg.line("grid", _ACROSS, (at, at))
        yield svg.text(_LEFT - 6, at + 4, "end", f"{number * 5}")


def _x_ticks(x: Axis) -> Iterator[str]:
    ends = ((x.first, "start"), ((x.first + x.last) / 2, "middle"), (x.last, "end"))
    return (svg.text(x(at), HEIGHT - 6, anchor, _date(at)) for at, anchor in ends)


def _date(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def calibration(bands: Sequence[Band]) -> Markup:
    """P(ready) by score band with its interval; hatched where too few were labelled."""
    if not bands:
        return Markup("")
    y = Axis(0.0, 1.0, HEIGHT - _BOTTOM, _TOP)
    step = (WIDTH - _LEFT - _RIGHT) / len(bands)
    parts = list(_y_ticks(y))
    for i, one in enumerate(bands):
        middle = svg.short(_LEFT + step * (i + 0.5))
        parts += _calibration_mark(one, middle, step, y)
        parts.append(svg.text(middle, HEIGHT - 6, "middle", one.band))
    said = "; ".join(f"score {one.band}: {_said(one)}" for one in bands)
    label = f"share of ready replies by score band: {said}"
    return svg.drawing(WIDTH, HEIGHT, label, parts, "history")


def _said(one: Band) -> str:
    if one.rate is None:
        return "too few labels"
    return f"{rate_text(one.rate)} ({bounds(one.rate.lower, one.rate.upper)})"


def _calibration_mark(one: Band, middle: float, step: float, y: Axis) -> Iterator[str]:
    rate = one.rate
    if rate is None or rate.lower is None or rate.upper is None:
        edges = svg.short(middle - step * 0.3), svg.short(middle + step * 0.3)
        yield svg.rect("hatch", edges, (_TOP, HEIGHT - _BOTTOM))
        return
    yield svg.line("range", (middle, middle), (y(rate.lower), y(rate.upper)))
    if rate.value is not None:
        yield svg.circle("dot", middle, y(rate.value), 4)
