"""Plots of a report: rates with intervals, calibration by slice, a heat map of intersections.

Each has a title and a description in words. What is withheld, or has too little support, is
hatched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from monitor.core.contract import State
from monitor.core.publish.lines import Cell
from monitor.core.publish.words import bounds, gap_text, points, rate_text
from monitor.drawing import svg
from monitor.drawing.charts import TONES, Band
from monitor.drawing.svg import Axis

WIDTH = 640
MOST_ROWS = 40
"""Slices of a plot of rates: more would not fit on a page."""
MOST_SERIES = 6
"""Slices of a plot of calibration: as many as can be told apart."""
_NAME, _ROW, _HEAD = 200, 22, 24
_LONGEST_NAME = 30
_HEIGHT, _LEFT, _FOOT = 260, 44, 24
_SMALLEST_LIMIT = 0.05
_STRONGEST = 0.55
_TOO_LITTLE = (State.SUPPRESSED, State.INSUFFICIENT_SUPPORT, State.MATURING)


def rates(title: str, cells: Sequence[tuple[str, Cell]]) -> Markup:
    """One rate of several slices with its interval; a shaded part is what the contract allows."""
    shown = cells[:MOST_ROWS]
    if not any(one.rate for _, one in shown):
        return Markup("")
    height = _HEAD + _ROW * len(shown) + 4
    x = Axis(0.0, 1.0, _NAME, WIDTH - 24)
    parts = [*_per_cent_axis(x, height)]
    for at, (name, one) in enumerate(shown):
        top = _HEAD + _ROW * at
        parts.append(_name(name, _NAME - 8, top + _ROW / 2 + 4, "end"))
        parts += _rate(one, x, top)
    said = "; ".join(f"{name}: {_said_rate(one)}" for name, one in shown)
    return svg.figure((WIDTH, height), title, said, parts)


def _per_cent_axis(x: Axis, height: int) -> Iterator[str]:
    for step in range(0, 101, 20):
        at = x(step / 100)
        yield svg.line("grid", (at, at), (_HEAD - 4, height))
        yield svg.text(at, 14, "middle", f"{step} %")


def _rate(one: Cell, x: Axis, top: float) -> Iterator[str]:
    rate, middle, edges = one.rate, top + _ROW / 2, (top + 4, top + _ROW - 4)
    if rate is None:
        yield svg.rect("hatch", (x(0.0), x(1.0)), edges)
        return
    if one.min_level is not None or one.max_level is not None:
        allowed = one.min_level or 0.0, 1.0 if one.max_level is None else one.max_level
        yield svg.rect("allowed", (x(allowed[0]), x(allowed[1])), edges)
    if rate.lower is None or rate.upper is None:
        return
    drawn = svg.line("range", (x(rate.lower), x(rate.upper)), (middle, middle))
    if rate.value is not None:
        mark = svg.diamond if TONES[one.state] == "bad" else svg.circle
        drawn += mark("mark", x(rate.value), middle, 5)
    yield f'<g class="{TONES[one.state]}">{drawn}</g>'


def _said_rate(one: Cell) -> str:
    if one.rate is None:
        return "hidden"
    return f"{rate_text(one.rate)} ({bounds(one.rate.lower, one.rate.upper)})"


def _name(name: str, x: float, y: float, anchor: str) -> str:
    short = (
        name
        if len(name) <= _LONGEST_NAME
        else f"{name[: _LONGEST_NAME - 1]}\N{HORIZONTAL ELLIPSIS}"
    )
    text = svg.text(x, y, anchor, short).replace("<text ", '<text class="name" ')
    return text if short == name else svg.titled(text, name)


def _shortened(name: str, length: int) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}\N{HORIZONTAL ELLIPSIS}"


def calibration(title: str, series: Sequence[tuple[str, Sequence[Band]]]) -> Markup:
    """P(ready) by score band with its interval, slices beside each other in each band."""
    drawn = [(name, bands) for name, bands in series if bands][:MOST_SERIES]
    if not drawn:
        return Markup("")
    bands = [one.band for one in drawn[0][1]]
    legend = _ROW * len(drawn)
    y = Axis(0.0, 1.0, _HEIGHT - _FOOT, 10)
    step = (WIDTH - _LEFT - 10) / len(bands)
    parts = list(_y_axis(y))
    for number, (name, its) in enumerate(drawn):
        offset = (number - (len(drawn) - 1) / 2) * min(16.0, 0.8 * step / len(drawn))
        at = [svg.short(_LEFT + step * (i + 0.5) + offset) for i in range(len(its))]
        parts.append(f'<g class="series-{number}">{"".join(_series(its, at, y, number))}')
        parts += [_mark(number, _LEFT + 6, _HEIGHT + _ROW * number + 12), "</g>"]
        parts.append(_name(name, _LEFT + 20, _HEIGHT + _ROW * number + 16, "start"))
    for i, band in enumerate(bands):
        parts.append(svg.text(svg.short(_LEFT + step * (i + 0.5)), _HEIGHT - 6, "middle", band))
    said = "; ".join(f"{name}: {_said_bands(its)}" for name, its in drawn)
    return svg.figure((WIDTH, _HEIGHT + legend + 6), title, said, parts)


def _y_axis(y: Axis) -> Iterator[str]:
    for step in range(0, 101, 20):
        at = y(step / 100)
        yield svg.line("grid", (_LEFT, WIDTH - 10), (at, at))
        yield svg.text(_LEFT - 6, at + 4, "end", f"{step} %")


def _series(its: Sequence[Band], at: Sequence[float], y: Axis, number: int) -> Iterator[str]:
    run: list[tuple[float, float]] = []
    for one, x in zip(its, at, strict=True):
        rate = one.rate
        if rate is not None and rate.lower is not None and rate.upper is not None:
            yield svg.line("range", (x, x), (y(rate.lower), y(rate.upper)))
        if rate is None or rate.value is None:
            yield _joined(run)
            run = []
        else:
            run.append((x, y(rate.value)))
            yield _mark(number, x, y(rate.value))
    yield _joined(run)


def _joined(run: Sequence[tuple[float, float]]) -> str:
    """A line through neighbours; none over a band of which no number is known."""
    return svg.shape("polyline", "line", run) if len(run) > 1 else ""


def _mark(number: int, x: float, y: float) -> str:
    """Circles and diamonds in turn, so that colour is not all that tells."""
    return (svg.diamond if number % 2 else svg.circle)("mark", svg.short(x), svg.short(y), 5)


def _said_bands(its: Sequence[Band]) -> str:
    return ", ".join(
        f"{one.band} {'too few labels' if one.rate is None else rate_text(one.rate)}" for one in its
    )


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[str, str], Cell]
) -> Markup:
    """Gaps of the intersections of two attributes: the darker, the further from the reference.

    Args:
        title: of the plot.
        rows: values of the one attribute.
        columns: values of the other one.
        cells: one rate of each intersection; what is missing is hatched as what is hidden is.
    """
    if not rows or not columns:
        return Markup("")
    width = min(120.0, (WIDTH - _NAME) / len(columns))
    parts = []
    for j, name in enumerate(columns):
        short = _shortened(name, max(3, int(width / 7)))
        parts.append(svg.titled(svg.text(_NAME + width * (j + 0.5), 14, "middle", short), name))
    for i, row in enumerate(rows):
        top = _HEAD + 28 * i
        parts.append(_name(row, _NAME - 8, top + 18, "end"))
        for j, column in enumerate(columns):
            left = _NAME + width * j
            edges = (svg.short(left + 1), svg.short(left + width - 1)), (top + 1.0, top + 27.0)
            parts.append(_heat(cells.get((row, column)), edges, f"{row}, {column}"))
    said = "; ".join(
        f"{row}, {column}: {_said_gap(cells.get((row, column)))}"
        for row in rows
        for column in columns
    )
    return svg.figure((WIDTH, _HEAD + 28 * len(rows) + 4), title, said, parts)


def _heat(
    one: Cell | None, edges: tuple[tuple[float, float], tuple[float, float]], name: str
) -> str:
    (left, right), (top, bottom) = edges
    title = f"{name}: {_said_gap(one)}"
    if one is None or one.gap is None or one.state in _TOO_LITTLE:
        return svg.titled(svg.rect("hatch", (left, right), (top, bottom)), title)
    value = one.gap.value
    ground = svg.rect("heat", (left, right), (top, bottom))
    if value is not None:
        scale = 2 * max(one.max_gap or 0.0, _SMALLEST_LIMIT)
        strength = svg.short(10 * _STRONGEST * min(1.0, abs(value) / scale)) / 10
        kind = "heat worse" if value > 0 else "heat better"
        colour = svg.rect(kind, (left, right), (top, bottom))
        ground += colour.replace("/>", f' fill-opacity="{strength:.2f}"/>')
    said = svg.text(svg.short((left + right) / 2), top + 17, "middle", points(value))
    text = said.replace("<text ", '<text class="name" ')
    return svg.titled(ground + text, title)


def _said_gap(one: Cell | None) -> str:
    if one is None or one.gap is None:
        return "hidden, or no comparison"
    if one.state in _TOO_LITTLE:
        return "too little support to judge"
    return f"gap {gap_text(one.gap)} points"
