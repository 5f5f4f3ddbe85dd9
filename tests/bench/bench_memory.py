"""Memory of ``slicewatch run`` while it reads three days of events as fast as it can.

The traffic of ``make bench FOR=run`` twenty-four times over, three hours each, so that a day has
four million decisions and their labels; all of it lies in Kafka before the service starts with its
defaults. Every hour of a day passes within seconds, and what is kept for an hour or two of event
time (keys of duplicates, rows that wait for their other half) is dropped and filled again all the
time. ``make bench FOR=memory`` keeps the rows in results/.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from common import Report
from kafka_broker import KafkaBroker, kafka_libraries, missing_tools
from measured import cpu_seconds, resident_megabytes_of
from results import keep
from run_service import Service, everything_read
from run_topics import TOPICS, produce
from run_traffic import HOURS, PARTITIONS, run_traffic, settings_text

from monitor.store import database as db

PARTS = 24
DECISIONS = 500_000
"""Of one part."""
LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Sample:
    """The service when it had read so much.

    Attributes:
        hours: of event time.
        events: read.
        megabytes: resident.
        stored: megabytes of the database with its log.
        per_cpu_second: events since the sample before.
    """

    hours: float
    events: int
    megabytes: int
    stored: int
    per_cpu_second: int


def main() -> int:
    """Fill the topics, let the service read them, and print a row for every part."""
    if missing_tools():
        print(f"skipped: {', '.join(missing_tools())} is not installed")  # noqa: T201
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=PARTS, help=f"of {HOURS:g} hours each")
    parser.add_argument("--decisions", type=int, default=DECISIONS, help="of one part")
    chosen = parser.parse_args()
    report = Report(
        f"As fast as it can be read, {chosen.parts * chosen.decisions:,} decisions",
        *("hours of event time", "events read", "resident MB", "stored MB", "per CPU-s"),
    )
    broker = KafkaBroker(kafka_libraries())
    try:
        events = _fill(broker, chosen.parts, chosen.decisions)
        samples = []
        for sample in _read(broker, events, chosen.parts):
            samples.append(asdict(sample))
            report.add(*map(str, samples[-1].values()))
    finally:
        broker.close()
    report.close()
    if sys.argv[1:] == []:
        keep("memory", decisions=chosen.parts * chosen.decisions, rows=samples)
    return 0


def _fill(broker: KafkaBroker, parts: int, decisions: int) -> int:
    """All parts, one after the other in event time; returns the number of messages."""
    for name in TOPICS:
        broker.create_topic(name, PARTITIONS)
    end, messages = time.time(), 0
    for part in range(parts):
        now = end - (parts - 1 - part) * HOURS * 3600
        traffic = run_traffic(decisions, now, seed=part, first=part * decisions)
        for name, topic in zip(TOPICS, (traffic.decisions, traffic.labels), strict=True):
            produce(broker, name, topic)
            messages += len(topic)
    return messages


def _read(broker: KafkaBroker, events: int, parts: int) -> Iterator[Sample]:
    """A sample whenever another part was read."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = folder / "settings.toml"
        url = f"sqlite:///{folder}/slicewatch.db"
        settings.write_text(settings_text(broker.bootstrap, TOPICS, url))
        with Service(folder, settings) as service:
            service.until_it_answers()
            engine = db.create_engine(url)
            before, spent = 0, cpu_seconds(service.process.pid)
            for part in range(1, parts + 1):
                while (read := everything_read(engine)) < part * events // parts:
                    assert service.process.poll() is None, (folder / "run.log").read_text()[-2000:]
                    time.sleep(LOOK_SECONDS)
                cpu = cpu_seconds(service.process.pid)
                yield Sample(
                    hours=part * HOURS,
                    events=read,
                    megabytes=round(resident_megabytes_of(service.process.pid)),
                    stored=round(sum(f.stat().st_size for f in folder.glob("*.db*")) / 1e6),
                    per_cpu_second=round((read - before) / (cpu - spent)),
                )
                before, spent = read, cpu
            engine.dispose()


if __name__ == "__main__":
    sys.exit(main())
