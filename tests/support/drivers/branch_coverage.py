"""Branch coverage of the product by the tests of this run, a line a package at the end.

Measured where the environment has ``BRANCH_COVERAGE=1`` when this module is imported, which must
happen before the product is: ``conftest.py`` does. Each process of pytest measures what
runs in it; what the tests start as processes of their own is not in the figures. Slipcover puts
probes into the code and takes them out again once they were hit, so that the run is hardly slower;
a tracing tool makes it two times as slow on Python 3.11.

To take them out it looks through all functions of the product, each time that a probe was hit too
often since. Many hits are cheaper than many such searches.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from slipcover import FileMatcher, ImportManager, Slipcover, merge_coverage
from slipcover.importer import SlipcoverMetaPathFinder

ROOT = Path(__file__).parents[3]
PRODUCT = ("monitor", "consumers", "alerts")


def _path(variable: str) -> Path | None:
    """Return the path that an environment variable names, or None where it is not set."""
    name = os.environ.get(variable)
    return Path(name) if name else None


KEY = "branch coverage"
HITS = 5000
"""Of one probe, until all that were hit are taken out."""


KEEP = _path("BRANCH_COVERAGE_KEEP")
"""Where the figures are written, for a later run to go on with."""
EARLIER = _path("BRANCH_COVERAGE_GO_ON")
"""Figures of an earlier run, which are added to this one's."""
KINDS = ("executed_lines", "missing_lines", "executed_branches", "missing_branches")


class BranchCoverage:
    """Measures from its making on; a pytest plugin that adds up all workers and prints."""

    def __init__(self) -> None:
        sources = [ROOT / name for name in PRODUCT]
        self._measured = Slipcover(branch=True, d_miss_threshold=HITS)
        matcher = FileMatcher(sources=sources, omit=["*/migrations/*"])
        ImportManager(self._measured, matcher).__enter__()
        self._workers: list[dict[str, Any]] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker measured; a worker that crashed has nothing to give."""
        self._workers.extend(getattr(node, "workeroutput", {}).get(KEY, ()))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[KEY] = [_plain(self._measured.get_coverage())]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        merged = self._measured.get_coverage()
        for measured in (*self._workers, *self._earlier()):
            merge_coverage(merged, measured)
        if KEEP:
            KEEP.parent.mkdir(exist_ok=True)
            KEEP.write_text(json.dumps(_plain(merged)))
        terminalreporter.section("branch coverage, without processes that tests start")
        for line in table(merged["files"]):
            terminalreporter.write_line(line)

    def _earlier(self) -> list[dict[str, Any]]:
        """Return what the run before this one measured, where this one goes on with it."""
        return [json.loads(EARLIER.read_text())] if EARLIER and EARLIER.exists() else []


def _plain(coverage: dict[str, Any]) -> dict[str, Any]:
    """The coverage with nothing but what passes from a worker to the controller."""
    files = {
        name: {kind: [[*x] if isinstance(x, tuple) else x for x in found[kind]] for kind in KINDS}
        for name, found in coverage["files"].items()
    }
    meta = {name: coverage["meta"][name] for name in ("software", "branch_coverage")}
    return {"meta": meta, "files": files}


def table(files: dict[str, dict[str, list[Any]]]) -> list[str]:
    """One line for each package, and one for all: shares of lines and branches that were run."""
    packages: dict[str, Counter[str]] = {}
    for path, found in files.items():
        name = Path(path).parent.as_posix()
        for package in (name, "all"):
            counted = packages.setdefault(package, Counter())
            counted.update({kind: len(found[kind]) for kind in KINDS})
    width = max(map(len, packages), default=0)
    return [
        f"{name:{width}}  lines {_share(one, 'lines')}  branches {_share(one, 'branches')}"
        for name, one in sorted(packages.items(), key=lambda item: (item[0] == "all", item[0]))
    ]


def _share(counted: Counter[str], kind: str) -> str:
    run, missed = counted[f"executed_{kind}"], counted[f"missing_{kind}"]
    return f"{100 * run / (run + missed):5.1f} % of {run + missed:5}" if run + missed else "   none"


def _begun() -> bool:
    """Whether another copy of this module measures.

    Pytest imports it a second time, under another name, to look for examples. What the product
    loaded from then on was measured for that copy, whom nobody asks: two packages were missing.
    """
    return any(isinstance(one, SlipcoverMetaPathFinder) for one in sys.meta_path)


WANTED = os.environ.get("BRANCH_COVERAGE") == "1"
MEASURED = BranchCoverage() if WANTED and not _begun() else None
