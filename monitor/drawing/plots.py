"""Plots of a report: rates with intervals, calibration by slice, a heat map of intersections.

Each has a title and a description in words. Withheld values, and those with too little support,
are hatched.
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
"""Most slices in a plot of rates: more would not fit on a page."""
MOST_SERIES = 6
"""Most slices in a plot of calibration: more cannot be told apart."""
_NAME, _ROW, _HEAD = 230, 22, 24
_LONGEST_NAME = 30
_HEIGHT, _LEFT, _FOOT = 260, 44, 24
_SMALLEST_LIMIT = 0.05
_STRONGEST = 0.55
_TOO_LITTLE = (State.SUPPRESSED, State.INSUFFICIENT_SUPPORT, State.MATURING)


def rates(title: str, cells: Sequence[tuple[str, Cell]]) -> Markup:
    """Plot a rate of up to MOST_ROWS named cells with intervals and allowed ranges, as SVG."""
    shown = cells[:MOST_ROWS]
    if not any(cell.rate for _, cell in shown):
        return Markup("")
    height = _HEAD + _ROW * len(shown) + 4
    x = Axis(0.0, 1.0, _NAME, WIDTH - 24)
    parts = [*_per_cent_axis(x, height)]
    for row, (name, cell) in enumerate(shown):
        top = _HEAD + _ROW * row
        parts.append(_name_label(name, _NAME - 8, top + _ROW / 2 + 4, "end"))
        parts += _rate_bar(cell, x, top)
    description = "; ".join(f"{name}: {_rate_in_words(cell)}" for name, cell in shown)
    return svg.figure((WIDTH, height), title, description, parts)


def _per_cent_axis(x: Axis, height: int) -> Iterator[str]:
    for step in range(0, 101, 20):
        grid_x = x(step / 100)
        yield svg.line("grid", (grid_x, grid_x), (_HEAD - 4, height))
        yield svg.text(grid_x, 14, "middle", f"{step} %")


def _rate_bar(cell: Cell, x: Axis, top: float) -> Iterator[str]:
    rate, middle, edges = cell.rate, top + _ROW / 2, (top + 4, top + _ROW - 4)
    if rate is None:
        yield svg.rect("hatch", (x(0.0), x(1.0)), edges)
        return
    if cell.min_level is not None or cell.max_level is not None:
        allowed = cell.min_level or 0.0, 1.0 if cell.max_level is None else cell.max_level
        yield svg.rect("allowed", (x(allowed[0]), x(allowed[1])), edges)
    if rate.lower is None or rate.upper is None:
        return
    drawn = svg.line("range", (x(rate.lower), x(rate.upper)), (middle, middle))
    if rate.value is not None:
        mark = svg.diamond if TONES[cell.state] == "bad" else svg.circle
        drawn += mark("mark", x(rate.value), middle, 5)
    yield f'<g class="{TONES[cell.state]}">{drawn}</g>'


def _rate_in_words(cell: Cell) -> str:
    if cell.rate is None:
        return "hidden"
    return f"{rate_text(cell.rate)} ({bounds(cell.rate.lower, cell.rate.upper)})"


def _name_label(name: str, x: float, y: float, anchor: str) -> str:
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
    """Plot P(ready) by score band as SVG, with up to MOST_SERIES slices side by side."""
    drawn = [(name, bands) for name, bands in series if bands][:MOST_SERIES]
    if not drawn:
        return Markup("")
    bands = [score_band.band for score_band in drawn[0][1]]
    legend = _ROW * len(drawn)
    y = Axis(0.0, 1.0, _HEIGHT - _FOOT, 10)
    step = (WIDTH - _LEFT - 10) / len(bands)
    parts = list(_y_axis(y))
    for number, (name, slice_bands) in enumerate(drawn):
        offset = (number - (len(drawn) - 1) / 2) * min(16.0, 0.8 * step / len(drawn))
        xs = [svg.short(_LEFT + step * (i + 0.5) + offset) for i in range(len(slice_bands))]
        parts.append(f'<g class="series-{number}">{"".join(_series(slice_bands, xs, y, number))}')
        parts += [_series_mark(number, _LEFT + 6, _HEIGHT + _ROW * number + 12), "</g>"]
        parts.append(_name_label(name, _LEFT + 20, _HEIGHT + _ROW * number + 16, "start"))
    for i, band in enumerate(bands):
        parts.append(svg.text(svg.short(_LEFT + step * (i + 0.5)), _HEIGHT - 6, "middle", band))
    description = "; ".join(
        f"{name}: {_bands_in_words(slice_bands)}" for name, slice_bands in drawn
    )
    return svg.figure((WIDTH, _HEIGHT + legend + 6), title, description, parts)


def _y_axis(y: Axis) -> Iterator[str]:
    for step in range(0, 101, 20):
        grid_y = y(step / 100)
        yield svg.line("grid", (_LEFT, WIDTH - 10), (grid_y, grid_y))
        yield svg.text(_LEFT - 6, grid_y + 4, "end", f"{step} %")


def _series(bands: Sequence[Band], xs: Sequence[float], y: Axis, number: int) -> Iterator[str]:
    run: list[tuple[float, float]] = []
    for band, x in zip(bands, xs, strict=True):
        rate = band.rate
        if rate is not None and rate.lower is not None and rate.upper is not None:
            yield svg.line("range", (x, x), (y(rate.lower), y(rate.upper)))
        if rate is None or rate.value is None:
            yield _line_through(run)
            run = []
        else:
            run.append((x, y(rate.value)))
            yield _series_mark(number, x, y(rate.value))
    yield _line_through(run)


def _line_through(run: Sequence[tuple[float, float]]) -> str:
    """Return an SVG line through the points; empty for fewer than two."""
    return svg.shape("polyline", "line", run) if len(run) > 1 else ""


def _series_mark(number: int, x: float, y: float) -> str:
    """Return an SVG circle, or a diamond for odd series, so that not only colour differs."""
    return (svg.diamond if number % 2 else svg.circle)("mark", svg.short(x), svg.short(y), 5)


def _bands_in_words(bands: Sequence[Band]) -> str:
    return ", ".join(
        f"{band.band} {'too few labels' if band.rate is None else rate_text(band.rate)}"
        for band in bands
    )


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[str, str], Cell]
) -> Markup:
    """Plot gaps of two attributes' intersections as an SVG grid, darker for larger gaps.

    Args:
        title: title of the plot.
        rows: values of the first attribute.
        columns: values of the second attribute.
        cells: one rate of each intersection; missing and hidden intersections are hatched.
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
        parts.append(_name_label(row, _NAME - 8, top + 18, "end"))
        for j, column in enumerate(columns):
            left = _NAME + width * j
            edges = (svg.short(left + 1), svg.short(left + width - 1)), (top + 1.0, top + 27.0)
            parts.append(_heat_cell(cells.get((row, column)), edges, f"{row}, {column}"))
    description = "; ".join(
        f"{row}, {column}: {_gap_in_words(cells.get((row, column)))}"
        for row in rows
        for column in columns
    )
    return svg.figure((WIDTH, _HEAD + 28 * len(rows) + 4), title, description, parts)


def _heat_cell(
    cell: Cell | None, edges: tuple[tuple[float, float], tuple[float, float]], name: str
) -> str:
    (left, right), (top, bottom) = edges
    title = f"{name}: {_gap_in_words(cell)}"
    if cell is None or cell.gap is None or cell.state in _TOO_LITTLE:
        return svg.titled(svg.rect("hatch", (left, right), (top, bottom)), title)
    value = cell.gap.value
    ground = svg.rect("heat", (left, right), (top, bottom))
    if value is not None:
        scale = 2 * max(cell.max_gap or 0.0, _SMALLEST_LIMIT)
        strength = svg.short(10 * _STRONGEST * min(1.0, abs(value) / scale)) / 10
        kind = "heat worse" if value > 0 else "heat better"
        colour = svg.rect(kind, (left, right), (top, bottom))
        ground += colour.replace("/>", f' fill-opacity="{strength:.2f}"/>')
    label = svg.text(svg.short((left + right) / 2), top + 17, "middle", points(value))
    text = label.replace("<text ", '<text class="name" ')
    return svg.titled(ground + text, title)


def _gap_in_words(cell: Cell | None) -> str:
    if cell is None or cell.gap is None:
        return "hidden, or no comparison"
    if cell.state in _TOO_LITTLE:
        return "not enough data yet"
    return f"gap {gap_text(cell.gap)} points"
