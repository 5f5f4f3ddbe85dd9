"""Heat map of a report: gaps of the intersections of two attributes.

It has a title and a description in words. Withheld values, and those with too little support, are
hatched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from monitor.core.publish.lines import Cell
from monitor.core.publish.words import gap_text, points
from monitor.core.state import State
from monitor.present import svg

WIDTH = 640
_NAME, _HEAD = 230, 24
_LONGEST_NAME = 30
_SMALLEST_LIMIT = 0.05
_STRONGEST = 0.55
_TOO_LITTLE = (State.SUPPRESSED, State.INSUFFICIENT_SUPPORT, State.MATURING)


def _name_label(name: str, x: float, y: float) -> str:
    short = _shortened(name, _LONGEST_NAME)
    text = svg.text(x, y, "end", short).replace("<text ", '<text class="name" ')
    return text if short == name else svg.titled(text, name)


def _shortened(name: str, length: int) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}\N{HORIZONTAL ELLIPSIS}"


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
        parts.append(_name_label(row, _NAME - 8, top + 18))
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
    """Return a cell of the heat map as SVG: coloured by gap and limit, or hatched."""
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
