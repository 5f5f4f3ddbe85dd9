"""A running service with two ports: who gets slices, who does not, and what is told of both."""

from __future__ import annotations

import gzip
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import lesson
import pytest
from brokers import Broker
from free_ports import free_port
from prometheus_client.parser import text_string_to_metric_families as parse
from running import Running
from signed_probes import WITH_KEY

from alerts.exposition import catalogue
from monitor.core.publish.snapshot import decode

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"
TOKENS = {"prometheus": "first-token-of-the-test", "grafana": "second-token-of-the-test"}
UNLISTED = "unlisted-value"
SECRETS = (
    *("ten-pairs", "language_variety", "conversational", "formal", "channel", "chat", "email"),
    *("auto_serve", "human_review", "blocked_by_evidence", UNLISTED, "slice=", "group_by="),
)
"""Contract, attributes, values and routes of what the service counts."""
FORMATS: tuple[dict[str, str], ...] = (
    {},
    {"Accept": "application/openmetrics-text;version=1.0.0"},
    {"Accept-Encoding": "gzip"},
)


@dataclass
class Site:
    service: Running
    operations: int

    def fetch(self, port: int, path: str = "/metrics", **headers: str) -> tuple[int, str]:
        """Status and body, decompressed; 0 while nobody answers."""
        address = f"http://127.0.0.1:{port}{path}"
        request = urllib.request.Request(address, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                body = answer.read()
                packed = answer.headers["Content-Encoding"] == "gzip"
                return answer.status, (gzip.decompress(body) if packed else body).decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def slices(self, reader: str = "prometheus") -> str:
        return self.fetch(self.service.port, Authorization=f"Bearer {TOKENS[reader]}")[1]

    def all_of_operations(self) -> str:
        """Everything that the operations port says to anyone."""
        pages = [self.fetch(self.operations, **headers)[1] for headers in FORMATS]
        paths = ("/", "/livez", "/healthz", "/readyz", "/startupz", "/slices", "/metrics?x=y")
        more = (self.fetch(self.operations, path)[1] for path in (*paths, "/snapshot/1"))
        return "\n".join([*pages, *more])

    def accessed(self) -> dict[tuple[str, int], int]:
        """Accesses by reader and status, as the log has them; the service must have ended."""
        counts: dict[tuple[str, int], int] = {}
        for line in self.service.log.read_text().splitlines():
            told = json.loads(line)
            if told["logger"] == "slicewatch.access":
                assert told["path"] == "/metrics"
                key = (told["reader"], told["status"])
                counts[key] = counts.get(key, 0) + told["count"]
        return counts


@pytest.fixture
def site(kafka: Broker, topic_name: str, tmp_path: Path) -> Iterator[Site]:
    decisions, labels = f"{topic_name}-decisions", f"{topic_name}-labels"
    for topic in (decisions, labels):
        kafka.create_topic(topic, 1)
    kafka.produce(decisions, lesson.encode(lesson.decisions()))
    kafka.produce(labels, lesson.encode(lesson.labels()))
    kafka.produce(decisions, lesson.encode(strays()))
    kafka.produce(decisions, lesson.encode(iter([lesson.tick()])))
    operations = free_port()
    environment = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": kafka.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": decisions,
        "SLICEWATCH__STREAM__LABELS_TOPIC": labels,
        "SLICEWATCH__STREAM__GROUP_ID": topic_name[-8:],
        "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
        "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db",
        **WITH_KEY,
        "SLICEWATCH__SERVER__OPERATIONS__LISTEN": f"127.0.0.1:{operations}",
    }
    for i, (name, token) in enumerate(TOKENS.items()):
        environment[f"SLICEWATCH__SERVER__TOKENS__{i}__NAME"] = name
        environment[f"SLICEWATCH__SERVER__TOKENS__{i}__TOKEN"] = token
    with Running(tmp_path, ["run", "--settings", str(SETTINGS)], environment) as service:
        yield Site(service, operations)


def strays() -> Iterator[dict[str, object]]:
    """Decisions with a value that is not listed, enough for the service to say how many."""
    for i in range(150):
        attributes = {"language_variety": UNLISTED, "channel": "chat"}
        yield lesson.decision(f"stray-{i}", lesson.START, 0.9, attributes=attributes)


def read_until(site: Site, shown: Callable[[str], bool]) -> tuple[str, int]:
    """Scrape both ports until the fairness page is as wanted; the page, and how many scrapes."""
    pages: list[str] = []

    def look() -> bool:
        text = site.all_of_operations()
        assert not [secret for secret in SECRETS if secret in text]
        pages.append(site.slices())
        return shown(pages[-1])

    site.service.until(look, "the slices")
    return pages[-1], len([page for page in pages if page])


def test_slices_go_to_known_readers_only_and_the_log_names_them(site: Site) -> None:
    page, scrapes = read_until(
        site,
        lambda page: (
            "slicewatch_slice_rate_ratio{" in page
            and 'attribute_values_unknown_total{attribute="language_variety"} 100.0' in page
        ),
    )
    assert 'slice="language_variety=formal"' in page

    for headers in ({}, {"Authorization": "Bearer guessed"}, {"Authorization": "Basic x"}):
        status, body = site.fetch(site.service.port, "/metrics?token=guessed", **headers)
        assert (status, body) == (401, "401 Unauthorized\n")
    assert site.slices("grafana")
    assert site.fetch(site.service.port, "/livez") == (200, "ok\n")

    assert site.service.stop() == 0
    assert site.accessed() == {
        ("prometheus", 200): scrapes,
        ("grafana", 200): 1,
        ("unknown", 401): 3,
    }
    log = site.service.log.read_text()
    assert not [secret for secret in (*TOKENS.values(), "guessed", UNLISTED) if secret in log]


def test_what_was_published_is_read_again_by_its_number(site: Site) -> None:
    read_until(site, lambda page: "slicewatch_slice_rate_ratio{" in page)
    credentials = {"Authorization": f"Bearer {TOKENS['grafana']}"}
    status, body = site.fetch(site.service.port, "/snapshot/1", **credentials)
    assert status == 200
    assert decode(body.encode()).contracts[0].contract == "ten-pairs"
    assert site.fetch(site.service.port, "/snapshot/1")[0] == 401
    assert site.fetch(site.service.port, "/snapshot/99999999", **credentials)[0] == 404
    assert site.fetch(site.operations, "/snapshot/1", **credentials)[0] == 404


def test_each_metric_is_on_its_port(site: Site) -> None:
    page, _ = read_until(site, lambda page: "slicewatch_label_coverage_ratio" in page)
    fairness = {family.name for family in parse(page)}
    operations = {family.name for family in parse(site.fetch(site.operations)[1])}

    assert fairness <= {f.stem for f in (*catalogue.PAGE, *catalogue.OF_DECISIONS)}
    own = {name for name in operations if not name.startswith("process_")}
    assert own <= {family.stem for family in catalogue.OPERATIONS}
    assert {"slicewatch_messages_consumed", "slicewatch_consumer_state"} <= own
    assert site.service.stop() == 0
    assert site.fetch(site.operations, "/livez") == (0, "")
