"""Two ports: what is about slices on one, the service's own on the other, health on both."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import logging
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from certificates import Certificates, make_certificates
from prometheus_client.parser import text_string_to_metric_families as parse
from served import FAR, StillClock, of_the_server

from alerts.exposition import catalogue
from alerts.exposition.exporter import Exporter
from alerts.exposition.service_metrics import ServiceMetrics
from alerts.http import Find, HealthChecks, HttpConfig, Servers, views
from monitor.core.bias_scores import BiasDimension, BiasScore, CurrentScore
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import ContractTable, SliceRow, Snapshot, WindowTable
from monitor.core.state import State
from monitor.errors import SlicewatchError, StoreError
from monitor.logs import JsonFormatter
from monitor.records import Shard
from monitor.shard_status import ConsumerState, Tallies

ACCEPT_OPENMETRICS = "application/openmetrics-text;version=1.0.0"
FAIRNESS = HttpConfig(port=0, tokens={"prometheus": "first", "grafana": "second"})
OPERATIONS = HttpConfig(port=0, slices=False, section="server.operations")
SECRETS = ("lesson", "variety", "formal", "auto_serve", "human_review", "team")
"""Contract, attribute, value, routes and owner of what is published below."""
Start = Callable[..., Servers]


@pytest.fixture
def begun() -> threading.Event:
    """Whether start-up has finished."""
    event = threading.Event()
    event.set()
    return event


@pytest.fixture
def exporter(begun: threading.Event) -> Exporter:
    row = SliceRow("variety=formal", dict.fromkeys(Metric, State.SUPPRESSED))
    table = WindowTable("7d", row, ())
    contract = ContractTable("lesson", "1", "team", True, 1, "7d", {}, {}, {}, {}, (table,))
    metrics = ServiceMetrics(reasons=("json",))
    asked = {"auto_serve": 3_000, "human_review": 2_000}
    metrics.set_shard(Shard("decisions", 0), Tallies(requested=asked), 1, 1.0, offsets=0)
    metrics.set_consumer_state(ConsumerState.CAUGHT_UP)
    metrics.add_unknown_values("variety", 500)
    metrics.add_unknown_fields("decision", {"note": 500})
    metrics.add_below_threshold(500)
    metrics.set_label_health(0.5, 0.9)
    metrics.set_unpublished_labels(500)
    metrics.set_clusters(1, 64, repeats=False)
    dimension = BiasDimension("refusals", 0.05, at_least=False, drift=0.03)
    score = BiasScore("refusals", 20_000, 0.04, 400, "hiring", "1", "m-1")
    metrics.set_bias_scores([CurrentScore(dimension, score, 0.01, 20_007)])
    made = Exporter(metrics, max_series=1_000, clock=StillClock(), started=begun.is_set)
    made.publish(Snapshot(None, None, (contract,)))
    return made


@pytest.fixture
def health() -> HealthChecks:
    return HealthChecks(lambda: True, lambda: (True, ""), lambda: True)


@pytest.fixture
def start(exporter: Exporter, health: HealthChecks) -> Iterator[Start]:
    running: list[Servers] = []

    def started(
        fairness: HttpConfig = FAIRNESS,
        operations: HttpConfig | None = OPERATIONS,
        snapshots: Find | None = None,
    ) -> Servers:
        servers = Servers(fairness, operations, exporter, health, StillClock(), snapshots=snapshots)
        servers.start()
        running.append(servers)
        return servers

    yield started
    for servers in running:
        servers.stop()


def fetch(port: int | None, path: str = "/metrics", **headers: str) -> tuple[int, bytes]:
    assert port
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=FAR)
    with contextlib.closing(client):
        client.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = client.getresponse()
        return answer.status, answer.read()


def names(body: bytes) -> set[str]:
    return {family.name for family in parse(body.decode())}


def stems(*families: catalogue.Family) -> set[str]:
    return {family.stem for family in families}


def accessed(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, int]]:
    records = [vars(r) for r in caplog.records if r.name == "slicewatch.access"]
    return [(r["reader"], r["path"], r["status"]) for r in records]


def test_one_port_serves_everything(start: Start) -> None:
    servers = start(operations=None)
    _, body = fetch(servers.port, Authorization="Bearer first")

    assert servers.operations_port is None
    shown = ("slice_state", "attribute_values_unknown", "consumer_state")
    assert {f"slicewatch_{name}" for name in shown} < names(body)
    assert "process_start_time_seconds" in names(body)


@pytest.mark.parametrize("accept", ["", ACCEPT_OPENMETRICS])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_the_operations_port_tells_of_no_slice(start: Start, accept: str, encoding: str) -> None:
    port = start().operations_port
    status, body = fetch(port, Accept=accept, Accept_Encoding=encoding)
    text = (gzip.decompress(body) if encoding == "gzip" else body).decode()

    assert status == 200, "probes and scrapers of operators have no token"
    assert "slicewatch_consumer_state" in text
    assert not [secret for secret in SECRETS if secret in text]
    assert "slice_" not in text.replace("slicewatch_", "")


def test_every_family_is_on_exactly_one_of_two_ports(start: Start) -> None:
    servers = start()
    _, fairness = fetch(servers.port, Authorization="Bearer first")
    _, operations = fetch(servers.operations_port)

    ours = {name for name in names(operations) if not name.startswith("process_")}
    assert ours <= stems(*catalogue.OPERATIONS)
    assert names(fairness) <= stems(*catalogue.PAGE, *catalogue.OF_DECISIONS)
    assert stems(*catalogue.OF_DECISIONS) <= names(fairness)
    one = start(operations=None)
    _, everything = fetch(one.port, Authorization="Bearer first")
    assert names(everything) == names(fairness) | names(operations)


def test_no_family_of_operations_has_a_label_for_an_attribute_a_value_or_a_route() -> None:
    labels = {label for family in catalogue.OPERATIONS for label in family.labels}

    own = {
        "topic",
        "partition",
        "outcome",
        "reason",
        "field",
        "kind",
        "equation",
        "state",
        "version",
    }
    assert labels <= own | {"certificate", "expected", "week"}
    assert not set(catalogue.OPERATIONS) & {*catalogue.PAGE, *catalogue.OF_DECISIONS}
    assert len(set(catalogue.CATALOGUE)) == len(catalogue.CATALOGUE)


def test_both_ports_answer_probes_without_credentials(start: Start) -> None:
    servers = start(operations=replace(OPERATIONS, tokens={"default": "ops"}))

    for port in (servers.port, servers.operations_port):
        for path in ("/livez", "/healthz", "/readyz", "/startupz"):
            assert fetch(port, path) == (200, b"ok\n")


def test_the_operations_port_may_ask_for_a_token_of_its_own(start: Start) -> None:
    servers = start(operations=replace(OPERATIONS, tokens={"default": "ops"}))

    assert fetch(servers.operations_port)[0] == 401
    assert fetch(servers.operations_port, Authorization="Bearer first")[0] == 401
    assert fetch(servers.operations_port, Authorization="Bearer ops")[0] == 200
    assert fetch(servers.port, Authorization="Bearer ops")[0] == 401


PUBLISHED = {7: b'{"watermark":0}', 999_999_999_999_999_999: b"{}"}


@pytest.mark.parametrize("two", [True, False])
def test_a_snapshot_is_read_by_its_number(
    start: Start, caplog: pytest.LogCaptureFixture, *, two: bool
) -> None:
    caplog.set_level(logging.INFO)
    servers = start(operations=OPERATIONS if two else None, snapshots=PUBLISHED.get)
    paths = {f"/snapshot/{number}": body for number, body in PUBLISHED.items()}
    for path, body in paths.items():
        assert fetch(servers.port, path, Authorization="Bearer first") == (200, body)
    unknown = ("8", "", "07", "-7", "7/", "7/7", "\u0667", "1" + "0" * 18, "x", "7x")
    for number in unknown:
        path = f"/snapshot/{urllib.parse.quote(number)}"
        assert fetch(servers.port, path, Authorization="Bearer first")[0] == 404, number
    told = {path for _, path, _ in accessed(caplog)}
    assert told == {"/snapshot/"}, "the log names the view, not what was asked for"


def test_who_may_not_read_slices_reads_no_snapshot(start: Start) -> None:
    servers = start(snapshots=PUBLISHED.get)
    assert fetch(servers.port, "/snapshot/7")[0] == 401
    assert fetch(servers.port, "/snapshot/8")[0] == 401, "nor whether there is one"
    assert fetch(servers.operations_port, "/snapshot/7", Authorization="Bearer first")[0] == 404
    assert fetch(start().port, "/snapshot/7", Authorization="Bearer first")[0] == 404


def test_while_the_store_is_away_no_snapshot_is_read(start: Start) -> None:
    def away(_: int) -> bytes:
        raise StoreError("database is away")

    servers = start(snapshots=away)
    for _ in range(2):  # the second has its turn, too
        answer = fetch(servers.port, "/snapshot/7", Authorization="Bearer first")
        assert answer == (503, b"503 Service Unavailable\n")
    assert fetch(servers.port, "/metrics", Authorization="Bearer first")[0] == 200


def test_readers_of_snapshots_wait_for_their_turn_but_not_for_ever(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that does not answer costs one connection of ours, and no page."""
    monkeypatch.setattr(views, "_TURN_SECONDS", 0.05)
    reading, done = threading.Event(), threading.Event()

    def slow(_: int) -> bytes:
        reading.set()
        assert done.wait(60)
        return b"{}"

    servers = start(snapshots=slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(fetch, servers.port, "/snapshot/7", Authorization="Bearer first")
        assert reading.wait(60)
        assert fetch(servers.port, "/snapshot/7", Authorization="Bearer second")[0] == 503
        assert fetch(servers.port, "/metrics", Authorization="Bearer second")[0] == 200
        done.set()
        assert first.result() == (200, b"{}")


def test_withheld_is_told_on_the_operations_port(start: Start, begun: threading.Event) -> None:
    servers = start()
    assert b"slicewatch_exposition_withheld 0.0" in fetch(servers.operations_port)[1]

    begun.clear()
    assert b"slicewatch_exposition_withheld 1.0" in fetch(servers.operations_port)[1]
    assert b"slicewatch_slice_state" not in fetch(servers.port, Authorization="Bearer first")[1]


def test_readers_of_slices_are_logged_by_name(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    servers = start()
    fetch(servers.port, "/metrics?name[]=secret", Authorization="Bearer second")
    fetch(servers.port, Authorization="Bearer first")
    fetch(servers.port, Authorization="Bearer guessed")
    fetch(servers.port)

    assert accessed(caplog) == [
        ("grafana", "/metrics", 200),
        ("prometheus", "/metrics", 200),
        ("unknown", "/metrics", 401),
        ("unknown", "/metrics", 401),
    ]
    told = "\n".join(map(JsonFormatter().format, of_the_server(caplog.records)))
    for secret in ("secret", "first", "second", "guessed", "127.0.0.1"):
        assert secret not in told


def test_what_is_about_no_slice_is_not_logged(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    servers = start()
    for path in ("/metrics", "/livez", "/", "/nowhere"):
        fetch(servers.operations_port, path)
    for path in ("/livez", "/", "/nowhere"):
        fetch(servers.port, path)

    assert accessed(caplog) == []


def test_without_credentials_readers_are_anonymous_and_stopping_tells_the_rest(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    servers = start(fairness=HttpConfig(port=0), operations=None)
    for _ in range(3):
        fetch(servers.port)
    servers.stop()

    counts = [vars(r)["count"] for r in caplog.records if r.name == "slicewatch.access"]
    assert accessed(caplog) == [("anonymous", "/metrics", 200)] * 2
    assert counts == [1, 2]


def test_a_view_that_fails_is_logged_as_it_was_answered(
    start: Start, exporter: Exporter, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(accept: str, gzip: bool) -> tuple[list[bytes], str]:
        raise RuntimeError

    exporter.fairness = fail  # type: ignore[method-assign]
    caplog.set_level(logging.INFO)
    fetch(start().port, Authorization="Bearer first")

    assert accessed(caplog) == [("prometheus", "/metrics", 500)]


def test_a_certificate_is_logged_by_its_common_name(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    files = make_certificates(tmp_path)
    servers = start(
        HttpConfig(
            port=0, cert_file=files.server, key_file=files.server_key, client_ca_file=files.ca
        )
    )
    assert [fetch_tls(servers.port, files, known) for known in (True, False)] == [200, 403]

    assert accessed(caplog) == [
        ("slicewatch test client", "/metrics", 200),
        ("unknown", "/metrics", 403),
    ]


def fetch_tls(port: int, files: Certificates, known: bool) -> int:
    context = ssl.create_default_context(cafile=files.ca)
    if known:
        context.load_cert_chain(files.client, files.client_key)
    client = http.client.HTTPSConnection("localhost", port, timeout=FAR, context=context)
    with contextlib.closing(client):
        client.request("GET", "/metrics")
        answer = client.getresponse()
        answer.read()
        return answer.status


def test_the_operations_port_may_be_reached_by_others_and_slices_may_not(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    servers = start(operations=replace(OPERATIONS, host="0.0.0.0"))

    assert b"slicewatch_server_insecure 0.0" in fetch(servers.operations_port)[1]
    assert of_the_server(caplog.records) == []
    with pytest.raises(SlicewatchError, match=r"server\.listen"):
        start(fairness=replace(FAIRNESS, host="0.0.0.0"))


def test_all_ports_or_none(start: Start, exporter: Exporter, health: HealthChecks) -> None:
    taken = start().port
    other = replace(OPERATIONS, port=taken)
    servers = Servers(FAIRNESS, other, exporter, health, StillClock())
    with pytest.raises(SlicewatchError, match=r"server\.operations\.listen: cannot listen"):
        servers.start()

    with pytest.raises(ConnectionRefusedError):
        fetch(servers.port)


@pytest.mark.parametrize(
    ("operations", "key"),
    [
        (replace(OPERATIONS, port=70_000), "server.operations.listen"),
        (replace(OPERATIONS, tokens={"default": " "}), "server.operations.token"),
        (replace(OPERATIONS, cert_file=Path("/no.pem")), "server.operations.tls_cert_file"),
    ],
)
def test_errors_name_the_section(
    operations: HttpConfig, key: str, exporter: Exporter, health: HealthChecks
) -> None:
    with pytest.raises(SlicewatchError, match=key):
        Servers(FAIRNESS, operations, exporter, health, StillClock())


def test_stopping_twice_or_before_the_start_is_nothing(
    exporter: Exporter, health: HealthChecks
) -> None:
    servers = Servers(FAIRNESS, OPERATIONS, exporter, health, StillClock())
    assert (servers.port, servers.operations_port) == (0, 0)
    servers.stop()
    servers.stop()
