"""What a scrape costs: of a small and a large page, on an idle machine and beside a busy thread.

Run it by ``make bench FOR=scrape``. Prometheus keeps its connection; a fresh one for every scrape
is the worst case.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from statistics import median, quantiles

from common import Report

# isort: split
from alerts.exposition.exporter import Exporter
from alerts.exposition.service_metrics import ServiceMetrics
from alerts.http import HealthChecks, HttpConfig, Servers
from monitor.clock import SystemClock
from monitor.core.contract import Metric, State
from monitor.core.publish.snapshot import ContractTable, GroupTable, SliceRow, Snapshot, WindowTable

SLICES = (200, 1_000)
SECONDS = 4.0
ASKED = {
    "Accept": "application/openmetrics-text;version=1.0.0",
    "Accept-Encoding": "gzip",
}


def page_of(slices: int) -> Snapshot:
    """States of every metric for so many slices."""
    states = dict.fromkeys(Metric, State.WITHIN_CONTRACT)
    rows = tuple(SliceRow(f"channel=c{i}", states) for i in range(slices))
    table = WindowTable("7d", SliceRow("", states), (GroupTable("channel", rows),))
    contract = ContractTable("bench", "1", "team", True, 1, "7d", {}, {}, {}, {}, (table,))
    return Snapshot(None, None, (contract,))


@contextmanager
def served(slices: int) -> Iterator[int]:
    """The port of a server with a page."""
    exporter = Exporter(ServiceMetrics(), max_series=200_000, clock=SystemClock())
    exporter.publish(page_of(slices))
    health = HealthChecks(lambda: True, lambda: (True, ""), lambda: True)
    servers = Servers(HttpConfig(port=0), None, exporter, health, SystemClock())
    servers.start()
    try:
        yield servers.port
    finally:
        servers.stop()


@contextmanager
def busy() -> Iterator[None]:
    """A thread that computes in Python all the time, as a worker that decodes events does."""
    ending = threading.Event()

    def compute() -> None:
        while not ending.is_set():
            sum(range(10_000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def scrape(port: int, *, kept: bool) -> tuple[list[float], int]:
    """Seconds of each of many scrapes, and the bytes of the last."""
    took, size, end = [], 0, time.monotonic() + SECONDS
    client = http.client.HTTPConnection("127.0.0.1", port)
    while time.monotonic() < end:
        began = time.perf_counter()
        client.request("GET", "/metrics", headers=ASKED)
        size = len(client.getresponse().read())
        took.append(time.perf_counter() - began)
        if not kept:
            client.close()
    client.close()
    return took, size


def main() -> None:
    """Print the table."""
    report = Report(
        f"Scrapes one after the other, {SECONDS:g} s each; client and server in one process",
        *("slices", "connection", "machine", "bytes", "median ms", "p99 ms", "CPU ms"),
    )
    for slices in SLICES:
        with served(slices) as port:
            for kept in (True, False):
                for beside in (nullcontext, busy):
                    with beside():
                        cpu = time.process_time()
                        took, size = scrape(port, kept=kept)
                        cpu = (time.process_time() - cpu) / len(took)
                    report.add(
                        *(f"{slices:,}", "kept" if kept else "fresh"),
                        *("busy" if beside is busy else "idle", f"{size:,}"),
                        *(f"{1e3 * median(took):.2f}", f"{1e3 * quantiles(took, n=100)[-1]:.1f}"),
                        "" if beside is busy else f"{1e3 * cpu:.2f}",
                    )
    report.close()


if __name__ == "__main__":
    main()
