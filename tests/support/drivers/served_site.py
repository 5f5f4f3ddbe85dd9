"""The status page over a store that a test fills with Snapshots and incidents, on a real port."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

import sqlalchemy as sa
from served import Switches, fetch, small_exporter
from set_clock import SetClock

from alerts.http import HttpConfig, PortViews, Servers
from monitor.core.publish.conditions import StandingCondition
from monitor.core.publish.snapshot import Snapshot
from monitor.core.time import DAY
from monitor.store.evaluator.store import Cycle, EvaluatorStore
from monitor.store.evaluator.stored_incidents import IncidentChange
from monitor.store.upkeep.published_reader import PublishedReader
from monitor.web import Site, SiteFacts

TOPICS = ("decisions", "labels")
FACTS = SiteFacts("1.2.3")
OPEN = HttpConfig(port=0, responders=("anonymous",))
"""On this machine's own address, where whoever reads may act."""


def publish(
    engine: sa.Engine, snapshot: Snapshot, at: int, incidents: IncidentChange | None = None
) -> None:
    """Store a Snapshot as the evaluator does."""
    store = EvaluatorStore(engine, TOPICS[0])
    epoch = store.lease.acquire("me", DAY)
    assert epoch is not None
    cycle = Cycle(snapshot=snapshot, incidents=incidents or IncidentChange())
    store.commit(epoch, cycle, at)


class ServedSite:
    """A site on a port."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.servers.port}"

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        status, _, body = fetch(self.servers, path, **headers)
        return status, body.decode()

    def json(self, path: str) -> Any:
        status, body = self.get(path)
        assert status == 200, body
        return json.loads(body)

    def post(
        self, path: str, fields: dict[str, str], **headers: str
    ) -> tuple[int, dict[str, str], str]:
        """A form, as a browser sends it from a page of its own unless told otherwise."""
        said = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": self.base,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        status, told, body = fetch(
            self.servers, path, "POST", urlencode(fields), **{k: v for k, v in said.items() if v}
        )
        return status, told, body.decode()


@contextlib.contextmanager
def served_site(
    engine: sa.Engine,
    clock: SetClock,
    facts: SiteFacts = FACTS,
    *,
    blind: Sequence[str] = (),
    conditions: Sequence[StandingCondition] = (),
    config: HttpConfig = OPEN,
) -> Iterator[ServedSite]:
    """Serve what the store has."""
    site = Site(
        PublishedReader(engine, TOPICS),
        facts,
        blind=lambda: blind,
        conditions=lambda: conditions,
        now=clock.now,
    )
    pages = PortViews(site.views(), site.forms())
    servers = Servers(config, None, small_exporter(), Switches().health(), clock, pages=pages)
    servers.start()
    try:
        yield ServedSite(servers)
    finally:
        servers.stop()
