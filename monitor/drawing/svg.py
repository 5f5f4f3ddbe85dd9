"""SVG elements that charts are drawn with; every text is escaped, every number is rounded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup, escape


def short(number: float) -> float:
    """Round a coordinate to a tenth of a unit, since a page may have a thousand charts."""
    return round(number, 1)


@dataclass(frozen=True, slots=True)
class Axis:
    """Linear axis: maps ``first`` to ``last`` to two edges; values beyond lie on the edges."""

    first: float
    last: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value."""
        share = (value - self.first) / (self.last - self.first)
        return short(self.begin + (self.end - self.begin) * min(1.0, max(0.0, share)))


def line(kind: str, x: tuple[float, float], y: tuple[float, float]) -> str:
    """Return a straight line of a class."""
    return f'<line class="{kind}" x1="{x[0]}" x2="{x[1]}" y1="{y[0]}" y2="{y[1]}"/>'


def rect(kind: str, x: tuple[float, float], y: tuple[float, float]) -> str:
    """Return a rectangle of a class, between two edges each way."""
    width, height = short(x[1] - x[0]), short(y[1] - y[0])
    return f'<rect class="{kind}" x="{x[0]}" y="{y[0]}" width="{width}" height="{height}"/>'


def circle(kind: str, x: float, y: float, radius: float) -> str:
    """Return a circle of a class."""
    return f'<circle class="{kind}" cx="{x}" cy="{y}" r="{radius}"/>'


def diamond(kind: str, x: float, y: float, radius: float) -> str:
    """Return a diamond of a class."""
    up, down, left, right = (
        short(corner) for corner in (y - radius, y + radius, x - radius, x + radius)
    )
    return f'<path class="{kind}" d="M{x} {up} L{right} {y} L{x} {down} L{left} {y} Z"/>'


def shape(name: str, kind: str, points: Iterable[tuple[float, float]]) -> str:
    """Return a ``polyline`` or ``polygon`` of a class."""
    joined = " ".join(f"{x},{y}" for x, y in points)
    return f'<{name} class="{kind}" points="{joined}"/>'


def text(x: float, y: float, anchor: str, content: str) -> str:
    """Return a text at its start, middle or end."""
    return f'<text x="{x}" y="{short(y)}" text-anchor="{anchor}">{escape(content)}</text>'


def titled(body: str, title: str) -> str:
    """Return a part with a tooltip."""
    return f"<g>{body}<title>{escape(title)}</title></g>"


def drawing(width: int, height: int, label: str, parts: Iterable[str], kind: str) -> Markup:
    """Return a chart; ``label`` describes it in words."""
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    aria = f'role="img" aria-label="{escape(label)}"'
    body = "".join(parts)
    return Markup(f'<svg class="{kind}" {box} {aria}>{body}</svg>')  # noqa: S704 - escaped above


_TITLE = 20
"""Height of the title of a figure."""


def figure(size: tuple[int, int], title: str, description: str, parts: Iterable[str]) -> Markup:
    """Return a plot below its title, with a description of everything it shows."""
    labels = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    head = text(0, 13, "start", title).replace("<text ", '<text class="name" ')
    body = f'<g transform="translate(0 {_TITLE})">{"".join(parts)}</g>'
    return drawing(size[0], size[1] + _TITLE, title, [labels, head, body], "plot")
