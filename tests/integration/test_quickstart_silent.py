"""The quickstart as the README says it, watched by Prometheus and Alertmanager: nobody is told.

Before the first decision, and with a few; hour by hour, of the rules' time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lesson
import pytest
import yaml
from kafka_broker import KafkaBroker
from monitoring import eventually
from notified import PATIENT, Watch, watching
from running import Running
from scraped import Series

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
WATCHDOG, DEADMAN, CHAT = "SlicewatchWatchdog", "/deadman", "/chat"
EVALUATED = "slicewatch_evaluation_timestamp_seconds"
SECONDS = 12.0
"""Two hours of the rules' time, in which a minute is a tenth of a second: an hour is the longest
that an alert about a new service waits before it fires, but for one that waits a day."""
HOURS = 12
DECISIONS = 30


@dataclass
class Site:
    """The quickstart's installation on topics of its own."""

    broker: KafkaBroker
    topics: tuple[str, str]
    service: Running
    watch: Watch
    sent: int = 0

    def decide(self) -> None:
        """A decision of the last two hours, and its label."""
        minutes = 4 * (DECISIONS - self.sent)
        at, key = datetime.now(UTC) - timedelta(minutes=minutes), f"q{self.sent}"
        self.sent += 1
        attributes = {"channel": "chat", "language": "en"}
        events = lesson.decision(key, at, 0.9, attributes=attributes), lesson.label(key, at, True)
        for topic, event in zip(self.topics, events, strict=True):
            self.broker.produce(topic, [json.dumps(event).encode()])

    def alerts(self) -> set[tuple[str, str]]:
        """Alerts that fire, or are about to."""
        found = [one["metric"] for one in self.watch.asked("ALERTS")]
        return {(one["alertname"], one["alertstate"]) for one in found}

    def told(self, since: datetime) -> set[str]:
        """Names of the alerts begun since then that anybody was told of, but for the sign of life.

        What chats are told, webhooks are told as well.
        """
        return {
            alert["labels"]["alertname"]
            for path, body in self.watch.told.posts
            if path not in (DEADMAN, CHAT)
            for alert in body["alerts"]
            if datetime.fromisoformat(alert["startsAt"]) >= since
        }


def step(pattern: str, folder: Path, **environment: str) -> None:
    """Do what a line of the README says, in a folder beside a checkout."""
    (line,) = re.findall(rf"^ +({pattern}.*?)(?: +#.*)?$", README, re.MULTILINE)
    script = re.sub("^slicewatch ", f"{sys.executable} -m monitor ", line)
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


@contextmanager
def quickstart(broker: KafkaBroker, name: str, folder: Path) -> Iterator[Site]:
    """All that the README says, and only then Prometheus."""
    topics = f"{name}-d", f"{name}-l"
    broker.create_topic(topics[0], 2)
    broker.create_topic(topics[1], 1)
    (folder / "deploy").symlink_to(ROOT / "deploy")
    environment = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": broker.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": topics[0],
        "SLICEWATCH__STREAM__LABELS_TOPIC": topics[1],
        "SLICEWATCH__STREAM__GROUP_ID": name[-8:],
    }
    step("sed ", folder)
    step("slicewatch db new-key", folder)
    step("slicewatch check --connect", folder, **environment)
    settings = folder / "slicewatch.toml"
    with Running(folder, ["run"], environment) as service:
        service.until(lambda: service.value(EVALUATED) is not None, "an evaluation")
        watched = watching(folder / "watch", settings, environment, service.port, haste=PATIENT)
        with watched as watch:
            watch.wait_for("up == 1")
            yield Site(broker, topics, service, watch)


@pytest.mark.timeout(600)
def test_a_new_service_tells_nobody_of_anything(
    apache: KafkaBroker, topic_name: str, tmp_path: Path
) -> None:
    with quickstart(apache, topic_name, tmp_path) as site:
        # In a hurry Prometheus has no target for a moment, which is two minutes of the rules; of
        # its end somebody may be told at any time after.
        eventually(lambda: site.alerts() == {(WATCHDOG, "firing")}, "only the sign of life")
        since = datetime.now(UTC)
        stays_silent(site, since)
        assert site.service.value("slicewatch_watermark_timestamp_seconds") is None
        assert hours_of(site, tmp_path / "idle") == ""

        for _ in range(DECISIONS):
            site.decide()
        site.watch.wait_for(
            "slicewatch_slice_state and on (job) slicewatch_watermark_timestamp_seconds"
        )
        stays_silent(site, since)
        assert hours_of(site, tmp_path / "few") == ""


def stays_silent(site: Site, since: datetime) -> None:
    """For hours of the rules' time nothing but the sign of life fires, and nobody is told."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        loud = {name for name, state in site.alerts() if state == "firing"}
        assert loud == {WATCHDOG}
        time.sleep(0.5)
    assert site.told(since) == set()
    assert DEADMAN in {path for path, _ in site.watch.told.posts}, "somebody would be told"


def hours_of(site: Site, folder: Path) -> str:
    """Alerts by ``promtool`` in the hours in which the page stays as it is; empty without.

    What has moved between two looks goes on with the clock: instants of what is done again and
    again. All instants are moved, as promtool's time begins at 0.
    """
    before, at = site.service.metrics(), time.time()
    evaluated = before[EVALUATED, frozenset()]
    site.service.until(lambda: (site.service.value(EVALUATED) or 0.0) > evaluated + 2, "cycles")
    after = site.service.metrics()
    folder.mkdir()
    shutil.copy(ROOT / "deploy" / "prometheus" / "rules.yml", folder / "rules.yml")
    asked = {"expr": f'ALERTS{{alertname!="{WATCHDOG}",alertstate="firing"}}', "exp_samples": []}
    series = [{"series": 'up{job="slicewatch"}', "values": f"1x{60 * HOURS}"}]
    series += [told(key, before, after, at) for key in after if "_bucket" not in key[0]]
    moments = [{**asked, "eval_time": f"{hour}h"} for hour in range(1, HOURS + 1)]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": moments}
    document = {"rule_files": ["rules.yml"], "evaluation_interval": "5m", "tests": [test]}
    (folder / "test.yml").write_text(yaml.safe_dump(document))
    command = ["promtool", "test", "rules", str(folder / "test.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def told(
    key: tuple[str, frozenset[tuple[str, str]]], before: Series, after: Series, at: float
) -> dict[str, str]:
    """One series as promtool reads it, from the second look on."""
    name, labels = key
    written = ",".join(f"{n}={json.dumps(v)}" for n, v in sorted({*labels, ("job", "slicewatch")}))
    instant = name.endswith("_timestamp_seconds")
    start = after[key] - at if instant else after[key]
    step = 60 if instant and after[key] != before.get(key, after[key]) else 0
    return {"series": f"{name}{{{written}}}", "values": f"{start:f}+{step}x{60 * HOURS}"}
