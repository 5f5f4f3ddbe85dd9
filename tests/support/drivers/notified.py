"""The chain behind ``/metrics`` in a hurry: a page, Prometheus, Alertmanager and who is told.

Everything is as it is rendered but for the times: a minute of the rules is a tenth of a second.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml
from free_ports import free_port
from id_keys import WITH_KEY
from monitoring import alertmanager, eventually, get, prometheus, query

from alerts.exposition.renderer import Renderer
from alerts.rules import rendered
from monitor import settings as api
from monitor.core.publish.snapshot import Snapshot
from monitor.core.quiet_times import WEEKDAYS

REFERENCE = Path(__file__).parents[3] / "deploy" / "slicewatch.reference.toml"
MILLISECONDS = {"m": 100, "h": 6_000, "d": 144_000}
EVERY_DAY = "monday-sunday"
EXTERNAL = {"SLICEWATCH__ALERTING__EXTERNAL_URL": "https://monitor.example"}
_PROBE_SET = {
    **{"NAME": "tone", "DIGEST": "5f" * 32, "PAIRS": "4"},
    "VARIANTS": '["formal", "conversational"]',
}
PROBES = {"SLICEWATCH__PROBES__KEY": "5f" * 32} | {
    f"SLICEWATCH__PROBES__SETS__0__{key}": value for key, value in _PROBE_SET.items()
}
HURRIED_ROUTE = {"group_wait": "1s", "group_interval": "1s", "repeat_interval": "4h"}


@dataclass(frozen=True)
class Haste:
    """What is left of the rendered times.

    Attributes:
        scrape: interval and time-out of scrapes.
        days: whether alerts that wait for days are in a hurry, too.
        rules: how often rules are evaluated.
    """

    scrape: str
    days: bool
    rules: str = "500ms"


HURRIED = Haste("500ms", days=True)
UNHURRIED = Haste("2s", days=True, rules="2s")
"""For what takes a minute anyway: each time Prometheus reads the whole page of a service."""
PATIENT = Haste("5s", days=False)
"""For who looks whether all is quiet: on a busy machine a scrape may take longer than half a
second, and what happens in hours of the rules longer than a day of them."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], port: int) -> Iterator[None]:
    server = _Server(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def alert_key(labels: Mapping[str, str]) -> str:
    """The condition of an alert, or else its name."""
    return labels.get("condition") or labels["alertname"]


@dataclass
class Told:
    """What was posted to receivers: their paths and the documents, in order."""

    posts: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def handler(self) -> type[BaseHTTPRequestHandler]:
        posts = self.posts

        class Receive(_Handler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posts.append((self.path, json.loads(body)))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"ok")

        return Receive

    def of(self, receiver: str, alert: str) -> list[dict[str, Any]]:
        """The webhooks of one receiver about alerts of one name, or of one condition."""
        return [
            body
            for path, body in self.posts
            if path == f"/{receiver}" and alert == alert_key(body["groupLabels"])
        ]

    def annotations(self) -> Iterator[str]:
        """Every text that anybody was sent, but for addresses."""
        for path, body in self.posts:
            if path == "/chat":
                yield body["attachments"][0]["text"].partition("\nDetails: ")[0]
                continue
            for alert in body["alerts"]:
                yield from (
                    text for name, text in alert["annotations"].items() if "_url" not in name
                )

    def chats(self) -> list[dict[str, Any]]:
        return [body for path, body in self.posts if path == "/chat"]


class Monitored:
    """The service as Prometheus sees it: a page that tests replace, on a port that stays."""

    def __init__(self) -> None:
        self.port = free_port()
        self.page = b""
        self.pages: list[str] = []
        self.answers = threading.Event()
        self.answers.set()
        self._renderer = Renderer(10_000)
        self._running: ExitStack | None = None

    def publish(self, snapshot: Snapshot | None) -> None:
        """Show a Snapshot, or withhold the page."""
        self.page = b"" if snapshot is None else self._renderer.render(snapshot).text
        self.pages.append(self.page.decode())

    def start(self) -> None:
        shown = self

        class Metrics(_Handler):
            def do_GET(self) -> None:
                shown.answers.wait()
                evaluated = f"slicewatch_evaluation_timestamp_seconds {time.time()}\n"
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(shown.page + evaluated.encode())

        self._running = ExitStack()
        self._running.enter_context(serving(Metrics, self.port))

    def stop(self) -> None:
        self.answers.set()
        if self._running is not None:
            self._running.close()
        self._running = None


@dataclass
class Watch:
    """Who watches a page, and who is told."""

    told: Told
    prometheus: str
    alertmanager: str

    def asked(self, expression: str) -> list[dict[str, Any]]:
        return query(self.prometheus, expression)

    def wait_for(self, expression: str, what: str = "") -> None:
        eventually(lambda: bool(self.asked(expression)), what or expression)

    def firing(self, alert: str) -> dict[str, dict[str, Any]]:
        """Active alerts of one name, or condition, in Alertmanager, by fingerprint."""
        address = f"{self.alertmanager}/api/v2/alerts"
        found: list[dict[str, Any]] | None = None

        def answered() -> bool:
            nonlocal found
            found = get(address)
            return found is not None

        eventually(answered, "an answer")
        return {one["fingerprint"]: one for one in found or [] if alert_key(one["labels"]) == alert}


@dataclass
class Chain(Watch):
    """All of it, running."""

    monitored: Monitored


@contextmanager
def chain(folder: Path) -> Iterator[Chain]:
    """Start everything; nothing is published yet."""
    monitored = Monitored()
    with ExitStack() as stack:
        monitored.start()
        stack.callback(monitored.stop)
        watch = watching(folder, REFERENCE, WITH_KEY | EXTERNAL | PROBES, monitored.port)
        yield Chain(**vars(stack.enter_context(watch)), monitored=monitored)


@contextmanager
def watching(
    folder: Path,
    settings: Path,
    environment: dict[str, str],
    *targets: int,
    office_days: str = EVERY_DAY,
    haste: Haste = HURRIED,
) -> Iterator[Watch]:
    """Prometheus, Alertmanager and a receiver for what listens on ports of this machine."""
    told, receiver, port = Told(), free_port(), free_port()
    folder.mkdir(exist_ok=True)
    (folder / "chat").write_text(f"http://127.0.0.1:{receiver}/chat")
    loaded = api.load(settings, environment | _everybody(folder, receiver, office_days))
    _write(folder, rendered(loaded), targets, port, haste)
    with ExitStack() as stack:
        stack.enter_context(serving(told.handler(), receiver))
        manager = alertmanager(folder, folder / "alertmanager" / "alertmanager.yml", port)
        watched = prometheus(folder, folder / "prometheus" / "prometheus.yml")
        yield Watch(
            told, alertmanager=stack.enter_context(manager), prometheus=stack.enter_context(watched)
        )


def weekend() -> str:
    """Office days by which nobody is in the office today, nor yesterday or tomorrow."""
    today = datetime.now(UTC).weekday()
    return WEEKDAYS[(today + 3) % 7]


def _everybody(folder: Path, receiver: int, office_days: str) -> dict[str, str]:
    """Settings by which everybody is told, at any hour of these days."""
    names = ("page", "ticket", "visible", "deadman")
    addresses = {
        f"SLICEWATCH__ALERTING__{name.upper()}__WEBHOOK_URL": f"http://127.0.0.1:{receiver}/{name}"
        for name in names
    }
    return addresses | {
        "SLICEWATCH__ALERTING__OFFICE_HOURS": f"{office_days} 00:00-24:00",
        "SLICEWATCH__ALERTING__PAGE__CHAT_URL_FILE": str(folder / "chat"),
    }


def _write(
    folder: Path, files: dict[str, str], targets: Sequence[int], manager: int, haste: Haste
) -> None:
    hurry = {
        "prometheus/rules.yml": lambda one: _paced(one, haste),
        "prometheus/prometheus.yml": lambda one: _pointed(one, targets, manager, haste.scrape),
        "alertmanager/alertmanager.yml": _hurried_routes,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        changed = hurry[name](yaml.safe_load(text)) if name in hurry else None
        path.write_text(text if changed is None else yaml.safe_dump(changed))


def _paced(document: dict[str, Any], haste: Haste) -> dict[str, Any]:
    hurried = hurried_rules(document) if haste.days else _with_real_days(document)
    for group in hurried["groups"]:
        group["interval"] = haste.rules
    return hurried


def hurried_rules(document: dict[str, Any]) -> dict[str, Any]:
    for group in document["groups"]:
        for rule in group["rules"]:
            for name in {"for", "keep_firing_for"} & rule.keys():
                number, unit = re.fullmatch(r"(\d+)([mhd])", rule[name]).groups()  # type: ignore[union-attr]
                rule[name] = f"{int(number) * MILLISECONDS[unit]}ms"
    return document


def _with_real_days(document: dict[str, Any]) -> dict[str, Any]:
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    of_days = [rule for rule in rules if rule.get("for", "").endswith("d")]
    waits = [rule.pop("for") for rule in of_days]
    hurried = hurried_rules(document)
    for rule, wait in zip(of_days, waits, strict=True):
        rule["for"] = wait
    return hurried


def _hurried_routes(document: dict[str, Any]) -> dict[str, Any]:
    for route in (document["route"], *document["route"]["routes"]):
        route.update(HURRIED_ROUTE)
    return document


def _pointed(
    document: dict[str, Any], targets: Sequence[int], manager: int, scrape: str
) -> dict[str, Any]:
    document["global"] = {"scrape_interval": scrape, "scrape_timeout": scrape}
    # The first job reads the service; a judge has a job of its own, at its own port.
    job, (told,) = document["scrape_configs"][0], document["alerting"]["alertmanagers"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{target}" for target in targets]}]
    told["static_configs"] = [{"targets": [f"127.0.0.1:{manager}"]}]
    return document


def untold(text: str, pages: list[str]) -> set[str]:
    """Numbers, instants and slices in a text that no page has shown: what it would give away."""
    values = [float(line.rpartition(" ")[2]) for page in pages for line in _samples(page)]
    for named in {name for page in pages for name in re.findall(r'versions="([^"]+)"', page)}:
        text = text.replace(f": {named}.", ".")  # names of versions may look like slices
    labels = {label for page in pages for label in re.findall(r'="([^"]*)"', page)}
    labels = {label.replace("=", " ").replace(",", ", ") for label in labels} | {"others"}
    moments = [datetime.fromtimestamp(v, UTC) for v in values if _FIRST_MOMENT < v < _LAST_MOMENT]
    shown = {f"{100 * one:.4g} %" for value in values for one in (value, abs(value))}
    shown |= {form.format(moment, moment.day) for form in _FORMS for moment in moments}
    parts = set(re.findall(rf"\d[\d.]* %|\d+ (?:{_MONTHS})(?: \d\d:\d\d)?", text))
    in_points = re.findall(r"\d[\d.]*(?= points)|(?<= points, limit )\d[\d.]*", text)
    parts |= {f"{number} %" for number in in_points}
    slices = set(
        re.findall(r"(?<= from )[^:]+?(?= are )|(?<= %, )(?!since ).+?(?= (?:at \w+ )?\d)", text)
    )
    return (parts - shown) | (slices - labels)


_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_FORMS = ("{1} {0:%b}", "{1} {0:%b %H:%M}")
_FIRST_MOMENT, _LAST_MOMENT = 1e9, 4e9


def _samples(page: str) -> list[str]:
    return [line for line in page.splitlines() if line and not line.startswith("#")]
