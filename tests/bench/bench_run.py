"""``slicewatch run`` as a user starts it, beside what else reads the same events, in one run.

Every row is a process of its own, measured from its start: the service until everything that it
read is published, the others until they end. Ratios are of CPU seconds, of all threads, so that a
second core or a busy machine flatters nobody. Rounds are interleaved, and the cheapest of each
reader counts. ``make bench FOR=run`` measures all and keeps it in results/;
``ARGS="--small --check"`` is what the gate runs: fewer events, compared with results/small.json.
``ARGS=--profile`` says where the CPU of the service goes.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys

from common import Report
from kafka_broker import missing_tools
from results import keep, kept
from run_rows import Table
from run_topics import CLIENTS, Bench, Scope, opened

DECISIONS, SMALL = 500_000, 120_000
ROUNDS = 2
RAW_TIMES = 5
"""The bare client is done in a moment, and what all ratios are of is to be steady."""
TRIES = 3
"""A reader that is below what the docs say is measured so often before that is believed."""
TOLERANCE = 0.20


def measure(bench: Bench, table: Table, scope: Scope) -> None:
    """All readers in turn, round by round."""
    for _ in range(scope.rounds):
        for client in scope.clients:
            for load in bench.loads.values():
                for _ in range(RAW_TIMES):
                    table.add(bench.raw(client, load))
                table.add(bench.slicewatch(client, load))
        if scope.beside:
            table.add(bench.script())
            table.add(bench.replay())
            for library in ("polars", "duckdb"):
                if importlib.util.find_spec(library):
                    table.add(bench.batch(library))


def check(bench: Bench, table: Table) -> list[str]:
    """What is more than :data:`TOLERANCE` below what the docs say, measured several times.

    A service that waited for a core longer than it ran is no witness: meanwhile its idle threads
    and its cycles went on, which is CPU that the bare client does not have.
    """
    said = {
        (row["client"], row["load"]): float(row["ratio_running"])
        for row in kept("small")["rows"]
        if row["reader"] == "slicewatch" and row["load"] in bench.loads
    }
    missed = []
    for (client, load), limit in said.items():
        found, quiet = _found(bench, table, client, load, (1 - TOLERANCE) * limit)
        words = f"{client}, {load}: {found:.3f} of the bare client's rate; the docs say {limit:.3f}"
        if found < (1 - TOLERANCE) * limit:
            missed += [words] if quiet else []
            print(words if quiet else f"not judged, the machine is busy: {words}")  # noqa: T201
    return missed


def _found(bench: Bench, table: Table, client: str, load: str, limit: float) -> tuple[float, bool]:
    """The best ratio after the start of a few tries, and whether any of them had the machine."""
    row = table.best[("slicewatch", client, load)]
    quiet = not row.starved
    for _ in range(TRIES - 1):
        if table.ratios(row)[1] >= limit:
            break
        another = bench.slicewatch(client, bench.loads[load])
        table.add(another)
        quiet |= not another.starved
        row = table.best[row.key]
    return table.ratios(row)[1], quiet


def options() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, help=f"{DECISIONS:,}, or {SMALL:,} if small")
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS}, or 1 if small")
    parser.add_argument("--client", choices=CLIENTS, action="append", help="only this one")
    parser.add_argument("--load", choices=("decisions", "both"), help="only this one")
    parser.add_argument("--small", action="store_true", help="what the gate measures")
    parser.add_argument("--check", action="store_true", help="compare with results/small.json")
    parser.add_argument("--profile", action="store_true", help="where the CPU goes, by py-spy")
    return parser.parse_args()


def compare(scope: Scope, *, checked: bool = False) -> list[str]:
    """Print, and keep, what all readers cost; returns what is slower than the docs say."""
    report = Report(
        f"From the start to everything published, {scope.decisions:,} decisions",
        *("reader", "client", "load", "events", "CPU s", "start", "wall s", "peak MB"),
        *("per CPU-s", "after start", "of raw", "after start of raw"),
    )
    with opened(scope) as bench:
        table = Table(report)
        measure(bench, table, scope)
        missed = check(bench, table) if checked else []
    report.close()
    if scope.kept_as:
        about = {"decisions": scope.decisions, "rounds": scope.rounds}
        keep(scope.kept_as, **about, rows=[*table.rows()])
    return missed


def profile(scope: Scope) -> None:
    """Print microseconds an event by part of the service."""
    with opened(scope) as bench:
        loads = bench.loads.values()
        found = [bench.sampled(client, load) for client in scope.clients for load in loads]
    for one in found:
        report = Report(
            f"{one['client']}, {one['load']}: {one['cpu']} CPU-s", "part", "us an event"
        )
        for name, micros in one["parts"].items():
            report.add(name, f"{micros:.2f}")
        report.close()


def everything() -> None:
    """All that the docs say, measured again."""
    compare(Scope(DECISIONS, ROUNDS, "run"))
    compare(Scope(SMALL, ROUNDS, "small", beside=False))


def main() -> int:
    """Measure, print and compare."""
    if missing_tools():
        print(f"skipped: {', '.join(missing_tools())} is not installed")  # noqa: T201
        return 0
    if len(sys.argv) == 1:
        everything()
        return 0
    chosen = options()
    n = chosen.decisions or (SMALL if chosen.small else DECISIONS)
    rounds = chosen.rounds or (1 if chosen.small else ROUNDS)
    beside = not (chosen.small or chosen.load)
    scope = Scope(n, rounds, "", chosen.client or CLIENTS, chosen.load, beside)
    if chosen.profile:
        profile(scope)
        return 0
    missed = compare(scope, checked=chosen.check)
    for line in missed:
        print(f"slower than the docs say: {line}", file=sys.stderr)  # noqa: T201
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
