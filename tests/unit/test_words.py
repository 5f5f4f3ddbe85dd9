"""Names and docstrings say what they mean, and the code does not grow.

The limits are what was reached; they only go down. A counter is no reader: a name may be a noun and
still say nothing. But a reader stumbles over every word that the counter finds.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("monitor", "consumers", "alerts")
MOST_LINES = 51_481
MOST_VAGUE_NAMES, MOST_WITHOUT_SUBJECT, MOST_CALLED_OF = 15, 0, 1
VAGUE = re.compile(r"one|some|its|others?|found|known|mine|these|those|beside|here|stands?")
WITHOUT_SUBJECT = re.compile(
    r"(those|one|that|the same|it|they|some|all|as|others?|which|both|each|none|its?|their|he|such"
    r"|so|now|then|also|never|only|what|whether|how|where|who|when|of|in|from|with|for|to|at|on|by"
    r"|if|up)\b",
    re.IGNORECASE,
)
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
Place = tuple[str, int, str]


@cache
def sources() -> dict[str, str]:
    """Return the text of every module that is shipped, by its path."""
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted(paths)}


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    return [(path, node) for path, text in sources().items() for node in ast.walk(ast.parse(text))]


def vague_names() -> Iterator[Place]:
    for path, node in nodes():
        if isinstance(node, ast.Name) and VAGUE.fullmatch(node.id):
            yield path, node.lineno, node.id


def docstrings_without_subject() -> Iterator[Place]:
    for path, node in nodes():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            docstring = ast.get_docstring(node) or ""
            if WITHOUT_SUBJECT.match(docstring):
                yield path, getattr(node, "lineno", 1), docstring.splitlines()[0]


def functions_called_of() -> Iterator[Place]:
    for path, node in nodes():
        if isinstance(node, ast.FunctionDef) and node.name == "of":
            yield path, node.lineno, "def of"


def lines_of_code(text: str) -> int:
    """Count the lines with code: no comments, no blank lines, no docstrings.

    Example:
        >>> lines_of_code('def half(n):\\n    "Halve n."\\n\\n    # why\\n    return n // 2\\n')
        2
    """
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {
        line
        for token in tokens
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


@pytest.mark.parametrize(
    ("places", "most"),
    [
        (vague_names, MOST_VAGUE_NAMES),
        (docstrings_without_subject, MOST_WITHOUT_SUBJECT),
        (functions_called_of, MOST_CALLED_OF),
    ],
)
def test_no_more_words_that_say_nothing(places: Callable[[], Iterator[Place]], most: int) -> None:
    stumbles = [f"{path}:{line}: {words}" for path, line, words in places()]
    assert len(stumbles) <= most, "\n".join(stumbles)


def test_the_code_does_not_grow() -> None:
    assert sum(map(lines_of_code, sources().values())) <= MOST_LINES
