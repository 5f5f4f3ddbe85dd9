"""Runbooks as pages: the Markdown that ``slicewatch render`` writes, as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable

from markupsafe import Markup, escape

_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*")
_TAGS = ("code", "strong", "em")
_ITEM = re.compile(r"^(?:- |\d\. )")


def list_html(names: Iterable[str]) -> Markup:
    """Return links to all runbooks, as HTML."""
    links = (Markup('<li><a href="/runbooks/{0}">{0}</a></li>').format(name) for name in names)
    return Markup("<h1>Runbooks</h1>\n<ul>\n{}\n</ul>").format(Markup("\n").join(links))


def to_html(text: str) -> Markup:
    r"""Return Markdown of our own runbooks as HTML; a section's id is its heading.

    Example:
        >>> print(to_html("## drift\n\nFirst: run `slicewatch db status`."))
        <h2 id="drift">drift</h2>
        <p>First: run <code>slicewatch db status</code>.</p>
    """
    return Markup("\n").join(_block(block) for block in re.split(r"\n{2,}", text.strip()))


def _block(block: str) -> Markup:
    """Return a Markdown block as HTML: heading, list, code or paragraph."""
    marks, _, title = block.partition(" ")
    if block.startswith("```"):
        return Markup("<pre><code>{}</code></pre>").format("\n".join(block.splitlines()[1:-1]))
    if set(marks) == {"#"}:
        return Markup('<h{0} id="{1}">{1}</h{0}>').format(len(marks), title)
    if _ITEM.match(block):
        tag = "ul" if block.startswith("- ") else "ol"
        items = (_inline(_ITEM.sub("", line)) for line in block.splitlines())
        listed = Markup("").join(Markup("<li>{}</li>").format(item) for item in items)
        return Markup("<{0}>{1}</{0}>").format(tag, listed)
    return Markup("<p>{}</p>").format(_inline(block))


def _inline(text: str) -> Markup:
    def tagged(match: re.Match[str]) -> str:
        tag = _TAGS[(match.lastindex or 1) - 1]
        return f"<{tag}>{match[match.lastindex or 1]}</{tag}>"

    return Markup(_INLINE.sub(tagged, str(escape(text))))  # noqa: S704 - escaped above
