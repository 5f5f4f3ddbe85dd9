"""SVG elements that charts are drawn with; every text is escaped, every number is rounded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup, escape


def short(number: float) -> float:
    """Round a coordinate to a tenth, to keep pages with a thousand charts small."""
    return round(number, 1)


@dataclass(frozen=True, slots=True)
class Axis:
    """Linear axis from values ``first`` to ``last`` to coordinates ``begin`` to ``end``."""

    first: float
    last: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the rounded coordinate of a value; values beyond the ends lie on the edges."""
        share = (value - self.first) / (self.last - self.first)
        return short(self.begin + (self.end - self.begin) * min(1.0, max(0.0, share)))


def line(kind: str, x: tuple[float, float], y: tuple[float, float]) -> str:
    """Return a ``<line>`` with CSS class ``kind``, between two x and two y coordinates."""
    return f'<line class="{kind}" x1="{x[0]}" x2="{x[1]}" y1="{y[0]}" y2="{y[1]}"/>'


def rect(kind: str, x: tuple[float, float], y: tuple[float, float]) -> str:
    """Return a ``<rect>`` with CSS class ``kind``, between two edges each way."""
    width, height = short(x[1] - x[0]), short(y[1] - y[0])
    return f'<rect class="{kind}" x="{x[0]}" y="{y[0]}" width="{width}" height="{height}"/>'


def circle(kind: str, x: float, y: float, radius: float) -> str:
    """Return a ``<circle>`` with CSS class ``kind``."""
    return f'<circle class="{kind}" cx="{x}" cy="{y}" r="{radius}"/>'


def diamond(kind: str, x: float, y: float, radius: float) -> str:
    """Return a diamond-shaped ``<path>`` with CSS class ``kind``, centred on (x, y)."""
    up, down, left, right = (
        short(corner) for corner in (y - radius, y + radius, x - radius, x + radius)
    )
    return f'<path class="{kind}" d="M{x} {up} L{right} {y} L{x} {down} L{left} {y} Z"/>'


def shape(name: str, kind: str, points: Iterable[tuple[float, float]]) -> str:
    """Return a ``<polyline>`` or ``<polygon>`` (``name``) with CSS class ``kind``."""
    joined = " ".join(f"{x},{y}" for x, y in points)
    return f'<{name} class="{kind}" points="{joined}"/>'


def text(x: float, y: float, anchor: str, content: str) -> str:
    """Return a ``<text>``, escaped, whose start, middle or end (``anchor``) is at ``x``."""
    return f'<text x="{x}" y="{short(y)}" text-anchor="{anchor}">{escape(content)}</text>'


def titled(body: str, title: str) -> str:
    """Wrap SVG elements in a group with a tooltip."""
    return f"<g>{body}<title>{escape(title)}</title></g>"


def drawing(width: int, height: int, label: str, parts: Iterable[str], kind: str) -> Markup:
    """Wrap parts in an ``<svg>`` with CSS class ``kind``; ``label`` describes the drawing."""
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    aria = f'role="img" aria-label="{escape(label)}"'
    body = "".join(parts)
    return Markup(f'<svg class="{kind}" {box} {aria}>{body}</svg>')  # noqa: S704 - escaped above


_TITLE = 20
"""Height of the title of a figure."""


def figure(size: tuple[int, int], title: str, description: str, parts: Iterable[str]) -> Markup:
    """Wrap the parts of a plot in an ``<svg>`` with a visible title and a description."""
    labels = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    head = text(0, 13, "start", title).replace("<text ", '<text class="name" ')
    body = f'<g transform="translate(0 {_TITLE})">{"".join(parts)}</g>'
    return drawing(size[0], size[1] + _TITLE, title, [labels, head, body], "plot")
