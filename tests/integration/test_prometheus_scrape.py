"""The page as a real Prometheus reads it: over TLS, with the token, stored and queried back."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import Certificates, make_certificates
from free_ports import free_port

from alerts.exposition.exporter import Exporter
from alerts.exposition.service_metrics import ServiceMetrics
from alerts.http import HealthChecks, HttpConfig, Servers
from alerts.rules.prometheus import example
from monitor.core.metric import Metric
from monitor.core.probes.flips import FlipDirection
from monitor.core.publish.snapshot import (
    CalibrationCell,
    ContractTable,
    GroupTable,
    Period,
    ShownFlips,
    ShownGap,
    ShownProbeSet,
    ShownRate,
    SliceRow,
    Snapshot,
    Spread,
    WindowTable,
)
from monitor.core.state import State
from monitor.core.time import DAY
from monitor.records import Shard
from monitor.settings import Server, Settings
from monitor.settings.kinds import LocalFile, Secret
from monitor.settings.sections import Operations
from monitor.shard_status import Tallies

TOKEN = "scrape-token"
SECONDS = 120.0


class RealClock:
    def now(self) -> int:
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        return time.monotonic()


def binary(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true and {name} is missing", pytrace=False)
        pytest.skip(f"{name} is missing")
    return found


def shown() -> Snapshot:
    states = dict.fromkeys(Metric, State.WITHIN_CONTRACT)
    rate = ShownRate(0.83, 0.43, 0.98, 26)
    gap = ShownGap("complement", 0.33, -0.1, 0.7, 0.6, 0.2, 1.1)
    calibration = (CalibrationCell("below 0.70", rate),)
    row = SliceRow(
        *("channel=chat", states, {Metric.TPR: rate}, {Metric.TPR: gap}),
        *({Metric.TPR: 0.17}, calibration, 0.98),
    )
    hidden = SliceRow("channel=__other__", dict.fromkeys(Metric, State.SUPPRESSED))
    spread = Spread(Metric.TPR, "channel=chat", "channel=email", 0.4)
    now = RealClock().now()
    periods: dict[str, Any] = {
        "decisions": Period(now - 10, now),
        "labelled": Period(now - 10, now - 5),
    }
    group = GroupTable("channel", (row, hidden), (spread,), **periods)
    window = WindowTable("7d", hidden, (group,), **periods)
    limits = {Metric.TPR: 0.1}
    table = ContractTable(
        "lesson", "1", "team", True, 11, "7d", limits, limits, limits, {Metric.TPR: 50}, (window,)
    )
    flips = (ShownFlips("conversational", FlipDirection.HELD_BACK, "threshold", 3),)
    probes = ShownProbeSet(
        *("tone", "5f" * 32, ("conversational",), 40, flips, 1, DAY, 0.05, now),
        {FlipDirection.HELD_BACK: now},
    )
    return Snapshot(now, now, (table,), (probes,))


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path)


@pytest.fixture
def exporter() -> Exporter:
    metrics = ServiceMetrics(reasons=("json",), k=1)
    metrics.set_shard(Shard("decisions", 0), Tallies(messages=20, events=20, counted=20), 0, 0.0)
    metrics.set_consumer_state("caught_up")
    metrics.observe_label_delays([100.0, 1e6] * 50)
    metrics.show_process("evaluation_timestamp_seconds", RealClock().now() / 1e6)
    metrics.show_process("evaluation_duration_seconds", 0.1)
    made = Exporter(metrics, max_series=10_000, clock=RealClock())
    made.publish(shown())
    return made


@pytest.fixture
def server(exporter: Exporter, certificates: Certificates) -> Iterator[Servers]:
    config = HttpConfig(
        port=0,
        tokens={"prometheus": TOKEN},
        cert_file=certificates.server,
        key_file=certificates.server_key,
    )
    health = HealthChecks(lambda: True, lambda: (True, ""), lambda: True)
    running = Servers(config, None, exporter, health, RealClock())
    running.start()
    yield running
    running.stop()


def test_promtool_finds_nothing_to_say(exporter: Exporter) -> None:
    page, _ = exporter.body("", gzip=False)
    done = subprocess.run(
        [binary("promtool"), "check", "metrics"],
        input=b"".join(page),
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def config_text(certificates: Certificates, port: int) -> str:
    def job(name: str, token: bool, scheme: str) -> dict[str, Any]:
        return {
            **{"job_name": name, "scheme": scheme},
            **({"authorization": {"credentials": TOKEN}} if token else {}),
            "tls_config": {"ca_file": str(certificates.ca)},
            "static_configs": [{"targets": [f"localhost:{port}"]}],
        }

    jobs = [job("good", True, "https"), job("no_token", False, "https"), job("plain", True, "http")]
    settings = {"scrape_interval": "2s", "scrape_timeout": "2s"}
    return json.dumps({"global": settings, "scrape_configs": jobs})  # JSON is YAML


@contextlib.contextmanager
def prometheus(folder: Path, config: str) -> Iterator[str]:
    (folder / "prometheus.yml").write_text(config)
    port = free_port()
    command = [
        *(binary("prometheus"), f"--config.file={folder / 'prometheus.yml'}"),
        *(f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"),
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=SECONDS)


def query(base: str, expression: str) -> dict[frozenset[tuple[str, str]], float] | None:
    """The instant vector of an expression; None while Prometheus does not answer."""
    address = f"{base}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    try:
        with urllib.request.urlopen(address, timeout=30) as response:
            result = json.load(response)["data"]["result"]
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None
    ignored = {"__name__", "instance", "job"}
    return {
        frozenset((k, v) for k, v in row["metric"].items() if k not in ignored): float(
            row["value"][1]
        )
        for row in result
    }


def sees(base: str, expression: str, wanted: object) -> None:
    """Wait for the answer: where a scrape takes longer than its time-out, series end for one."""
    end = time.monotonic() + SECONDS
    while (found := query(base, expression)) != wanted:
        assert time.monotonic() < end, f"{expression} is {found}"
        time.sleep(0.2)


def test_prometheus_scrapes_with_tls_and_token(
    server: Servers, certificates: Certificates, tmp_path: Path
) -> None:
    with prometheus(tmp_path, config_text(certificates, server.port)) as base:
        sees(base, "count(up)", {frozenset(): 3.0})
        sees(base, 'up{job="good"}', {frozenset(): 1.0})
        sees(base, 'up{job="no_token"}', {frozenset(): 0.0})
        sees(base, 'up{job="plain"}', {frozenset(): 0.0})
        labels = {"contract": "lesson", "metric": "tpr", "group_by": "channel"}
        labels |= {"slice": "channel=chat", "window": "7d"}
        key = frozenset(labels.items())
        sees(base, "slicewatch_slice_rate_ratio", {key: 0.83})
        joined = "slicewatch_slice_rate_upper_ratio - slicewatch_slice_rate_lower_ratio"
        sees(base, joined, pytest.approx({key: 0.55}))
        hidden = 'count(slicewatch_slice_state{state="suppressed"} == 1)'
        sees(base, hidden, {frozenset(): float(2 * len(Metric))})
        shard = frozenset({"topic": "decisions", "partition": "0"}.items())
        sees(base, "slicewatch_messages_consumed_total", {shard: 20.0})
        sees(base, "slicewatch_label_delay_seconds_count", {frozenset(): 100.0})
        sees(base, "count(slicewatch_probe_pair_flips_total)", {frozenset(): 30.0})
        sees(base, "sum(slicewatch_probe_pair_flips_total)", {frozenset(): 3.0})
        sees(base, "count(slicewatch_probe_pairs_total == 40)", {frozenset(): 1.0})

        server.stop()
        sees(base, 'up{job="good"}', {frozenset(): 0.0})


@pytest.mark.full
def test_the_rendered_configuration_reads_both_ports(
    exporter: Exporter, certificates: Certificates, tmp_path: Path
) -> None:
    """As ``slicewatch render`` writes it, but for the haste and what else it names."""
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    tls = {"cert_file": certificates.server, "key_file": certificates.server_key}
    fairness = HttpConfig(host="0.0.0.0", port=free_port(), tokens={"default": TOKEN}, **tls)  # type: ignore[arg-type]
    operations = HttpConfig(port=free_port(), slices=False, section="server.operations")
    settings = Settings(
        server=Server(
            listen=f"{fairness.host}:{fairness.port}",
            token=Secret(token.read_text(), str(token)),
            tls_cert_file=LocalFile(str(certificates.server)),
            operations=Operations(listen=f"127.0.0.1:{operations.port}"),
        )
    )
    document = example(settings) | {"rule_files": [], "alerting": {}}
    document["global"] = {"scrape_interval": "2s", "scrape_timeout": "2s"}
    health = HealthChecks(lambda: True, lambda: (True, ""), lambda: True)
    running = Servers(fairness, operations, exporter, health, RealClock())
    running.start()
    try:
        with prometheus(tmp_path, json.dumps(document)) as base:
            sees(base, 'sum(up{job="slicewatch"})', {frozenset(): 2.0})
            sees(base, "count(up)", {frozenset(): 2.0})
            sees(base, "count(slicewatch_slice_rate_ratio)", {frozenset(): 1.0})
            sees(base, "count(slicewatch_messages_consumed_total)", {frozenset(): 1.0})
    finally:
        running.stop()
