"""Puts the test files in the order in which they are likely to notice a change of a module.

Nothing is measured: only a whole run of the suite tells what each test runs. Imports tell nearly
as much, and a test that names the changed function comes before one that does not.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

SOURCES = ("monitor", "consumers", "alerts", "tests")
STEPS_BEHIND = {"unit": 0.0, "oracle": 0.0, "property": 0.5, "contract": 1.0, "privacy": 1.0}
"""Slow kinds of tests stand back by so many imports; all other kinds by two."""
SECONDS = 2.0
"""A test file takes at most about this long where durations.json does not have it."""


class Nearest:
    """Knows the imports and the texts of a checkout."""

    def __init__(self, root: Path) -> None:
        paths = sorted(path for name in SOURCES for path in (root / name).rglob("*.py"))
        self.texts = {path.relative_to(root).as_posix(): path.read_text() for path in paths}
        self._durations: dict[str, float] = json.loads((root / "tests/durations.json").read_text())
        modules = {name: file for file in self.texts for name in _names(file)}
        self._importers: dict[str, set[str]] = {file: set() for file in self.texts}
        for importer, text in self.texts.items():
            for module in imported_names(text) & modules.keys():
                self._importers[modules[module]].add(importer)

    def seconds(self, test: str) -> float:
        return self._durations.get(test, SECONDS)

    def order(self, file: str, function: str) -> list[str]:
        """Return the test files that import a module, nearest first, after its own doctests."""
        steps = self._steps(file)
        folder = f"tests/unit/{Path(file).parent.as_posix().removeprefix('monitor/')}/"

        def distance(test: str) -> tuple[float, float]:
            behind = STEPS_BEHIND.get(test.split("/")[1], 2.0)
            named = sum(word in self.texts[test] for word in function.split("."))
            named += 3 * test.endswith(f"/test_{Path(file).name}")
            return steps[test] + behind - test.startswith(folder) - named, self.seconds(test)

        doctests = [file] if ">>>" in self.texts[file] else []
        return doctests + sorted((name for name in steps if "/test_" in name), key=distance)

    def _steps(self, file: str) -> dict[str, int]:
        """Return each file that depends on a module, with the number of imports between them."""
        steps, reached = {file: 0}, [file]
        for name in reached:
            for importer in sorted(self._importers[name] - steps.keys()):
                steps[importer] = steps[name] + 1
                reached.append(importer)
        return steps


def _names(file: str) -> Iterator[str]:
    """Yield the names that import a file; modules for the tests alone go by short names, too."""
    parts = file.removesuffix(".py").removesuffix("/__init__").split("/")
    for first in range(len(parts) if parts[0] == "tests" else 1):
        yield ".".join(parts[first:])


def imported_names(text: str) -> set[str]:
    """Return the modules that a source imports, and the names from them, which may be modules."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names
