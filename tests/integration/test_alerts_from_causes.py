"""Alerts about the monitor from their causes: a service that something is done to, and who is told.

One service, watched twice: by people who are in the office, and by others who have their weekend.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kafka_broker import KafkaBroker
from monitoring import eventually
from notified import Watch, weekend
from postgres import PostgresServer
from psycopg import sql
from running import Running
from watched_site import SETTLES, WatchedSite, ready, watched_site

from monitor.core.time import MINUTE, to_micros
from monitor.store import database as db
from monitor.store.schema import label_arrival, ownership

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

AHEAD, REFUSED = "SlicewatchClock", "retention_refused"
SILENT, FAILING = "labels_silent", "store_failing"
AWAY = timedelta(days=45)
"""Longer than counts by the hour are kept."""
SILENT_HOURS = 30
Body = dict[str, Any]


@dataclass(frozen=True)
class Administrator:
    """Who may take rights away from the service's own login."""

    server: PostgresServer
    database: str
    login: str
    url: str

    def execute(self, statement: str) -> None:
        text = sql.SQL(statement).format(sql.Identifier(self.login))
        self.server.execute(text, self.database)


@pytest.fixture
def administrator(postgres: PostgresServer, postgres_url: str) -> Iterator[Administrator]:
    name = f"service_{uuid.uuid4().hex[:12]}"
    database = str(sa.make_url(postgres_url).database)
    url = postgres.url(database, name, "password")
    made = Administrator(postgres, database, name, url)
    engine = db.create_engine(postgres_url)
    db.migrate(engine)
    engine.dispose()
    made.execute("CREATE ROLE {} LOGIN PASSWORD 'password'")
    made.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {}")
    yield made
    made.execute("DROP OWNED BY {} CASCADE")
    made.execute("DROP ROLE {}")


@dataclass(frozen=True)
class Present:
    """A service that reads, and two who watch it."""

    site: WatchedSite
    ingest: Running
    serve: Running
    office: Watch
    weekend: Watch


@pytest.fixture
def present(
    apache: KafkaBroker, topic_name: str, tmp_path: Path, administrator: Administrator
) -> Iterator[Present]:
    """It was away for 45 days, its newest events are ahead of the clock, its labels silent."""
    with watched_site(apache, topic_name, tmp_path, administrator.url) as site:
        ingest = site.start("ingest", "ingest")
        now = datetime.now(UTC)
        for hour in range(30):
            site.decide(now - AWAY + timedelta(hours=hour))
        decided = now - timedelta(minutes=1)
        keys = site.decide(decided)
        site.decide(datetime.now(UTC) + timedelta(minutes=5))  # told in minutes, rounded up
        site.label(keys, decided)
        ingest.until(lambda: all_is_read(site, decided), "all is read")
        let_labels_be_silent(site)
        serve = site.start("serve", "serve")
        office = site.watched(serve, ingest)
        asleep = site.watched(serve, ingest, office_days=weekend())
        yield Present(site, ingest, serve, office, asleep)


@contextmanager
def store(site: WatchedSite) -> Iterator[sa.Connection]:
    engine = db.create_engine(site.url)
    try:
        with db.writing(engine) as connection:
            yield connection
    finally:
        engine.dispose()


def all_is_read(site: WatchedSite, newest: datetime) -> bool:
    """Every partition has reached the present, and the labels have come."""
    with store(site) as connection:
        found = connection.execute(sa.select(ownership.c.max_decided_at)).scalars().all()
        labels = connection.execute(sa.select(sa.func.sum(label_arrival.c.n))).scalar()
    least = to_micros(newest) - MINUTE
    return labels == 2 and all(at is not None and at >= least for at in found)


def let_labels_be_silent(site: WatchedSite) -> None:
    """The labels that came, came thirty hours ago; and twenty in every hour of five weeks before.

    Nobody waits a day for it here.
    """
    with store(site) as connection:
        came = dict(connection.execute(sa.select(label_arrival)).mappings().one())
        last = came["hour"] - SILENT_HOURS
        rows = [{**came, "hour": last - back, "n": 20} for back in range(1, 5 * 168)]
        connection.execute(sa.update(label_arrival).values(hour=last))
        connection.execute(sa.insert(label_arrival), rows)


def told(watch: Watch, receiver: str, alert: str, status: str = "firing") -> list[Body]:
    found = (one for body in watch.told.of(receiver, alert) for one in body["alerts"])
    return [one for one in found if one["status"] == status]


def test_each_of_four_causes_is_told_and_tickets_wait_for_the_office(
    present: Present, administrator: Administrator
) -> None:
    site, serve, office, asleep = present.site, present.serve, present.office, present.weekend

    # Labels.
    silent = "hardly any label since "
    serve.until(lambda: serve.get("/readyz")[1].startswith(silent), "it is blind", SETTLES)
    status, said = serve.get("/readyz")
    said = said.strip()
    assert status == 503
    assert ";" not in said, "it is blind in nothing else"
    assert ready(present.ingest), "the worker itself is well"
    code, found = site.status()
    assert code == 1
    assert said in found["problems"]
    for watch in (office, asleep):
        eventually(lambda w=watch: bool(told(w, "page", SILENT)), "somebody is woken")  # type: ignore[misc]
    (page,) = told(asleep, "page", SILENT)[:1]
    assert page["labels"]["severity"] == "page"
    assert page["annotations"]["summary"] == (
        f"Hardly any labels have arrived at {page['labels']['job']} for a day or longer"
    )

    # A clock that is fast, and an outage that was long.
    for alert in (AHEAD, REFUSED):
        eventually(lambda a=alert: bool(told(office, "ticket", a)), f"{alert} is told")  # type: ignore[misc]
        eventually(lambda a=alert: bool(asleep.firing(a)), f"{alert} waits for the office")  # type: ignore[misc]
    for one in told(office, "ticket", AHEAD):
        assert one["labels"]["topic"] == site.topics[0]
        assert one["labels"]["partition"] in {"0", "1"}
        assert "up to 5 minutes ahead" in one["annotations"]["description"]
    assert "retention is refused: retention would delete" in serve.log.read_text()

    # Rights that were taken away.
    assert told(asleep, "page", FAILING) == []
    administrator.execute("REVOKE INSERT ON delta FROM {}")
    site.decide(datetime.now(UTC))
    for watch in (office, asleep):
        eventually(lambda w=watch: bool(told(w, "page", FAILING)), "somebody is woken")  # type: ignore[misc]
    (page,) = told(asleep, "page", FAILING)[:1]
    assert page["labels"]["instance"] == f"127.0.0.1:{present.ingest.port}"
    assert page["annotations"]["summary"].endswith("cannot write to its database")
    administrator.execute("GRANT INSERT ON delta TO {}")

    # Labels come again, more of them than stragglers; what could not be stored is stored too.
    decided = datetime.now(UTC)
    keys = [key for _ in range(10) for key in site.decide(decided)]
    site.label(keys, decided)
    serve.until(lambda: ready(serve), "it sees again", SETTLES)
    for watch in (office, asleep):
        eventually(lambda w=watch: bool(told(w, "page", SILENT, "resolved")), "it is over")  # type: ignore[misc]
    assert site.status()[0] == 0
    assert "/ticket" not in {path for path, _ in asleep.told.posts}, "it is the weekend"
