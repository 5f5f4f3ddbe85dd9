"""An example router whose threshold for one variant is changed: from probe to page, and back."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
import tomllib
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kafka_broker import KafkaBroker
from monitoring import eventually
from notified import Watch, watching
from running import Running
from warm_start import run

from monitor.detection.flip_test import fewest_flips

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples" / "probes"
SETTINGS = EXAMPLES / "probes.toml"
DECLARED = tomllib.loads(SETTINGS.read_text())["probes"]["sets"][0]
PAIRS, NAME = DECLARED["pairs"], DECLARED["name"]
KEY = "0123456789abcdef0123456789abcdef"
PAGE, UNSIGNED = "SlicewatchProbeFlips", "probes_unsigned"
AHEAD = timedelta(minutes=6)  # of the service's clock


def example_router() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_router", EXAMPLES / "router.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def slicewatch(folder: Path, environment: dict[str, str], *arguments: str) -> None:
    """Run one command as a user does; it must succeed."""
    command = [*arguments, "--settings", str(SETTINGS)]
    run(command, cwd=folder, env=environment, timeout=120).check_returncode()


class Fast(Running):
    """A service whose clock is ahead, so that nobody waits for five minutes to be over."""

    program = (str(Path(__file__).parents[1] / "support/drivers/stepped_clock.py"),)


@dataclass
class Site:
    """A router under probes, the service, and who watches it."""

    folder: Path
    environment: dict[str, str]
    target: str
    service: Running
    watch: Watch
    broker: KafkaBroker
    topic: str
    rounds: int = 0

    def thresholds(self, **values: float) -> None:
        """Change what the router does, while it runs."""
        body = json.dumps(values).encode()
        request = urllib.request.Request(self.target, body, method="PUT")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200

    def probe(self) -> None:
        """Send the set once, and wait until every pair of it was compared."""
        options = ("--target", self.target, "--rate", "500", "--seed", str(self.rounds))
        slicewatch(
            self.folder, self.environment, "probe", "run", str(EXAMPLES / "set.jsonl"), *options
        )
        # Something ordinary comes after it, as late as the service's clock says: probes have their
        # turn once their five minutes are over.
        later = datetime.now(UTC) + AHEAD
        self.broker.produce(
            self.topic,
            [decision(f"tick-{self.rounds}", decided_at=later.isoformat())],
            partition=0,
            timestamps_ms=[int(later.timestamp() * 1000)],
        )
        self.rounds += 1
        want = float(PAIRS * self.rounds)
        self.service.until(
            lambda: self.service.value("slicewatch_probe_pairs_total") == want,
            f"{want} comparisons",
        )

    def flips(self) -> dict[tuple[str, str], float]:
        """All flips by direction and stage, but for zeros."""
        return {
            (dict(labels)["direction"], dict(labels)["stage"]): value
            for (name, labels), value in self.service.metrics().items()
            if name == "slicewatch_probe_pair_flips_total" and value
        }

    def page(self, direction: str) -> float | None:
        return self.service.value("slicewatch_probe_page", direction=direction)

    def told(self) -> list[dict[str, Any]]:
        return self.watch.told.of("page", PAGE)


@pytest.fixture
def site(apache: KafkaBroker, topic_name: str, tmp_path: Path) -> Iterator[Site]:
    topics = f"{topic_name}-d", f"{topic_name}-l"
    apache.create_topic(topics[0], 2)
    apache.create_topic(topics[1], 1)
    (tmp_path / "probe.key").write_text(KEY)
    (tmp_path / "clock").write_text(str(AHEAD // timedelta(microseconds=1)))
    added = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": apache.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": topics[0],
        "SLICEWATCH__STREAM__LABELS_TOPIC": topics[1],
        "SLICEWATCH__STREAM__GROUP_ID": topic_name[-8:],
        "SLICEWATCH__STREAM__LATENESS": "0s",
        "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
        "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db",
        "STEPPED_CLOCK": str(tmp_path / "clock"),
        "SLICEWATCH__PROBES__KEY_FILE": str(tmp_path / "probe.key"),
    }
    environment = os.environ | added
    slicewatch(tmp_path, environment, "probe", "router-key", str(tmp_path / "router.key"))
    module = example_router()
    server = module.Server(module.ExampleRouter((tmp_path / "router.key").read_text().strip()))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with (
            Fast(tmp_path, ["run", "--settings", str(SETTINGS)], added) as service,
            watching(tmp_path, SETTINGS, added, service.port) as watch,
        ):
            yield Site(tmp_path, environment, server.url, service, watch, apache, topics[0])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.timeout(600)
def test_a_changed_threshold_is_paged_with_direction_and_stage(site: Site) -> None:
    # The router treats both variants alike: nothing flips, however often it is asked.
    site.probe()
    site.probe()
    assert site.flips() == {}
    assert site.page("held_back") == site.page("served") == 0

    # One variant now needs a higher score: one round of the set is enough.
    site.thresholds(conversational=0.80)
    site.probe()
    ((key, count),) = site.flips().items()
    assert key == ("held_back", "threshold")
    assert fewest_flips(1) <= count < PAIRS
    assert site.page("held_back") == 1
    assert site.page("served") == 0
    eventually(lambda: bool(site.told()), "somebody is told")
    (body,) = site.told()
    (alert,) = body["alerts"]
    assert alert["labels"]["probe_set"] == NAME
    assert alert["labels"]["direction"] == "held_back"
    said = alert["annotations"]["summary"] + alert["annotations"]["description"]
    assert "threshold" in said
    assert "A flip is a case to investigate, not a population disparity." in said
    assert "Synthetic test conditions" in said

    # The same flips again are no news, and end nothing. Nor does a restart.
    site.service.stop()
    site.service.restart()
    site.probe()
    assert site.flips() == {key: 2 * count}
    assert site.page("held_back") == 1

    # Repaired: the excess is gone, and people are told.
    site.thresholds(conversational=0.70)
    site.probe()
    assert site.flips() == {key: 2 * count}
    assert site.page("held_back") == 0
    eventually(lambda: site.told()[-1]["status"] == "resolved", "it is over")

    # No probe was ever counted as production; one that is not signed is.
    assert site.service.value("slicewatch_probes_unsigned_total") == 0
    site.broker.produce(site.topic, [unsigned()], partition=0)
    site.service.until(
        lambda: site.service.value("slicewatch_probes_unsigned_total") == 1, "the unsigned one"
    )


def decision(name: str, **fields: object) -> bytes:
    event = {
        "decision_id": name,
        "decided_at": datetime.now(UTC).isoformat(),
        "route": "auto_serve",
        "judge_score": 0.9,
        "threshold": 0.7,
        "evidence_passed": True,
        "attributes": {"language_variety": "formal", "channel": "chat"},
        "versions": {"judge": "j", "rubric": "r", "policy": "p", "router": "t"},
        "audit_p": 1.0,
        "label_requested": False,
    }
    return json.dumps(event | fields).encode()


def unsigned() -> bytes:
    return decision(
        "not-signed",
        traffic="probe",
        pair_id="q01",
        variant="formal",
        probe_set=DECLARED["digest"],
        signature="0" * 64,
    )
