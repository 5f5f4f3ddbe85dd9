"""Drawings for printed sheets: CSS classes become attributes, in the colours of print.

WeasyPrint applies neither the page's style inside a drawing nor a pattern of another drawing.
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
    """CSS rule as SVG attributes, for an element name or for elements with all ``classes``."""

    element: str
    classes: frozenset[str]
    attributes: Mapping[str, str]


def for_sheets(page: str, style: str) -> str:
    """Return an HTML page with its drawings styled by attributes, as PDF sheets need them.

    Args:
        page: HTML.
        style: CSS of the page, with its print colours.
    """
    rules = tuple(_parse_rules(style))
    pattern = _PATTERN.search(page)
    shared = _painted(pattern[0], rules) if pattern else ""

    def drawn(drawing_match: re.Match[str]) -> str:
        drawing = _painted(drawing_match[0], rules)
        return drawing if "<defs>" in drawing else drawing.replace("</svg>", f"{shared}</svg>")

    return _DRAWING.sub(drawn, page)


def _painted(drawing: str, rules: tuple[_Rule, ...]) -> str:
    """Write the rules of the style sheet into the tags of a drawing, since a PDF has no CSS."""

    def painted(tag: re.Match[str]) -> str:
        classes = frozenset((tag[3] or "").split())
        attributes: dict[str, str] = {}
        for rule in rules:
            if rule.classes <= classes and rule.element in ("", tag[1]):
                attributes |= rule.attributes
        written = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
        return f"<{tag[1]}{written}{tag[2]}"

    return _TAG.sub(painted, drawing)


def _parse_rules(style: str) -> Iterator[_Rule]:
    """Yield a _Rule per selector of one element or of classes; skip rules for screens."""
    plain = _SCREEN.sub("", _COMMENT.sub("", style)).replace("@media print {", "")
    style_rules = _RULE.findall(plain)
    colours = {
        name: value
        for selector, body in style_rules
        if selector.strip() == ":root"
        for name, value in _declared(body)
    }
    for selectors, body in style_rules:
        attributes = {
            name: _COLOUR.sub(lambda variable: colours.get(variable[1], "#000"), value)
            for name, value in _declared(body)
            if name in _TAKEN
        }
        for selector in (
            (selector_text.strip() for selector_text in selectors.split(",")) if attributes else ()
        ):
            element = {"svg": "svg", "svg text": "text"}.get(selector, "")
            if element or _CLASSES.fullmatch(selector):
                yield _Rule(element, frozenset(selector.split(".")[1:]), attributes)


def _declared(body: str) -> Iterator[tuple[str, str]]:
    for declaration in body.split(";"):
        name, _, value = declaration.partition(":")
        if value:
            yield name.strip(), value.strip()
