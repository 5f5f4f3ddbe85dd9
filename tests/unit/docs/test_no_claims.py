"""No text that anybody reads claims that a system is fair, unbiased, compliant or certified.

Searched are all documents, all that is rendered for Prometheus, Alertmanager and Grafana, the
templates of pages and reports, the help of every command, and every text in the program that is no
docstring, which is what pages, reports, alerts, commands and errors are made of.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from monitor.cli import cli

ROOT = Path(__file__).parents[3]
CLAIM = re.compile(
    r"\b(?:is|are|was|were|be|been|being|proven|provably|demonstrably|now)\s+"
    r"(?:not\s+|fully\s+|therefore\s+)?"
    r"(?:fair|unfair|unbiased|biased|compliant|certified|non-discriminatory|discriminatory)\b"
    r"|\b(?:unbiased|compliant|certified)\b"
    r"|\b(?:free (?:of|from)|without any|no) (?:bias|discrimination)\b"
    r"|\b(?:complies|comply|compliance) with (?:the )?(?:GDPR|AI Act|law|regulation)"
    r"|\b(?:certifies|guarantees|ensures|proves) (?:that .{0,40})?(?:fairness|compliance)\b",
    re.IGNORECASE,
)
PROGRAM = ("monitor", "consumers", "alerts")
RENDERED = ("*.md", "*.yml", "*.yaml", "*.json", "*.toml", "*.j2", "*.css", "*.sql", "*.svg")


def files() -> list[Path]:
    """Documents, and everything that is rendered or that is rendered from."""
    places = [ROOT / "deploy", *(ROOT / name for name in PROGRAM)]
    found = {one for place in places for form in RENDERED for one in place.rglob(form)}
    return sorted(found | set(ROOT.glob("*.md")))


def helps(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """The help of a command and of all below it."""
    context = click.Context(command, info_name=name)
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from helps(found, f"{name} {below}")


def texts(path: Path) -> Iterator[str]:
    """The texts of a module but for its docstrings, which nobody is shown."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


@pytest.mark.parametrize("path", files(), ids=lambda one: str(one.relative_to(ROOT)))
def test_no_document_and_nothing_rendered_claims_it(path: Path) -> None:
    text = " ".join(path.read_text(encoding="utf-8").split())
    assert CLAIM.findall(text) == []


def test_no_command_claims_it_in_its_help() -> None:
    found = dict(helps(cli, "slicewatch"))
    assert len(found) > 20
    assert [name for name, text in found.items() if CLAIM.search(" ".join(text.split()))] == []


def test_no_text_of_the_program_claims_it() -> None:
    looked = 0
    for place in PROGRAM:
        for path in sorted((ROOT / place).rglob("*.py")):
            for text in texts(path):
                looked += 1
                assert not CLAIM.search(" ".join(text.split())), (path.name, text)
    assert looked > 10_000
