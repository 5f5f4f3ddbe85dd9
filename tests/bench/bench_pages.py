"""What the status page and the API cost with a thousand slices, and what they cost a scrape.

Run it by ``make bench FOR=pages``. Everything is asked over a real port, of a store on SQLite. In
the end scrapes are timed while fifty clients read pages as fast as they are served.
"""

from __future__ import annotations

import http.client
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median, quantiles

from common import Report

# isort: split
from migrated import bring_to_head
from published_lesson import T0, full, lesson
from served_site import SetClock, publish, served_site

from monitor.core.contract import Metric
from monitor.core.publish.snapshot import Snapshot
from monitor.core.time import HOUR
from monitor.store import database

SLICES, CLIENTS, SECONDS = 1_000, 50, 4.0
LIMITED = (Metric.TPR, Metric.FPR, Metric.BLOCKED, Metric.SELECTION)
SLICE = "group_by=channel&slice=channel%3D0500"
PATHS = ("/", "/?page=10", f"/slice?{SLICE}", "/incidents", "/overview.csv",
         "/api/v1/snapshot", f"/api/v1/slice?{SLICE}", "/metrics")  # fmt: skip


def snapshot() -> Snapshot:
    """A contract that limits four metrics of so many slices."""
    made = lesson(*(full(f"channel={i:04}") for i in range(SLICES)))
    (table,) = made.contracts
    return replace(made, contracts=(replace(table, max_gaps=dict.fromkeys(LIMITED, 0.1)),))


@contextmanager
def served() -> Iterator[int]:
    """The port of a site with all of them."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.db"
        bring_to_head(url)
        engine = database.create_engine(url)
        publish(engine, snapshot(), T0)
        with served_site(engine, SetClock(T0 + HOUR)) as site:
            yield site.servers.port
        engine.dispose()


def asked(port: int, path: str) -> tuple[list[float], int]:
    """Seconds of each answer, one after the other, and the bytes of the last."""
    took, size, end = [], 0, time.monotonic() + SECONDS
    client = http.client.HTTPConnection("127.0.0.1", port)
    while time.monotonic() < end:
        began = time.perf_counter()
        client.request("GET", path)
        size = len(client.getresponse().read())
        took.append(time.perf_counter() - began)
    client.close()
    return took, size


@contextmanager
def readers(port: int) -> Iterator[None]:
    """Clients that read the first page again and again."""
    ending = threading.Event()

    def read() -> None:
        client = http.client.HTTPConnection("127.0.0.1", port)
        while not ending.is_set():
            client.request("GET", "/")
            client.getresponse().read()
        client.close()

    threads = [threading.Thread(target=read) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join()


def main() -> None:
    """Print the table."""
    report = Report(
        f"{SLICES:,} slices, four limited metrics; {SECONDS:g} s each, client in the same process",
        *("path", "beside", "bytes", "median ms", "p99 ms"),
    )
    with served() as port:
        for path in PATHS:
            report.add(path.partition("?")[0], "nothing", *_figures(*asked(port, path)))
        with readers(port):
            found = asked(port, "/metrics")
        report.add("/metrics", f"{CLIENTS} readers of /", *_figures(*found))
    report.close()


def _figures(took: list[float], size: int) -> tuple[str, str, str]:
    return f"{size:,}", f"{1e3 * median(took):.1f}", f"{1e3 * quantiles(took, n=100)[-1]:.0f}"


if __name__ == "__main__":
    main()
