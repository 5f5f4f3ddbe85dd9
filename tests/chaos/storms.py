"""Many storms, one line each: ``make chaos``, ``make chaos SEEDS=5``, ``make chaos SEED=17``.

``make chaos ARGS=--steps``: while it rages the wall clock of all processes is set by -1 h, by
+1 h, and by ten years.

Every seed runs over SQLite and over PostgreSQL; it also decides the Kafka client. Exits 1 when
the counts of any run were not exact, with what was wrong and the folder that holds its logs.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import uuid
from datetime import timedelta
from pathlib import Path

SUPPORT = Path(__file__).parents[1] / "support"
sys.path[:0] = [str(SUPPORT / room) for room in ("drivers", "worlds", "oracles")]

from chaos import chaos_site, client_of, weather  # noqa: E402
from kafka_broker import KafkaBroker, kafka_libraries, missing_tools  # noqa: E402
from postgres import PostgresServer  # noqa: E402

DECISIONS = 4000
STEPS = (timedelta(hours=-1), timedelta(hours=1), timedelta(days=3653))


def main() -> int:
    """Run the storms that were asked for; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many, from 1 on")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--steps", action="store_true", help="the machine's clock is set instead")
    parser.add_argument("--seconds", type=float, default=25.0, help="how long each rages")
    options = parser.parse_args()
    if tools := missing_tools():
        say(f"make chaos needs {' and '.join(tools)} for Apache Kafka")
        return 2
    seeds = [options.seed] if options.seed is not None else range(1, options.seeds + 1)
    storms: list[tuple[int, timedelta | None]] = [(seed, None) for seed in seeds]
    if options.steps:
        storms = list(enumerate(STEPS, 101))
    broker, postgres = KafkaBroker(kafka_libraries()), PostgresServer()
    try:
        results = [
            run(broker, postgres if on_server else None, seed, options.seconds, step)
            for seed, step in storms
            for on_server in (False, True)
        ]
    finally:
        broker.close()
        postgres.close()
    say(f"{sum(results)} of {len(results)} exact")
    return 0 if all(results) else 1


def run(
    broker: KafkaBroker,
    postgres: PostgresServer | None,
    seed: int,
    seconds: float,
    step: timedelta | None,
) -> bool:
    """One storm and its line; its folder stays when it was not exact."""
    name = f"storm-{seed}-{uuid.uuid4().hex[:6]}"
    folder = Path(tempfile.mkdtemp(prefix=f"slicewatch-{name}-"))
    url = "" if postgres is None else postgres.create_database(name.replace("-", "_"))
    head = f"seed {seed:4}  {'sqlite' if postgres is None else 'postgresql':10}"
    head += f"  {client_of(seed):12}"
    head += "" if step is None else f"  clock set by {step / timedelta(hours=1):+,.0f} h"
    try:
        with chaos_site(
            broker,
            name,
            folder,
            store_url=url,
            decisions=DECISIONS,
            seed=seed,
            client=client_of(seed),
        ) as site:
            tally = weather(site, seconds, step)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        say(f"{head}  NOT EXACT: {error}\n  see {folder}")
        return False
    shutil.rmtree(folder)
    say(
        f"{head}  messages {site.produced}  kills {tally.kills}  stops {tally.stops}"
        f"  crashes {tally.crashes}  moves {tally.moves}  ended connections {tally.terminated}"
        f"  fenced {tally.fenced}  exact"
    )
    return True


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
