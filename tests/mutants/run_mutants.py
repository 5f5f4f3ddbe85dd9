"""Runs the tests against the listed mutants and names the mutants that no test notices.

    PYTHONPATH=tests/support/drivers python tests/mutants/run_mutants.py --fast

A mutant is written into a copy of the checkout. One process imports the heavy libraries and forks
for each run of pytest. Results go to build/mutants.jsonl; a run goes on where the last one ended.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import shutil
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

import hypothesis
import leave_nothing
import pytest
from mutants import ROOT, Edit, Mutant, all_mutants, drawn, read_list, renewed, write_list
from nearest import Nearest

BUILD = ROOT / "build/mutants"
COPY, KILLER, OUTPUT = BUILD / "checkout", BUILD / "killer", BUILD / "output"
RESULTS = ROOT / "build/mutants.jsonl"
NUMBER = 200
HEAVY = ("numpy", "scipy.stats", "pandas", "sqlalchemy.dialects.sqlite", "statsmodels.api",
         "river.drift", "kafka", "prometheus_client", "starlette.applications")  # fmt: skip
SUITES = {"fast": ("not full", "0.33"), "full": ("full or hypothesis", "1"), "all": ("", "0.33")}
"""The tests and the share of examples of each suite; see Makefile."""
ONLY_FULL = ("mark.full", "@given", "postgresql")
"""A test file without any of these words has nothing to add in the full suite."""
TEST_SECONDS = 150
"""A test that takes longer hangs: the slowest of the fast ones take a minute."""
BATCHES = (10.0, 30.0, 60.0, 120.0)
"""Expected seconds of each run for one mutant: most mutants die in the first, small one."""


class FirstFailure:
    """Notes the first test that fails; failing examples are neither kept nor made smaller."""

    def __init__(self, tests: list[str]) -> None:
        self._places = {test: place for place, test in enumerate(tests)}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """The nearest file first again, after conftest.py has put the longest one first."""
        yield
        items.sort(key=lambda item: self._places.get(item.nodeid.partition("::")[0], 0))

    def pytest_sessionstart(self) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        default = hypothesis.settings.default
        hypothesis.settings.register_profile("mutants", default, phases=phases, database=None)
        hypothesis.settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and not KILLER.exists():
            KILLER.write_text(report.nodeid or "collection")


def killer(tests: list[str], suite: str, limit: float) -> str | None:
    """Return the test that fails in the copy, or None where all pass."""
    KILLER.unlink(missing_ok=True)
    if not (child := os.fork()):
        os._exit(_pytest(tests, suite))
    end, ended, status = time.monotonic() + limit, 0, 0
    while not ended and time.monotonic() < end:
        time.sleep(0.05)
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    leave_nothing.end_descendants()
    if KILLER.exists():
        return KILLER.read_text()
    code = os.waitstatus_to_exitcode(status) if ended else "time limit"
    passed = code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    return None if passed else f"exit code {code}, {' '.join(tests)}"


def _pytest(tests: list[str], suite: str) -> int:
    """Run tests in the copy, in a forked process, and return pytest's exit code."""
    marks, examples = SUITES[suite]
    os.setsid()  # tests send signals to their process group
    os.chdir(COPY)
    os.environ |= {"SLICEWATCH_EXAMPLES": examples, "PYTHONPATH": str(COPY)}
    sys.path[:] = [str(COPY), *(path for path in sys.path if not path.startswith(f"{ROOT}/tests"))]
    for name in ("mutants", "nearest", "leave_nothing"):
        del sys.modules[name]
    output = os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    options = ["-x", "-q", "-m", marks, f"--timeout={TEST_SECONDS}", "-p", "no:cacheprovider"]
    # The heavy libraries are imported before pytest could rewrite their asserts.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, *tests], plugins=[FirstFailure(tests)]))


def batches(tests: list[str], nearest: Nearest, budget: float) -> Iterator[list[str]]:
    """Yield tests in growing batches, until their expected seconds use up the budget."""
    sizes, batch, expected = [*BATCHES], list[str](), 0.0
    for test in tests:
        if budget > 0:
            batch.append(test)
            expected += nearest.seconds(test)
            budget -= nearest.seconds(test)
            if expected >= sizes[0] or budget <= 0:
                yield batch
                batch, expected, sizes = [], 0.0, sizes[1:] or sizes
    if batch:
        yield batch


def judge(mutant: Mutant, nearest: Nearest, suites: list[str], budget: float) -> dict[str, str]:
    """Return the suite and the test that kill the mutant in the copy, or that it survives."""
    for suite in suites:
        tests = nearest.order(mutant.file, mutant.function)
        tests = [test for test in tests if _belongs(nearest.texts[test], suite)]
        for batch in batches(tests, nearest, budget):
            limit = TEST_SECONDS + 6 * sum(map(nearest.seconds, batch))  # the machine may be busy
            if by := killer(batch, suite, limit):
                return {"outcome": f"killed {suite}", "by": by}
    return {"outcome": f"survived {suites[-1]}"}


def _belongs(text: str, suite: str) -> bool:
    """Return whether a test file has, or may have, tests of a suite."""
    if suite == "fast":
        return "pytestmark = pytest.mark.full" not in text
    return any(word in text for word in ONLY_FULL)


def attack(mutant: Mutant, edit: Edit, nearest: Nearest, options: argparse.Namespace) -> str:
    """Try a mutant in the copy, keep the result and return it as a line."""
    path, begun = COPY / mutant.file, time.monotonic()
    original, times = path.read_bytes(), path.stat()
    path.write_bytes(edit.apply(original))
    os.utime(path, (0, int(begun)))  # Python compiles a file anew by its time and size alone
    try:
        result = judge(
            mutant, nearest, ["fast"] if options.fast else ["fast", "full"], options.budget
        )
    finally:
        path.write_bytes(original)
        os.utime(path, (times.st_atime, times.st_mtime))
    result["seconds"] = f"{time.monotonic() - begun:.0f}"
    with RESULTS.open("a") as results:
        results.write(json.dumps({**asdict(mutant), **result}) + "\n")
    return f"{result['outcome']}, {result['seconds']} s: {result.get('by', mutant.after)}"


def results() -> dict[str, dict[str, str]]:
    """Return the last result of each mutant that was tried."""
    lines = map(json.loads, RESULTS.read_text().splitlines()) if RESULTS.exists() else ()
    names = ("file", "function", "before", "after")
    return {"\n".join(line[name] for name in names): line for line in lines}


def check(tests: set[str]) -> None:
    """Name each of the tests that fails without a mutant, too: it noticed nothing."""
    while tests and (wrong := killer(sorted(tests), "all", 3600)):
        say(f"fails without a mutant, too: {wrong}")
        tests -= {wrong} if wrong in tests else tests


def prepare() -> None:
    """Copy the checkout, import the heavy libraries, and take charge of all orphans."""
    shutil.rmtree(COPY, ignore_errors=True)
    left_out = shutil.ignore_patterns(".git", ".venv", "build", "dist", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, COPY, ignore=left_out)
    (COPY / ".venv").symlink_to(ROOT / ".venv")
    warnings.simplefilter("ignore")
    for name in HEAVY:
        importlib.import_module(name)
    warnings.resetwarnings()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(leave_nothing.PR_SET_CHILD_SUBREAPER, 1)


def renew(wanted_seed: int | None, mutants: list[Mutant]) -> list[Mutant]:
    """Return the list, drawn anew where lines are gone or another seed is wanted."""
    seed, listed = read_list()
    if wanted_seed not in (None, seed):
        seed, listed = wanted_seed, []
    fresh = renewed(listed, drawn(mutants, seed), NUMBER)
    for mutant in listed:
        if mutant not in fresh:
            say(f"gone: {mutant.file} {mutant.function}: {mutant.before}")
    write_list(seed, fresh)
    return fresh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="draw another list")
    parser.add_argument("--fast", action="store_true", help="leave out the tests marked full")
    parser.add_argument("--again", action="store_true", help="try the survivors once more")
    parser.add_argument("--report", action="store_true", help="try none, only sum up")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of tests, a suite")
    options = parser.parse_args()
    edits = {mutant.key: (mutant, edit) for mutant, edit in all_mutants().items()}
    listed = renew(options.seed, [mutant for mutant, _ in edits.values()])
    prepare()
    nearest, done = Nearest(COPY), results()
    for number, mutant in enumerate([] if options.report else listed, start=1):
        outcome = done.get(mutant.key, {}).get("outcome", "")
        if not mutant.equivalent and (not outcome or (options.again and "survived" in outcome)):
            line = attack(mutant, edits[mutant.key][1], nearest, options)
            say(f"{number}/{len(listed)} {mutant.file} {mutant.function} {line}")
    summary(listed)


def summary(listed: list[Mutant]) -> None:
    """Name the survivors and wrong killers, and say how many mutants had each outcome."""
    counts, done, killers = Counter[str](), results(), set()
    for mutant in listed:
        result = done.get(mutant.key, {"outcome": "not tried"})
        outcome = "equivalent" if mutant.equivalent else result["outcome"]
        counts[outcome] += 1
        killers |= {result["by"]} if "::" in result.get("by", "") else set()
        if "survived" in outcome:
            say(f"{outcome}: {mutant.file} {mutant.function}", mutant.before, mutant.after)
    check(killers)
    say(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))


def say(*lines: str) -> None:
    sys.stdout.write("\n  ".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
