"""Draws mutants of the product: small wrong edits, each of which a test ought to notice.

The list in ``mutants.json`` names a mutant by file, function and the lines before and after, so
edits elsewhere leave it alone. The order of a draw comes from a hash of seed and name: where a
listed line is gone, the next mutant in the same order takes its place.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutants.json")
PACKAGES = ("monitor/core", "monitor/detection", "consumers")
LEFT_OUT = re.compile(r"release_?block|merge_?map|exchange|core/privacy", re.IGNORECASE)
"""Code about to be removed: tests for it would go with it."""
LOGS = {"log", "_log", "logger"}

SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
NOT_RUN = {"annotation", "returns", "decorator_list", "msg", "exc"}
"""Fields of a syntax tree without behaviour of their own: types, decorators, texts of errors."""
Node = ast.expr | ast.stmt


@dataclass(frozen=True)
class Mutant:
    """A wrong edit of one function; ``equivalent`` says why no test can notice it."""

    file: str
    function: str
    kind: str
    before: str
    after: str
    equivalent: str = ""

    @property
    def key(self) -> str:
        return "\n".join((self.file, self.function, self.before, self.after))


@dataclass(frozen=True)
class Edit:
    """The bytes from ``start`` to ``end`` of a file are replaced by ``text``."""

    kind: str
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def lines(self, source: bytes) -> tuple[str, str]:
        """Return the edited lines before and after, without their line breaks."""
        first = source.rfind(b"\n", 0, self.start) + 1
        rest = len(source) - source.find(b"\n", self.end)
        before, after = (code[first:-rest].decode() for code in (source, self.apply(source)))
        return " ".join(before.split()), " ".join(after.split())


class _File:
    """Finds the edits of one file."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._line_starts = [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]

    def edits(self, node: ast.AST, scope: str = "") -> Iterator[tuple[str, Edit]]:
        """Yield each edit at or below a node with the name of its function or class."""
        if isinstance(node, DEFINITIONS):
            scope = f"{scope}.{node.name}".lstrip(".")
        yield from ((scope or "<module>", edit) for edit in self._edits_of(node))
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if name not in NOT_RUN and isinstance(child, ast.AST) and not self._skipped(child):
                    yield from self.edits(child, scope)

    def _skipped(self, node: ast.AST) -> bool:
        match node:
            case ast.FunctionDef(name="__repr__") | ast.JoinedStr() | ast.keyword(arg="strict"):
                return True
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return True
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
                return name in LOGS
        return isinstance(node, DEFINITIONS) and bool(LEFT_OUT.search(self._text(node)))

    def _edits_of(self, node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.Compare(left=left, ops=operators, comparators=right):
                for first, operator, second in zip([left, *right], operators, right, strict=False):
                    yield from self._swapped("comparison", first, operator, second)
            case ast.BinOp(op=ast.Add() | ast.Sub() as operator, left=first, right=second):
                yield from self._swapped("+/-", first, operator, second)
            case ast.AugAssign(op=ast.Add() | ast.Sub() as operator, target=first, value=second):
                yield from self._swapped("+/-", first, operator, second)
            case ast.BoolOp(op=operator, values=[first, second, *_]):
                yield from self._swapped("and/or", first, operator, second)
            case ast.UnaryOp(op=ast.Not()):
                yield Edit("not removed", self._start(node), self._start(node) + len("not "), "")
            case ast.Constant(value=bool() | int() | float() as value):
                changed = not value if isinstance(value, bool) else value + 1
                yield self._replaced("constant", node, repr(changed))
            case ast.Call(func=ast.Name(id="min" | "max" as name)):
                yield self._replaced("min/max", node.func, {"min": "max", "max": "min"}[name])
            case ast.Return(value=ast.expr() as result) if self._text(result) != "None":
                yield self._replaced("return value", result, "None")
            case ast.If(test=test) | ast.IfExp(test=test):
                yield self._replaced("branch", test, f"not ({self._text(test)})")
        match node:
            case (
                ast.Expr(value=ast.Call()) | ast.Raise() | ast.AugAssign() | ast.Continue()
                | ast.Break() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
            ):  # fmt: skip
                yield self._replaced("statement", node, "pass")

    def _swapped(self, kind: str, first: Node, operator: ast.AST, second: Node) -> Iterator[Edit]:
        """Yield the edit of the operator between two operands, unless it joins texts."""
        word, swapped = SWAPS[type(operator)]
        gap = self.source[self._end(first) : self._start(second)].decode()
        if "#" not in gap and not (word in "+-" and (_is_text(first) or _is_text(second))):
            start = self._end(first) + gap.index(word)
            yield Edit(kind, start, start + len(word), swapped)

    def _replaced(self, kind: str, node: Node, text: str) -> Edit:
        return Edit(kind, self._start(node), self._end(node), text)

    def _text(self, node: Node) -> str:
        return self.source[self._start(node) : self._end(node)].decode()

    def _start(self, node: Node) -> int:
        return self._line_starts[node.lineno - 1] + node.col_offset

    def _end(self, node: Node) -> int:
        return self._line_starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)


def _is_text(node: Node) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)


def mutants_of(source: bytes, file: str) -> dict[Mutant, Edit]:
    """Return the mutants of a file; of equal lines in one function the first is taken."""
    mutants: dict[Mutant, Edit] = {}
    for function, edit in _File(source).edits(ast.parse(source)):
        mutants.setdefault(Mutant(file, function, edit.kind, *edit.lines(source)), edit)
    return mutants


def all_mutants(root: Path = ROOT) -> dict[Mutant, Edit]:
    """Return every mutant of the packages."""
    mutants: dict[Mutant, Edit] = {}
    for path in sorted(path for name in PACKAGES for path in (root / name).rglob("*.py")):
        if not LEFT_OUT.search(file := path.relative_to(root).as_posix()):
            mutants |= mutants_of(path.read_bytes(), file)
    return mutants


def drawn(mutants: Iterable[Mutant], seed: int) -> list[Mutant]:
    """Return the mutants in the order of a seed, the kinds in turn: most lines are returns."""

    def rank(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed}\n{mutant.key}".encode()).hexdigest()

    by_kind: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in sorted(mutants, key=rank):
        by_kind[mutant.kind].append(mutant)
    turns = itertools.zip_longest(*(by_kind[kind] for kind in sorted(by_kind)))
    return [mutant for turn in turns for mutant in turn if mutant]


def renewed(listed: list[Mutant], order: list[Mutant], number: int) -> list[Mutant]:
    """Return the listed mutants that still exist, filled up with the next of a draw."""
    there, taken = ({mutant.key for mutant in mutants} for mutants in (order, listed))
    kept = [mutant for mutant in listed if mutant.key in there]
    added = [mutant for mutant in order if mutant.key not in taken]
    return [*kept, *added[: max(0, number - len(kept))]]


def read_list(path: Path = LIST) -> tuple[int, list[Mutant]]:
    """Return the seed and the mutants of the kept list."""
    kept = json.loads(path.read_text())
    return kept["seed"], [Mutant(**mutant) for mutant in kept["mutants"]]


def write_list(seed: int, mutants: list[Mutant], path: Path = LIST) -> None:
    """Write the list, a mutant a line."""
    facts = [{name: text for name, text in asdict(mutant).items() if text} for mutant in mutants]
    lines = ",\n".join(map(json.dumps, facts))
    path.write_text(f'{{"seed": {seed}, "mutants": [\n{lines}\n]}}\n')
