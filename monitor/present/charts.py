"""Charts as inline SVG: intervals against their limit, history by day, calibration by score band.

Every chart has a description in words. A withheld value is a hatched area, drawn without any
number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from itertools import groupby
from typing import Protocol

from markupsafe import Markup

from monitor.core.publish.history import HistoryPoint
from monitor.core.publish.lines import Cell
from monitor.core.publish.snapshot import ShownRate
from monitor.core.publish.words import bounded_rate_text, distance, gap_text, percent, points
from monitor.core.state import State
from monitor.present import svg
from monitor.present.document import Tone
from monitor.present.svg import Axis

STRIP_WIDTH, STRIP_HEIGHT = 200, 22
SPARK_WIDTH, SPARK_HEIGHT = 120, 28
WIDTH, HEIGHT = 640, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 8, 10, 24
_SMALLEST_SCALE = 0.1
_STEP = 0.05
_TICKS = 6
_DAY = 86_400
_ACROSS = (_LEFT, WIDTH - _RIGHT)
_STRIP, _MIDDLE = (3, STRIP_HEIGHT - 3), STRIP_HEIGHT / 2


class Band(Protocol):
    """Score band with its P(ready); the rate is None if too few were labelled."""

    @property
    def band(self) -> str:
        """Return the name of the score band."""

    @property
    def rate(self) -> ShownRate | None:
        """Return the band's P(ready) with its interval; None if too few were labelled."""


def gap_scale(sizes: Iterable[float]) -> float:
    """Return an axis's half width that holds all sizes: a multiple of .05, from .1 to 1."""
    widest = max(sizes, default=_SMALLEST_SCALE)
    return min(1.0, max(_SMALLEST_SCALE, math.ceil(widest / _STEP - 1e-9) * _STEP))


def sizes(cells: Iterable[Cell]) -> Iterator[float]:
    """Yield sizes of gap bounds, and 1.5 times each limit, which a scale must hold."""
    for cell in cells:
        if cell.max_gap is not None:
            yield 1.5 * cell.max_gap
        if cell.gap is not None:
            yield from (
                abs(bound) for bound in (cell.gap.lower, cell.gap.upper) if bound is not None
            )


def gap_strip(cell: Cell, scale: float) -> Markup:
    """Draw a cell's gap interval against its limit as SVG; to the right, the slice is worse off.

    Args:
        cell: cell of one metric.
        scale: half width of the axis.
    """
    if cell.rate is None:
        return _hidden_strip()
    gap = cell.gap
    if gap is None or gap.lower is None or gap.upper is None:
        return Markup("")
    x = Axis(-scale, scale, 0, STRIP_WIDTH)
    allowed = "" if cell.max_gap is None else f"; limit {distance(cell.max_gap)} points"
    parts = [
        *_allowed_gap(cell.max_gap, x),
        svg.line("zero", (x(0), x(0)), (1, STRIP_HEIGHT - 1)),
        svg.line("range", (x(gap.lower), x(gap.upper)), (_MIDDLE, _MIDDLE)),
    ]
    if gap.value is not None:
        parts.append(_state_mark(x(gap.value), cell.state))
    label = f"gap {gap_text(gap)} points{allowed}"
    return svg.drawing(STRIP_WIDTH, STRIP_HEIGHT, label, parts, f"strip {cell.state.row.tone}")


def gap_axis(scale: float) -> Markup:
    """Draw the axis of gap strips with this half width as SVG: both ends and 0, in points."""
    low, high = points(-scale), points(scale)
    parts = [
        svg.text(0, 9, "start", low),
        svg.text(STRIP_WIDTH / 2, 9, "middle", "gap in points"),
        svg.text(STRIP_WIDTH, 9, "end", high),
    ]
    label = f"gaps from {low} to {high} points"
    return svg.drawing(STRIP_WIDTH, 12, label, parts, "strip axis")


def sparkline(trend: Sequence[tuple[date, float]], last: date, ends: tuple[float, float]) -> Markup:
    """Draw rates of four weeks by day as SVG, interrupted by days without one; empty below two.

    Args:
        trend: days with their rates, ascending.
        last: day at the right end.
        ends: rates at the lower and upper end.
    """
    if len(trend) <= 1:
        return Markup("")
    x = Axis(last.toordinal() - 27, last.toordinal(), 4, SPARK_WIDTH - 4)
    y = Axis(*ends, SPARK_HEIGHT - 4, 4)
    runs = groupby(enumerate(trend), key=lambda item: item[1][0].toordinal() - item[0])
    lines = ([(x(day.toordinal()), y(rate)) for _, (day, rate) in run] for _, run in runs)
    (first_day, first), (last_day, newest) = trend[0], trend[-1]
    parts = [svg.shape("polyline", "line", line) for line in lines]
    parts.append(svg.circle("dot", x(last_day.toordinal()), y(newest), 3))
    label = f"{percent(first)} on {first_day}, {percent(newest)} on {last_day}"
    return svg.drawing(SPARK_WIDTH, SPARK_HEIGHT, label, parts, "spark")


def _allowed_gap(limit: float | None, x: Axis) -> Iterator[str]:
    if limit is not None:
        yield svg.rect("allowed", (x(-limit), x(limit)), _STRIP)
        yield from (svg.line("limit", (x(end), x(end)), _STRIP) for end in (-limit, limit))


def _state_mark(x: float, state: State) -> str:
    """Return an SVG circle at ``x``; a diamond for states beyond the limit, not only a colour."""
    if state.row.tone == Tone.BAD:
        return svg.diamond("mark", x, _MIDDLE, 6)
    return svg.circle("mark", x, _MIDDLE, 4.5)


def _hidden_strip() -> Markup:
    body = svg.rect("hatch", (0, STRIP_WIDTH), _STRIP)
    return svg.drawing(STRIP_WIDTH, STRIP_HEIGHT, "hidden", [body], "strip hidden")


@dataclass(frozen=True, slots=True)
class Mark:
    """Labelled moment on a chart's time axis: incident, resolved, contract or version."""

    at: datetime
    kind: str
    text: str


def rate_history(history: Sequence[HistoryPoint], marks: Sequence[Mark]) -> Markup:
    """Draw a daily rate with its interval as SVG, interrupted where it was withheld."""
    drawn = [_Drawn(_drawn_at(point), point.lower, point.upper, point.value) for point in history]
    low, high = _axis_ends(drawn, ())
    y = Axis(max(0.0, low), min(1.0, high), HEIGHT - _BOTTOM, _TOP)
    return _draw_history(drawn, marks, y, (), "rate by day in per cent, with its 95 % interval")


def gap_history(
    history: Sequence[HistoryPoint], marks: Sequence[Mark], unit: str = "days"
) -> Markup:
    """Draw a gap by day, or other unit, with its interval and latest limits, as SVG."""
    limits = [point.limit for point in history if point.limit is not None]
    lines = (limits[-1], -limits[-1], 0.0) if limits else (0.0,)
    drawn = [
        _Drawn(_drawn_at(point), point.gap_lower, point.gap_upper, point.gap) for point in history
    ]
    y = Axis(*_axis_ends(drawn, lines), HEIGHT - _BOTTOM, _TOP)
    label = f"gap by {unit.removesuffix('s')} in points, with its interval"
    return _draw_history(drawn, marks, y, lines, label, unit)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Point of a chart: Unix time, value and interval; None where it is withheld."""

    at: float
    lower: float | None
    upper: float | None
    value: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)


def _drawn_at(point: HistoryPoint) -> float:
    """Return the Unix time at which a point is drawn: its span's end, else its day's start."""
    if point.ends_at is not None:
        return point.ends_at.timestamp()
    return datetime.combine(point.day, time(), UTC).timestamp()


def _axis_ends(drawn: Sequence[_Drawn], lines: Sequence[float]) -> tuple[float, float]:
    """Return both ends of an axis around values and lines, in multiples of 5 points."""
    values = [*lines, *(bound for point in drawn if point.interval for bound in point.interval)]
    values = values or [0.0, 1.0]
    low, high = math.floor(min(values) / _STEP) * _STEP, math.ceil(max(values) / _STEP) * _STEP
    return (low, high) if high - low >= 2 * _STEP else (low - _STEP, high + _STEP)


def _draw_history(  # noqa: PLR0917 - what is drawn, and what is said of it
    drawn: Sequence[_Drawn],
    marks: Sequence[Mark],
    y: Axis,
    lines: Sequence[float],
    label: str,
    unit: str = "days",
) -> Markup:
    """Return the chart of values over time, with limits and marks; empty without intervals."""
    if not any(point.interval for point in drawn):
        return Markup("")
    times = [point.at for point in drawn]
    first, last = min(times), max(times)
    x = Axis(first, last if last > first else first + _DAY, _LEFT, WIDTH - _RIGHT)
    parts = [*_y_ticks(y), *_x_ticks(x)]
    parts += [
        svg.line("limit" if level else "zero", _ACROSS, (y(level), y(level))) for level in lines
    ]
    for run in _runs_with_interval(drawn):
        parts += _band(run, x, y)
    parts += [_mark_line(mark, x) for mark in marks if first <= mark.at.timestamp() <= last]
    description = f"{label}; from {_date_text(first)} to {_date_text(last)}, {len(drawn)} {unit}"
    return svg.drawing(WIDTH, HEIGHT, description, parts, "history")


def _runs_with_interval(drawn: Sequence[_Drawn]) -> Iterator[list[_Drawn]]:
    """Yield the runs of successive points with an interval."""
    for has_interval, run in groupby(drawn, key=lambda point: point.interval is not None):
        if has_interval:
            yield list(run)


def _band(run: Sequence[_Drawn], x: Axis, y: Axis) -> Iterator[str]:
    """Yield the SVG of a run of points: band of their intervals, line and dots of their values."""
    edges = [(x(point.at), *map(y, point.interval)) for point in run if point.interval]
    if len(edges) == 1:  # alone, a band would have no width
        x_at, low, high = edges[0]
        yield svg.line("range", (x_at, x_at), (low, high))
    outline = [(x_at, high) for x_at, _, high in edges] + [
        (x_at, low) for x_at, low, _ in edges[::-1]
    ]
    yield svg.shape("polygon", "band", outline)
    valued = [(x(point.at), y(point.value)) for point in run if point.value is not None]
    yield svg.shape("polyline", "line", valued)
    yield from (svg.circle("dot", x_at, value, 2.5) for x_at, value in valued)


def _mark_line(mark: Mark, x: Axis) -> str:
    x_at = x(mark.at.timestamp())
    drawn = svg.line(f"event {mark.kind}", (x_at, x_at), (_TOP, HEIGHT - _BOTTOM))
    return svg.titled(drawn, mark.text)


def _y_ticks(y: Axis) -> Iterator[str]:
    """Yield SVG grid lines and labels in per cent, at multiples of 5 points."""
    first, last = round(y.first / _STEP), round(y.last / _STEP)
    spacing = next(n for n in (1, 2, 4, 5, 10, 20) if (last - first) / n < _TICKS)
    for number in range(-(-first // spacing) * spacing, last + 1, spacing):
        tick_y = y(number * _STEP)
        yield svg.line("grid", _ACROSS, (tick_y, tick_y))
        yield svg.text(_LEFT - 6, tick_y + 4, "end", f"{number * 5}")


def _x_ticks(x: Axis) -> Iterator[str]:
    ends = ((x.first, "start"), ((x.first + x.last) / 2, "middle"), (x.last, "end"))
    return (
        svg.text(x(time_at), HEIGHT - 6, anchor, _date_text(time_at)) for time_at, anchor in ends
    )


def _date_text(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def calibration(bands: Sequence[Band]) -> Markup:
    """Draw P(ready) by score band with its interval as SVG; hatched if too few were labelled."""
    if not bands:
        return Markup("")
    y = Axis(0.0, 1.0, HEIGHT - _BOTTOM, _TOP)
    step = (WIDTH - _LEFT - _RIGHT) / len(bands)
    parts = list(_y_ticks(y))
    for i, band in enumerate(bands):
        middle = svg.short(_LEFT + step * (i + 0.5))
        parts += _calibration_mark(band, middle, step, y)
        parts.append(svg.text(middle, HEIGHT - 6, "middle", band.band))
    descriptions = "; ".join(f"score {band.band}: {_rate_in_words(band)}" for band in bands)
    label = f"share of ready replies by score band: {descriptions}"
    return svg.drawing(WIDTH, HEIGHT, label, parts, "history")


def _rate_in_words(band: Band) -> str:
    if band.rate is None:
        return "too few labels"
    return bounded_rate_text(band.rate)


def _calibration_mark(band: Band, middle: float, step: float, y: Axis) -> Iterator[str]:
    """Yield the SVG of a score band: interval and dot, or a hatched bar if hidden."""
    rate = band.rate
    if rate is None or rate.lower is None or rate.upper is None:
        edges = svg.short(middle - step * 0.3), svg.short(middle + step * 0.3)
        yield svg.rect("hatch", edges, (_TOP, HEIGHT - _BOTTOM))
        return
    yield svg.line("range", (middle, middle), (y(rate.lower), y(rate.upper)))
    if rate.value is not None:
        yield svg.circle("dot", middle, y(rate.value), 4)
