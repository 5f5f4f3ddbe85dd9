"""Drawings for sheets: the classes of a page's drawings as attributes, in the colours of print.

WeasyPrint applies no style of the page inside a drawing, and no pattern of another drawing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SCREEN = re.compile(r"@media \((?:[^{}]|\{[^{}]*\})*\{(?:[^{}]|\{[^{}]*\})*\}", re.DOTALL)
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_CLASSES = re.compile(r"(?:\.[a-z]+)+")
_COLOUR = re.compile(r"var\((--\w+)\)")
_DRAWING = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
_TAG = re.compile(r'<([a-z]+)((?: class="([^"]*)")?)')
_PATTERN = re.compile(r"<defs>.*?</defs>", re.DOTALL)
_TAKEN = ("fill", "stroke", "stroke-width", "stroke-dasharray", "color", "opacity", "font-size")


@dataclass(frozen=True, slots=True)
class _Rule:
    """Attributes of what has all of some classes, or of an element of a name."""

    element: str
    classes: frozenset[str]
    attributes: Mapping[str, str]


def for_sheets(page: str, style: str) -> str:
    """A page with all of its drawings as sheets show them.

    Args:
        page: HTML.
        style: of the page, whose print colours are taken.
    """
    rules = tuple(_rules(style))
    pattern = _PATTERN.search(page)
    shared = _painted(pattern[0], rules) if pattern else ""

    def drawn(found: re.Match[str]) -> str:
        one = _painted(found[0], rules)
        return one if "<defs>" in one else one.replace("</svg>", f"{shared}</svg>")

    return _DRAWING.sub(drawn, page)


def _painted(drawing: str, rules: tuple[_Rule, ...]) -> str:
    def painted(tag: re.Match[str]) -> str:
        classes = frozenset((tag[3] or "").split())
        found: dict[str, str] = {}
        for rule in rules:
            if rule.classes <= classes and rule.element in ("", tag[1]):
                found |= rule.attributes
        written = "".join(f' {name}="{escape(value)}"' for name, value in found.items())
        return f"<{tag[1]}{written}{tag[2]}"

    return _TAG.sub(painted, drawing)


def _rules(style: str) -> Iterator[_Rule]:
    """Rules of one element or of classes; those of screens are left out."""
    plain = _SCREEN.sub("", _COMMENT.sub("", style)).replace("@media print {", "")
    found = _RULE.findall(plain)
    colours = {
        name: value
        for selector, body in found
        if selector.strip() == ":root"
        for name, value in _declared(body)
    }
    for selectors, body in found:
        attributes = {
            name: _COLOUR.sub(lambda var: colours.get(var[1], "#000"), value)
            for name, value in _declared(body)
            if name in _TAKEN
        }
        for selector in (one.strip() for one in selectors.split(",")) if attributes else ():
            element = {"svg": "svg", "svg text": "text"}.get(selector, "")
            if element or _CLASSES.fullmatch(selector):
                yield _Rule(element, frozenset(selector.split(".")[1:]), attributes)


def _declared(body: str) -> Iterator[tuple[str, str]]:
    for one in body.split(";"):
        name, _, value = one.partition(":")
        if value:
            yield name.strip(), value.strip()
