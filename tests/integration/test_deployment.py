"""compose.yaml and the manifests, run: every command, environment and probe in them, as processes.

From their first command to SIGTERM, which has to end each of them within its grace period.

On real Apache Kafka, PostgreSQL, Prometheus and Alertmanager. Not run are the containers
themselves, Grafana and the operators of a cluster: no such thing is on a machine of the tests.
``SLICEWATCH_DEPLOYMENT_SECONDS=120`` keeps each of the two going for as long under traffic.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from certificates import make_certificates
from deployed import DEPLOY, Compose, Container, Document, Local, Manifests, kustomized
from monitoring import ALERTMANAGER, binary, eventually, get, query
from surroundings import Surroundings, surroundings

from monitor.store.database import create_engine
from monitor.store.shard_rows import read_statuses

pytestmark = [pytest.mark.broker, pytest.mark.full]

SECONDS = float(os.environ.get("SLICEWATCH_DEPLOYMENT_SECONDS", "0"))
"""How long traffic goes on at least; the wait for every condition comes on top."""
HISTORY_SENT = "the history is sent"
"""The line with which the traffic generator begins to go on in real time."""
TOPICS = {"compose": ("decisions", "labels"), "kubernetes": ("router-decisions", "router-labels")}


class Played:
    """Processes of one of the two descriptions, from their start to their end.

    Attributes:
        folder: files of all processes are below it.
        running: the long-lived ones, by name.
        reported: the week that had ended when its report was written.
        sent: what the traffic generator says that it sent.
    """

    def __init__(self, folder: Path, around: Surroundings, network: str) -> None:
        self.folder = folder
        self._addresses = (f"{network}.{number}" for number in range(1, 255))
        self.names: dict[str, str] = {**around.names}
        self.running: dict[str, Local] = {}
        self._made: list[Local] = []
        self.sent: dict[str, int] = {}
        self.reported = ""

    def local(self, container: Container, **more: str) -> Local:
        """It on an address of its own, by whose name the others find it."""
        address = next(self._addresses)
        for port in (9090, 9093, 9095, 9096):
            self.names[f"{container.name}:{port}"] = f"{address}:{port}"
        made = Local(container, self.folder, address, {**self.names, **more})
        self._made.append(made)
        return made

    def once(self, container: Container) -> str:
        """Run a command that ends by itself; returns what it said."""
        made = self.local(container)
        made.start()
        assert made.finish() == 0, made.log
        return made.log

    def begin(self, made: Local, *more: str) -> None:
        made.start(*more)
        self.running[made.container.name] = made

    def become_healthy(self) -> None:
        """Wait until every probe of every process has passed."""
        for one in self.running.values():
            eventually(lambda here=one: self._healthy(here), f"probes of {one.container.name}")  # type: ignore[misc]

    def failing(self) -> list[str]:
        """Probes that do not pass now, and what they say."""
        return [text for one in self.running.values() for text in one.failing_probes()]

    def _healthy(self, one: Local) -> bool:
        assert one.running, f"{one.container.name} ended: {one.log[-2000:]}"
        return not one.failing_probes()

    def counted(self, url: str, topics: tuple[str, str]) -> dict[str, int]:
        """Events of each topic that are stored, exactly."""
        engine = create_engine(url)
        try:
            statuses = read_statuses(engine)
        finally:
            engine.dispose()
        assert all(one.offsets_balance == one.tallies.balance == 0 for one in statuses)
        ends = dict.fromkeys(("decisions", "labels"), 0)
        for one in statuses:
            kind = "decisions" if one.shard.topic == topics[0] else "labels"
            ends[kind] += one.tallies.counted + one.tallies.thinned + one.tallies.waiting
        return ends

    def stop_traffic(self, traffic: Local) -> None:
        code, _ = traffic.stop()
        assert code == 0, traffic.log
        self.sent = json.loads(traffic.log.splitlines()[-1])

    def end(self) -> None:
        """SIGTERM to each: all of them end well, within their grace period.

        At the end of the fixture and no test of its own: tests come in any order.
        """
        ends = {name: one.stop() for name, one in self.running.items()}
        assert dict.fromkeys(ends, 0) == {name: code for name, (code, _) in ends.items()}
        assert len(ends) >= 4

    def close(self) -> None:
        """Whatever is left, after a failure."""
        for one in self._made:
            one.kill()


def network() -> str:
    """Loopback addresses that nobody else uses: the ports on them are the same for all."""
    return f"127.{random.SystemRandom().randrange(1, 255)}.{random.SystemRandom().randrange(255)}"


def read(address: str, token: str, ca: Path | None = None) -> str:
    """A page that wants a token, over TLS by the name that the certificate is for."""
    context = None
    if ca is not None:
        context = ssl.create_default_context(cafile=str(ca))
        context.check_hostname = False  # it is for the name of the Service, not for an address
    asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=20, context=context) as answer:
        text: str = answer.read().decode()
        return text


def shown(address: str, token: str, ca: Path | None = None) -> list[str]:
    """Slices of the page whose TPR is published."""
    text = read(f"{address}/metrics", token, ca)
    return [
        line
        for line in text.splitlines()
        if line.startswith("slicewatch_slice_rate_ratio{") and 'metric="tpr"' in line
    ]


# compose.yaml


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Path]:
    """What make-secrets.sh makes: variables, and the folder of the secrets."""
    folder = tmp_path_factory.mktemp("secrets")
    script = str(DEPLOY / "compose" / "make-secrets.sh")
    subprocess.run([script, str(folder)], check=True, capture_output=True)
    lines = (folder / ".env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines), folder / "secrets"


@pytest.fixture(scope="module")
def compose(variables: tuple[dict[str, str], Path]) -> Compose:
    return Compose(*variables)


@pytest.fixture(scope="module")
def around(compose: Compose, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    folder = tmp_path_factory.mktemp("surroundings")
    with surroundings(folder, compose.container("kafka")) as found:
        logins(compose.container("postgres"), found)
        yield found


def logins(postgres: Container, around: Surroundings) -> None:
    """The image's first start: the database, then the scripts in the order of their names."""
    around.server.create_database(postgres.environment["POSTGRES_DB"])
    environment = {**os.environ, **postgres.environment, **around.superuser}
    for target, script in sorted(postgres.mounts.items()):
        assert target.startswith("/docker-entrypoint-initdb.d/")
        words = ["--username", "postgres", "--dbname", "slicewatch", "--file", str(script)]
        done = subprocess.run(
            [str(around.server.bin / "psql"), "--no-psqlrc", *words],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def played(
    compose: Compose, around: Surroundings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Played]:
    """All of compose.yaml, with its traffic, from the first command to SIGTERM."""
    made = Played(tmp_path_factory.mktemp("compose"), around, network())
    try:
        eventually(lambda: probes_of_servers(made, compose, around) == [], "servers are healthy")
        for name in ("topics", "migrate"):
            made.once(compose.container(name))
        grants(made, compose, around)
        for name in ("ingest-1", "ingest-2", "serve-1", "serve-2"):
            made.begin(made.local(compose.container(name)))
        watch(made, compose)
        traffic = made.local(compose.container("traffic"))
        traffic.start()
        made.become_healthy()
        under_traffic(made, traffic)
        made.stop_traffic(traffic)
        yield made
        made.end()
    finally:
        made.close()


def probes_of_servers(made: Played, compose: Compose, around: Surroundings) -> list[str]:
    """Failing health checks of Kafka and PostgreSQL, asked as compose.yaml asks."""
    found: list[str] = []
    for name in ("kafka", "postgres"):
        container = compose.container(name)
        environment = {**container.environment, **around.superuser}
        bare = Container(name, (), environment, {}, container.probes, 10.0)
        folder = made.folder / f"probed-{time.monotonic_ns()}"
        found += Local(bare, folder, "127.0.0.1", made.names).failing_probes()
    return found


def grants(made: Played, compose: Compose, around: Surroundings) -> None:
    container = compose.container("grants")
    words = tuple("127.0.0.1" if word == "postgres" else word for word in container.command[:3])
    superuser = {**container.environment, **around.superuser}
    made.once(
        Container("grants", words + container.command[3:], superuser, container.mounts, (), 10.0)
    )


def watch(made: Played, compose: Compose) -> None:
    """Prometheus and Alertmanager with the arguments of compose.yaml, looking more often."""
    data = {f"=/{name}": f"={made.folder}/data-{name}" for name in ("prometheus", "alertmanager")}
    mounted = {"/etc/prometheus", "/etc/alertmanager"}
    quick = {"interval: 15s": "interval: 5s", "interval: 30s": "interval: 1s"}
    programs = {"prometheus": binary("prometheus"), "alertmanager": binary(*ALERTMANAGER)}
    ports = {"alertmanager": 9093, "prometheus": 9090}
    for name, port in ports.items():
        found = compose.container(name)
        command = (programs[name], *found.command)
        container = Container(
            name, command, found.environment, found.mounts, found.probes, found.grace
        )
        root = {path: f"{made.folder}/{name}/root{path}" for path in mounted}
        local = made.local(container, **data, **quick, **root)
        made.begin(local, f"--web.listen-address={local.address}:{port}")


def under_traffic(made: Played, traffic: Local) -> None:
    """Go on for the seconds that were asked for, with all probes passing all the time."""
    eventually(lambda: HISTORY_SENT in traffic.log, "nine days of history are sent")
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        assert traffic.running, traffic.log
        assert made.failing() == []
        time.sleep(2)


@pytest.fixture(scope="module")
def token(variables: tuple[dict[str, str], Path]) -> str:
    return (variables[1] / "reader_token").read_text()


@pytest.fixture(scope="module")
def service_url(variables: tuple[dict[str, str], Path], around: Surroundings) -> str:
    password = variables[0]["SERVICE_PASSWORD"]
    return around.server.url("slicewatch", "slicewatch_service", password)


def test_what_was_sent_is_counted(played: Played, service_url: str) -> None:
    assert played.sent["decisions"] >= 27_000
    assert played.sent["labels"] > 5_000
    eventually(
        lambda: played.counted(service_url, TOPICS["compose"]) == played.sent,
        f"{played.sent} is counted",
    )


def test_prometheus_says_the_same_of_all_processes(played: Played) -> None:
    base = f"http://{played.names['prometheus:9090']}"
    eventually(
        lambda: [one["value"][1] for one in query(base, "count(up == 1)")] == ["8"],
        "every port is scraped",
    )
    total = sum(played.sent.values())  # one a message
    read_so_far = "sum(max by (topic, partition) (slicewatch_messages_consumed_total))"

    def agrees() -> bool:
        """Of eight partitions each is shown in hundreds, at most a hundred late."""
        found = query(base, read_so_far)
        return bool(found) and 0 <= total - float(found[0]["value"][1]) <= 8 * 200

    eventually(agrees, f"Prometheus counts {total} messages, by the hundred")
    lost = query(base, "max(abs(slicewatch_conservation_imbalance))")
    assert [one["value"][1] for one in lost] == ["0"]


def test_the_sign_of_life_reaches_alertmanager(played: Played) -> None:
    base = f"http://{played.names['alertmanager:9093']}"

    def arrived() -> bool:
        alerts: list[dict[str, Any]] = get(f"{base}/api/v2/alerts") or []
        return "SlicewatchWatchdog" in {one["labels"]["alertname"] for one in alerts}

    eventually(arrived, "the watchdog's alert")


def test_both_servers_show_the_slices_to_whoever_has_the_token(played: Played, token: str) -> None:
    for name in ("serve-1", "serve-2"):
        address = f"http://{played.names[f'{name}:9095']}"
        eventually(lambda where=address: shown(where, token) != [], "a TPR")  # type: ignore[misc]
        assert "reply-routing" in read(f"{address}/", token)
        with pytest.raises(urllib.error.HTTPError) as refused:
            read(f"{address}/metrics", "another token, just as long as the one")
        with refused.value:
            assert refused.value.code == 401


def test_the_readers_login_reads_what_is_published(
    played: Played, variables: tuple[dict[str, str], Path], around: Surroundings
) -> None:
    """A person's: only after the second run of roles.sql may it read the tables."""
    password = variables[0]["READER_PASSWORD"]
    engine = create_engine(around.server.url("slicewatch", "slicewatch_reader", password))

    def published() -> bool:
        with engine.connect() as connection:
            found = connection.execute(sa.text("SELECT count(*) FROM published_rate"))
            return bool(found.scalar_one())

    eventually(published, "rates are published")
    engine.dispose()
    assert played.running


# Kubernetes


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, dict[str, str]], Path]:
    """The three Secrets, but for the addresses of the database; and the authority's certificate."""
    made = make_certificates(tmp_path_factory.mktemp("certificates"), "DNS:slicewatch")
    tls = {"tls.crt": made.server, "tls.key": made.server_key, "ca.crt": made.ca}
    own = ("id-key", "prometheus-token", "team-token")
    return {
        "slicewatch": {name: secrets.token_hex(24) for name in own},
        "slicewatch-tls": {name: file.read_text() for name, file in tls.items()},
    }, made.ca


@pytest.fixture(scope="module")
def namespace(
    keys: tuple[dict[str, dict[str, str]], Path],
    around: Surroundings,
    variables: tuple[dict[str, str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Played]:
    """The example overlay: the migration, workers, servers, and the report in the end."""
    documents: list[Document] = kustomized(DEPLOY / "kubernetes" / "overlays" / "example")
    folder = tmp_path_factory.mktemp("kubernetes")
    url = database(around, variables[0])
    known: Mapping[str, dict[str, str]] = {**keys[0], "slicewatch-database": url}
    manifests = Manifests(documents, known, folder / "mounted")
    made = Played(folder / "pods", around, network())
    for topic in TOPICS["kubernetes"]:
        around.broker.create_topic(topic, partitions=4)
    with ExitStack() as stack:
        stack.callback(made.close)
        made.once(manifests.container("Job", "slicewatch-migrate", "slicewatch-migrate"))
        for kind, name in (
            ("StatefulSet", "slicewatch-ingest"),
            ("Deployment", "slicewatch-serve"),
        ):
            for number in range(2):
                pod = manifests.container(kind, name, f"{name}-{number}")
                made.begin(made.local(pod))
        traffic = made.local(generator())
        traffic.start()
        made.become_healthy()
        under_traffic(made, traffic)
        made.stop_traffic(traffic)
        eventually(lambda: reported(made, manifests), "the report of last week")
        yield made
        made.end()


def database(around: Surroundings, variables: Mapping[str, str]) -> dict[str, str]:
    """A database of its own, with the roles of the manual and the logins that are there."""
    around.server.create_database("in_cluster")
    roles = str(DEPLOY / "postgresql" / "roles.sql")
    subprocess.run(
        [str(around.server.bin / "psql"), "--username", "postgres", "--dbname", "in_cluster",
         "--quiet", "--file", roles],
        env={**os.environ, **around.superuser}, check=True, capture_output=True,
    )  # fmt: skip
    logins = {"service-url": "SERVICE", "deploy-url": "DEPLOY"}
    return {
        key: around.server.url(
            "in_cluster", f"slicewatch_{name.lower()}", variables[f"{name}_PASSWORD"]
        )
        for key, name in logins.items()
    }


def generator() -> Container:
    """The synthetic router of compose.yaml, on the topics of the manifests."""
    decisions, labels = TOPICS["kubernetes"]
    words = ("--bootstrap", "kafka:9092", "--days", "9", "--per-day", "1500")
    topics = ("--decisions-topic", decisions, "--labels-topic", labels)
    script = str(DEPLOY / "compose" / "traffic.py")
    return Container("traffic", ("python", script, *words, *topics), {}, {}, (), 15.0)


def reported(made: Played, manifests: Manifests) -> bool:
    """Whether the CronJob's command has written the report; it fails until the week is stored."""
    found = manifests.container("CronJob", "slicewatch-report", f"report-{time.monotonic_ns()}")
    tried = made.local(found)
    made.reported = (datetime.now(UTC) - timedelta(weeks=1)).strftime("%G-W%V")
    tried.start()
    written = tried.finish() in {0, 1}  # 1: the week is not approved
    written = written and ".json" in tried.log
    if written:
        (made.folder / "report").write_text(tried.log)
    else:
        assert "slicewatch: " in tried.log, tried.log
    return written


def test_what_was_sent_to_the_cluster_is_counted(
    namespace: Played, around: Surroundings, variables: tuple[dict[str, str], Path]
) -> None:
    password = variables[0]["SERVICE_PASSWORD"]
    url = around.server.url("in_cluster", "slicewatch_service", password)
    eventually(
        lambda: namespace.counted(url, TOPICS["kubernetes"]) == namespace.sent,
        f"{namespace.sent} is counted",
    )


def says_how_it_is(address: str) -> bool:
    """Return True once a process says whether it reads, or whether the service is blind."""
    own = read(f"http://{address}:9096/metrics", "")
    return "\nslicewatch_consumer_state{" in own or "\nslicewatch_blind{" in own


def test_the_pod_monitor_finds_every_metric_by_its_credentials(
    namespace: Played, keys: tuple[dict[str, dict[str, str]], Path]
) -> None:
    """Token, authority and ports are those that the PodMonitor refers to."""
    held, ca = keys
    token = held["slicewatch"]["prometheus-token"]
    for name, one in namespace.running.items():
        eventually(lambda where=one.address: says_how_it_is(where), f"the state of {name}")  # type: ignore[misc]
        address = f"https://{one.address}:9095"
        if "serve" in name:
            eventually(lambda where=address: shown(where, token, ca) != [], "a TPR")  # type: ignore[misc]
        assert "slicewatch_attribute_values_unknown_total" in read(
            f"{address}/metrics", token, ca
        ), name


def test_the_report_of_last_week_is_written_by_the_cron_job(namespace: Played) -> None:
    said = (namespace.folder / "report").read_text()
    files = [Path(line) for line in said.splitlines() if line.startswith("/")]
    assert {file.suffix for file in files} == {".html", ".json", ".csv", ".md"}
    for file in files:
        assert file.is_relative_to(namespace.folder)
        assert namespace.reported in file.name
        assert file.stat().st_size > 0
