"""One full run with secrets planted in every field: no byte that leaves the service has them.

The service as a user runs it, on a real broker and on each database, above k = 1, logging all it
can. What is collected is what others could read: logs, both ports, dead letters, error texts,
documents that commands print, Snapshots, the published tables; and the database itself, which may
have keyed hashes and nothing else of them.
"""

from __future__ import annotations

import json
import random
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lesson
import pytest
import sqlalchemy as sa
from brokers import Broker
from free_ports import free_port
from migrated import bring_to_head
from pipeline import SETTINGS
from planted import MARK, leaks
from running import Running
from surface_checks import broken, read_page
from surface_types import Surface
from surfaces import rows_of
from warm_start import run

from monitor.store.database import create_engine
from monitor.store.schema import PUBLISHED, metadata
from monitor.store.shard_rows import read_statuses

pytestmark = pytest.mark.full

K = 11
ID_KEY = f"{MARK}-the-key-that-ids-are-hashed-with"
TOKEN = f"{MARK}-token-of-the-fairness-port"
GUESSED = f"{MARK}-guessed-token"
LOUD = (
    "import logging\n"
    "from monitor import logs\n"
    "configure = logs.configure\n"
    "def loud(level='INFO'):\n"
    "    configure('DEBUG')\n"
    "    for name in ('alerts', 'consumers', 'monitor'):\n"
    "        logging.getLogger(name).setLevel('DEBUG')\n"
    "logs.configure = loud\n"
    "from monitor.cli import main\n"
    "main()\n"
)
"""The command line with every logger of ours at DEBUG, which no setting asks for."""
SLICE_WORDS = (
    *("language_variety", "conversational", "formal", "auto_serve", "human_review"),
    *("blocked_by_evidence", "email", "slice=", "group_by"),
)

_CHAT = "?group_by=channel&slice=channel%3Dchat"
STATUS_PAGES = (
    *("/", f"/slice{_CHAT}", "/incidents", "/overview.csv", "/versions.csv"),
    *(f"/slice.csv{_CHAT}", f"/history.csv{_CHAT}", "/incidents.csv", "/api/v1/snapshot"),
    *(f"/api/v1/slice{_CHAT}", f"/api/v1/history{_CHAT}", "/api/v1/incidents"),
    "/api/v1/openapi.json",
)


class Loud(Running):
    program = ("-c", LOUD)


def planted(kind: str, number: int | str = 0) -> str:
    return f"{MARK}-{kind}-{number}"


def good(number: int, at: datetime, pick: random.Random) -> dict[str, Any]:
    variety = pick.choice(("formal", "conversational", planted("value", number % 40)))
    score = pick.uniform(0.5, 1.0)
    return lesson.decision(
        planted("decision", number),
        at,
        score,
        attributes={"channel": pick.choice(("chat", "email")), "language_variety": variety},
        label_requested=score < lesson.THRESHOLD or pick.random() < 0.5,
        audit_p=1.0 if score < lesson.THRESHOLD else 0.5,
        unit=planted("unit", number % 90),
    )


def good_label(decision: dict[str, Any], number: int, pick: random.Random) -> dict[str, Any]:
    at = datetime.fromisoformat(decision["decided_at"])
    texts = {"label_id": planted("label", number), "reviewer": planted("reviewer", number % 7)}
    return lesson.label(decision["decision_id"], at, pick.random() < 0.6, **texts)


def hostile(at: datetime, *, names: bool = True) -> Iterator[bytes]:
    """What is refused, each in its own way, with a secret in the place that it is refused for.

    Args:
        names: with secrets as names of fields.
    """
    event = good(0, at, random.Random(0))
    text = planted("text")
    changes: Sequence[dict[str, Any]] = (
        {"free_text": text}, {text: 1}, {"route": text}, {"judge_score": text},
        {"decided_at": text}, {"attributes": {text: "chat"}}, {"attributes": text},
        {"attributes": {"channel": 7, text: 1}}, {"versions": {"judge": [text]}}, {"audit_p": text},
        {"versions": {**lesson.VERSIONS, "judge": f"{text} !\n"}}, {"traffic": text},
        {"decision_id": text * 50}, {"decided_at": "2020-01-01T00:00:00Z", "decision_id": text},
        {"decided_at": "2099-01-01T00:00:00Z", "decision_id": text},
        {"attributes": {"channel": text * 2_000}}, {f"`$.{text}`": 1}, {"unit": text * 60},
    )  # fmt: skip
    for change in changes:
        parts = (change, *(part for part in change.values() if isinstance(part, dict)))
        if not names and any(text in name for part in parts for name in part):
            continue
        yield json.dumps({**event, **change}).encode()
    yield from (text.encode(), b"{" + text.encode(), json.dumps([text, event]).encode()[:-3])
    label = good_label(event, 0, random.Random(0))
    for change in ({"reviewer": 7}, {"ready": text}, {"kind": text}, {"comment": text}):
        yield json.dumps({**label, **change}).encode()


def write(events: Sequence[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


@dataclass
class Site:
    """A service and everything that was read of it, by place."""

    folder: Path
    store_url: str
    service: Loud
    operations: int
    secrets: list[str]
    sent: int = 0
    read: dict[str, bytes] = field(default_factory=dict)

    def fetch(self, port: int, path: str = "/metrics", token: str = "") -> str:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                body = answer.read()
                self._keep(f"port {port}{path}", str(answer.headers).encode() + body)
                return str(body.decode())
        except urllib.error.HTTPError as error:
            self._keep(
                f"port {port}{path} {error.code}", str(error.headers).encode() + error.read()
            )
        except OSError:
            pass
        return ""

    def slices(self) -> str:
        return self.fetch(self.service.port, token=TOKEN)

    def command(self, *arguments: str, code: int = 0, **environment: str) -> str:
        done = run(
            [*arguments, "--settings", "settings.toml"],
            cwd=self.folder,
            env={**self.service.environment, **environment},
        )
        said = done.stdout + done.stderr
        self._keep(f"slicewatch {' '.join(arguments)[:40]}", said.encode())
        assert done.returncode == code, said
        assert "Traceback" not in said
        return done.stdout

    def _keep(self, place: str, body: bytes) -> None:
        self.read[place] = self.read.get(place, b"") + b"\n" + body


@pytest.fixture(params=["sqlite", "postgresql"])
def site(
    request: pytest.FixtureRequest, kafka: Broker, topic_name: str, tmp_path: Path
) -> Iterator[Site]:
    server = request.param == "postgresql"
    url = request.getfixturevalue("postgres_url") if server else f"sqlite:///{tmp_path}/store.db"
    if server:
        bring_to_head(url)
    text = SETTINGS.replace("synthetic = true\nk = 1\n", f"k = {K}\n")
    text = text.replace(f'id_key = "{_key_in(text)}"\n', "")
    (tmp_path / "settings.toml").write_text(text)
    operations = free_port()
    environment = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": kafka.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": f"{topic_name}-d",
        "SLICEWATCH__STREAM__LABELS_TOPIC": f"{topic_name}-l",
        "SLICEWATCH__STREAM__GROUP_ID": topic_name[-8:],
        "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
        "SLICEWATCH__STORE__URL": url,
        "SLICEWATCH__PRIVACY__ID_KEY": ID_KEY,
        "SLICEWATCH__SERVER__TOKEN": TOKEN,
        "SLICEWATCH__SERVER__OPERATIONS__LISTEN": f"127.0.0.1:{operations}",
    }
    for topic in (f"{topic_name}-d", f"{topic_name}-l"):
        kafka.create_topic(topic, 1)
    secrets = [
        planted(kind, n) for kind in ("decision", "label", "reviewer", "unit") for n in (0, 3)
    ]
    secrets += [planted("value", 3), planted("text"), ID_KEY, TOKEN, GUESSED]
    secrets += [planted("query"), planted("name"), planted("path")]
    password = sa.make_url(url).password
    if password is not None:
        secrets.append(password)
    with Loud(tmp_path, ["run", "--settings", "settings.toml"], environment) as service:
        sent = produce(kafka, topic_name)
        yield Site(tmp_path, url, service, operations, secrets, sent)


def _key_in(text: str) -> str:
    return text.partition('id_key = "')[2].partition('"')[0]


def produce(kafka: Broker, name: str) -> int:
    """Three days up to now, labels for all that was asked for, and what is refused in between.

    Returns the number of messages.
    """
    pick, now = random.Random(1), datetime.now(UTC)
    begin = now - timedelta(days=3)
    decisions = [good(n, begin + timedelta(minutes=3 * n), pick) for n in range(1_440)]
    labels = [good_label(d, n, pick) for n, d in enumerate(decisions) if d["label_requested"]]
    twice = [good_label(d, 2_000 + n, pick) for n, d in enumerate(decisions[::5])
             if d["label_requested"]]  # fmt: skip
    sent = 0
    for part in range(4):
        some = slice(part * 360, part * 360 + 360)
        sent += len(kafka.produce(f"{name}-d", write(decisions[some])))
        for topic in (f"{name}-d", f"{name}-l"):
            sent += len(kafka.produce(topic, list(hostile(now - timedelta(hours=1)))))
    sent += len(kafka.produce(f"{name}-l", write([*labels, *twice])))
    strays = [good_label({**d, "decision_id": planted("nobody", n)}, n, pick)
              for n, d in enumerate(decisions[-20:])]  # fmt: skip
    return sent + len(kafka.produce(f"{name}-l", write(strays)))


def all_is_stored(site: Site) -> bool:
    engine = create_engine(site.store_url)
    try:
        return sum(one.tallies.messages for one in read_statuses(engine)) == site.sent
    finally:
        engine.dispose()


def everything_read(site: Site) -> None:
    """Scrape both ports until the slices and all dead letters are there."""

    def shown() -> bool:
        for path in ("/metrics", "/", "/livez", "/readyz", f"/{planted('path')}"):
            site.fetch(site.operations, path)
        page = site.slices()
        return 'slice="channel=chat"' in page and "slicewatch_slice_rate_ratio{" in page

    site.service.until(shown, "the slices", 120)
    site.service.until(lambda: all_is_stored(site), "all dead letters", 120)
    assert list(broken(read_page(site.slices()), K)) == []
    assert list(broken(read_page(site.fetch(site.operations)), K)) == []
    assert site.fetch(site.service.port, "/snapshot/1", TOKEN)
    site.fetch(site.service.port, f"/snapshot/{planted('path')}", TOKEN)
    for path in STATUS_PAGES:
        assert site.fetch(site.service.port, path, TOKEN), path
    for path in ("/", "/slice", "/incidents", "/overview.csv", "/api/v1/slice"):
        for name in ("contract", "slice", "metric", "as_of", planted("name")):
            site.fetch(site.service.port, f"{path}?{name}={planted('query')}", TOKEN)
    for path in STATUS_PAGES:
        site.fetch(site.service.port, path, GUESSED)
    for token in (GUESSED, ""):
        site.fetch(site.service.port, token=token)
        site.fetch(site.service.port, f"/metrics?token={token}", token=token)


def use_commands(site: Site) -> None:
    """What people run beside the service, and what they get wrong."""
    where = ("db", "status")
    site.command(*where)
    status = json.loads(site.command(*where, "--json"))
    assert set(status) == {
        name.partition(".")[2] for name in rows_of(Surface.STATUS) if name.startswith("StoreStatus")
    }
    site.command("db", "dead-letters", "--limit", "500")
    letters = site.command("db", "dead-letters", "--json", "--limit", "500").splitlines()
    assert len(letters) >= 60
    assert set(json.loads(letters[0])) == set(rows_of(Surface.DEAD_LETTER))
    assert len({json.loads(one)["reason"] for one in letters}) >= 6
    site.command("incident", "list", "--all", "--json")
    site.command("incident", "show", "1", code=2)
    site.command("incident", "ack", "1", "--by", "the team", code=2)
    site.command("check", "--all")
    site.command("db", "forget", planted("decision", 5))
    site.command("db", "forget", planted("never", 5))
    site.command("db", "forget", "x" * 500, code=2)
    site.command("db", "resume-from", "no-topic", "0", "5", "--reason", "test", code=2)
    wrong = {"SLICEWATCH__PRIVACY__ID_KEY": f"{ID_KEY}-another"}
    site.command("replay", "settings.toml", code=2)
    (site.folder / "hostile.jsonl").write_bytes(b"\n".join(hostile(datetime.now(UTC))) + b"\n")
    other: dict[str, Any] = {"SLICEWATCH__STORE__URL": f"sqlite:///{site.folder}/other.db"}
    site.command("replay", "decisions=hostile.jsonl", "--summary", "--json", code=1, **other)
    # Names of fields are what it is asked for, by somebody who has the file; no values.
    named = site.folder / "named.jsonl"
    named.write_bytes(b"\n".join(hostile(datetime.now(UTC), names=False)) + b"\n")
    site.command("check", "--events", "decisions=named.jsonl", code=1)
    site.command("replay", "decisions=hostile.jsonl", code=2, **wrong)
    if site.store_url.startswith("postgresql"):
        denied = sa.make_url(site.store_url).set(password=planted("password"))
        text = denied.render_as_string(hide_password=False)
        site.command("db", "status", code=2, SLICEWATCH__STORE__URL=text)


def read_store(site: Site) -> None:
    """Every row of every table, as text and as bytes; of SQLite the files as they are."""
    engine = create_engine(site.store_url)
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            rows = connection.execute(sa.select(table)).all()
            values = [value for row in rows for value in row]
            texts = b" ".join(
                value if isinstance(value, bytes) else str(value).encode() for value in values
            )
            numbers = b" ".join(
                value.to_bytes(8, "big", signed=True) for value in values if type(value) is int
            )
            shown = table in PUBLISHED or table.name in ("snapshot", "weekly_release")
            published = "published" if shown else "stored"
            site.read[f"{published} table {table.name}"] = texts + b" " + numbers
            assert rows or table.name in NOT_FILLED, table.name
    engine.dispose()
    for path in site.folder.glob("*.db*"):
        site.read[f"file {path.name}"] = path.read_bytes()


NOT_FILLED = {
    *("resumption", "exclusion", "meta", "waiting_label"),
    *("crossing", "incident", "incident_crossing", "incident_stream", "incident_act"),
    *("weekly_release", "release_signature", "published_calibration", "bias_score"),
    "calendar_labels",
}
"""Tables that this run need not use; the others must have rows, or their silence says nothing. No
week ends in it, and score bands are counted by the week."""


def test_nothing_planted_leaves_the_service(site: Site) -> None:
    everything_read(site)
    use_commands(site)
    assert site.service.stop() == 0
    site.read["log"] = site.service.log.read_bytes()
    read_store(site)

    assert all(site.read.values())
    sent = (site.folder / "hostile.jsonl").read_bytes()
    assert leaks("what was sent", sent, site.secrets), "the search finds what is there"
    found = [text for place, body in site.read.items() for text in leaks(place, body, site.secrets)]
    assert sorted(set(found)) == [], "\n".join(sorted(set(found)))

    lines = [json.loads(line) for line in site.read["log"].splitlines()]
    assert {line["logger"] for line in lines} >= {"slicewatch.access", "slicewatch.ingest"}
    assert not [line for line in lines for word in SLICE_WORDS if word in json.dumps(line)]
    known = {name.partition(";")[0] for name in rows_of(Surface.LOG)}
    told = {line["event"] for line in lines}
    assert {event for event in told if not any(_fits(event, text) for text in known)} == set()


def _fits(event: str, template: str) -> bool:
    head, _, tail = template.partition("%")
    return event.startswith(head) if tail else event == template
