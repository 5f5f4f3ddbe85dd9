"""Every query of every dashboard, asked as Grafana asks it of a service that has lived for a while.

A real Prometheus has read two processes that serve, one that ingests and one that judges.
"""

from __future__ import annotations

import re
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from eventful import LATER, Eventful, evaluations, settings_text
from free_ports import free_port
from grafana import Asked, documents, filled, label_values, panels, queries, variables
from kafka_broker import KafkaBroker
from manual import Administrator
from monitoring import eventually, get
from notified import Watch, watching
from openai_server import OpenAIServer, findings
from postgres import PostgresServer
from regressing import BEGINS, CONVERSATIONAL, FREQUENT, VOICE
from running import Running

from alerts.exposition.catalogue import PAGE

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

DOCUMENTS = documents()
GRAFANA = "https://grafana.example"
FIVE_MINUTES = 300
MATURES = 240.0
"""Also on a busy machine, where a process that was stopped amid an evaluation keeps its lease."""
Result = list[dict[str, Any]]
Values = dict[tuple[tuple[str, str], ...], float]
"""Of each series of a result, by its labels."""

EMPTY = {"slicewatch-operations: Age of the data, and time left: C": "no port or broker has one"}
"""Queries without data in this world, and why."""


@dataclass
class Site:
    """What has been lived through, and where it is asked.

    Attributes:
        began: when Prometheus began to read.
        ports: of the processes that serve.
    """

    watch: Watch
    began: float
    ports: tuple[int, int]
    chosen: dict[str, list[dict[str, str]]] = field(default_factory=dict)

    def ask(self, kind: str, **parameters: object) -> Any:
        """An answer of Prometheus's API, which must not be an error."""
        query = urllib.parse.urlencode(parameters, doseq=True)
        found = get(f"{self.watch.prometheus}/api/v1/{kind}?{query}")
        assert found is not None, f"refused: {parameters}"
        assert found["status"] == "success"
        return found["data"]

    def instant(self, text: str, at: float | None = None) -> Result:
        result: Result = self.ask("query", query=text, time=at or time.time())["result"]
        return result

    def over_time(self, text: str) -> Result:
        # What began more than five minutes ago has, in five minutes.
        end = time.time() + FIVE_MINUTES
        result: Result = self.ask("query_range", query=text, start=self.began, end=end, step=2)[
            "result"
        ]
        return result

    def choices(self, uid: str) -> list[dict[str, str]]:
        """All values that a reader can choose in the variables of a dashboard, together."""
        if uid not in self.chosen:
            self.chosen[uid] = list(self._choices(list(variables(DOCUMENTS[uid]).items()), {}))
        return self.chosen[uid]

    def _choices(
        self, left: list[tuple[str, str]], values: dict[str, str]
    ) -> Iterator[dict[str, str]]:
        if not left:
            yield values
            return
        (name, query), *others = left
        series, label = label_values(filled(query, values))
        for value in self.ask(f"label/{label}/values", **{"match[]": series}):
            yield from self._choices(others, values | {name: value})

    def answers(self, one: Asked, values: Mapping[str, str]) -> Result:
        text = filled(one.text, values)
        return self.instant(text) if one.now else self.over_time(text)

    def answered(self, uid: str, one: Asked) -> bool:
        """Whether it has data for anything that a reader can choose."""
        return any(self.answers(one, values) for values in self.choices(uid))


def day(number: int, hour: int = 0) -> datetime:
    return BEGINS + timedelta(days=number, hours=hour)


@pytest.fixture(scope="module")
def site(
    _kafka_process: KafkaBroker, _postgres_for_roles: PostgresServer, tmp_path_factory: Any
) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("dashboards")
    broker = _kafka_process
    topics = "dashboards-d", "dashboards-l"
    broker.create_topic(topics[0], 2)
    broker.create_topic(topics[1], 1)
    for topic in ("outputs", "judgements"):
        broker.create_topic(f"dashboards-{topic}", 1)
    administrator = Administrator(_postgres_for_roles, folder, settings_text())
    administrator.follow("Roles")
    settings = folder / "slicewatch.toml"
    environment = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": broker.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": topics[0],
        "SLICEWATCH__STREAM__LABELS_TOPIC": topics[1],
        "SLICEWATCH__STREAM__GROUP_ID": "dashboards",
        "SLICEWATCH__STORE__URL": administrator.url("slicewatch_service"),
        "SLICEWATCH__LINKS__GRAFANA": GRAFANA,
    }
    with ExitStack() as stack:
        endpoint = stack.enter_context(OpenAIServer(lambda _: findings()))
        environment |= {
            "SLICEWATCH__JUDGE__URL": endpoint.url,
            "SLICEWATCH__JUDGE__MODEL": "judge-model",
            "SLICEWATCH__JUDGE__OUTPUTS_TOPIC": "dashboards-outputs",
            "SLICEWATCH__JUDGE__JUDGEMENTS_TOPIC": "dashboards-judgements",
            "SLICEWATCH__JUDGE__LISTEN": f"127.0.0.1:{free_port()}",
        }
        start = ["--settings", str(settings)]
        processes = [
            stack.enter_context(Running(folder, [part, *start], environment))
            for part in ("ingest", "serve", "serve")
        ]
        judge = Running(folder, ["judge", *start], environment)
        judge.port = int(environment["SLICEWATCH__JUDGE__LISTEN"].rpartition(":")[2])
        stack.enter_context(judge)
        watch = stack.enter_context(
            watching(folder / "watch", settings, environment, *(p.port for p in processes))
        )
        lived = Site(watch, time.time(), (processes[1].port, processes[2].port))
        broker.produce(topics[1], evaluations())
        live(Eventful(broker, *topics), processes[1:], settings)
        eventually(lambda: _agree(lived, time.time()), "both are read since their new start")
        yield lived


@pytest.fixture(scope="module")
def _postgres_for_roles() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.close()


def live(router: Eventful, serving: list[Running], settings: Path) -> None:
    """Twelve days: a release, two regressions, tablets, labels that are not asked for."""

    def until(end: datetime) -> None:
        router.live_until(end)
        wanted = (end - timedelta(hours=2)).timestamp()

        def mature() -> bool:
            at = serving[0].value("slicewatch_label_frontier_timestamp_seconds")
            return (at or 0.0) >= wanted

        serving[0].until(mature, f"labels until {end}", MATURES)

    until(day(2))
    router.versions = LATER
    router.worse |= {CONVERSATIONAL: 0.3, VOICE: 0.3}
    until(day(4))
    router.tablets = FREQUENT
    until(day(8, 6))
    router.unasked = {CONVERSATIONAL}
    until(day(12, 6))
    # The contract gets another version; nothing else of it changes.
    settings.write_text(settings_text("2"))
    for one in serving:
        one.stop()
        one.restart()
    for one in serving:
        one.until(
            lambda one=one: one.value("slicewatch_contract_info", version="2") == 1,  # type: ignore[misc]
            "the new contract",
            MATURES,
        )


def test_every_query_is_answered(site: Site) -> None:
    eventually(lambda: bool(site.instant('slicewatch_contract_info{version="2"}')), "it is read")
    # Who evaluates says so first when it takes the lease, then every ten minutes.
    eventually(lambda: bool(site.over_time("slicewatch_pending_decisions")), "a new evaluator")
    unanswered = {
        one.where
        for uid, document in DOCUMENTS.items()
        for one in queries(document)
        if not site.answered(uid, one)
    }
    assert unanswered == set(EMPTY)


def test_every_variable_has_a_choice(site: Site) -> None:
    for uid in DOCUMENTS:
        assert site.choices(uid), uid
    chosen = site.choices("slicewatch-slice")
    assert {one["metric"] for one in chosen} == {"selection", "tpr", "fpr", "blocked", "ready"}
    assert {one["window"] for one in chosen} == {"1h", "24h", "7d", "28d"}


def test_a_second_process_doubles_nothing(site: Site) -> None:
    """What both export alike, asked of one of them alone, has the same answer.

    Growth is that since a process was first read, so between what each of them has grown by.
    """
    page = {family.name for family in PAGE}
    now, compared, grown = 0.0, 0, 0

    def agree() -> bool:
        nonlocal now
        now = time.time()
        return _agree(site, now)

    eventually(agree, "both publish the same")
    for uid, document in DOCUMENTS.items():
        for one in queries(document):
            names = set(re.findall(r"slicewatch_\w+|\bup\b|ALERTS", one.text))
            if not names <= page:
                continue
            for values in site.choices(uid)[:3]:
                text = filled(one.text, values)
                both = _values(site.instant(text, now))
                first, second = (_values(site.instant(_of(port, text), now)) for port in site.ports)
                if "[" in text:
                    _check_between(both, first, second, one.where)
                    grown += bool(both)
                    continue
                assert both == pytest.approx(first), one.where
                assert both == pytest.approx(second), one.where
                compared += bool(both)
    assert compared > 50
    assert grown > 1


def _of(port: int, text: str) -> str:
    """A query, asked of one process alone."""
    return re.sub(r"(slicewatch_\w+)\{", rf'\1{{instance="127.0.0.1:{port}", ', text)


def _check_between(both: Values, first: Values, second: Values, where: str) -> None:
    """Also a share is between those of the two: of each of its parts the greater one is taken."""
    assert set(both) == set(first) | set(second), where
    for key, value in both.items():
        alone = [values[key] for values in (first, second) if key in values]
        # A sum of what is greater, here of one and there of the other, is a little above both.
        assert 0.95 * min(alone) <= value <= 1.05 * max(alone), (where, key)


def _agree(site: Site, at: float) -> bool:
    """Whether Prometheus has read the same page from both processes, of the newest contract."""
    first, second = (_page(site, port, at) for port in site.ports)
    return first == second and any(("version", "2") in labels for labels, _ in first)


def _page(site: Site, port: int, at: float) -> set[tuple[tuple[tuple[str, str], ...], str]]:
    """What Prometheus has read of the Snapshot on one process's page: labels and values."""
    names = {family.name for family in PAGE}
    rows = site.instant(f'{{instance="127.0.0.1:{port}"}}', at)
    return {
        (
            tuple(sorted((k, v) for k, v in row["metric"].items() if k != "instance")),
            row["value"][1],
        )
        for row in rows
        if row["metric"]["__name__"] in names
    }


def _values(rows: Result) -> Values:
    found = {tuple(sorted(row["metric"].items())): float(row["value"][1]) for row in rows}
    assert len(found) == len(rows), "a series twice"
    return found


def test_history_says_what_was_scraped_at_the_end_of_its_window(site: Site) -> None:
    """Two ways from one publication: through Prometheus, and to the status page's history."""
    compared = 0
    for values in site.choices("slicewatch-slice"):
        chosen = {name: value for name, value in values.items() if name != "job"}
        query = urllib.parse.urlencode(chosen)
        history = get(f"http://127.0.0.1:{site.ports[0]}/api/v1/history?{query}")
        labels = ", ".join(f'{name}="{value}"' for name, value in chosen.items())
        now = time.time()  # both from one scrape
        scraped = site.instant(f"max(slicewatch_slice_rate_ratio{{{labels}}})", now)
        points = [point for point in history["points"] if point["value"] is not None]
        if not points or not scraped:
            continue
        kind = "decisions" if values["metric"] in ("selection", "blocked") else "labelled"
        (end,) = site.instant(
            "max(slicewatch_window_end_timestamp_seconds{"
            f'window="{values["window"]}", group_by="{values["group_by"]}", kind="{kind}"}})',
            now,
        )
        ends = [datetime.fromisoformat(point["ends_at"]).timestamp() for point in points]
        assert ends == sorted(ends)
        assert ends[-1] == float(end["value"][1])
        assert points[-1]["value"] == pytest.approx(float(scraped[0]["value"][1]))
        compared += 1
    assert compared > 20


def test_the_reference_is_what_the_slice_is_compared_with(site: Site) -> None:
    """Put together from rate and gap, it is the rate that is published of a named reference."""
    (asked,) = [
        one.text
        for one in queries(DOCUMENTS["slicewatch-slice"])
        if "_rate_ratio" in one.text and "_gap_ratio" in one.text
    ]
    metrics = set()
    for values in site.choices("slicewatch-slice"):
        for row in site.instant(filled(asked, values)):
            where = f'metric="{values["metric"]}", window="{values["window"]}"'
            reference = row["metric"]["reference"]
            (own,) = site.instant(
                f'max(slicewatch_slice_rate_ratio{{{where}, slice="{reference}"}})'
            )
            told = float(own["value"][1])
            assert float(row["value"][1]) == pytest.approx(told, abs=0.0015), "three decimals"
            metrics.add(values["metric"])
    assert metrics == {"selection", "tpr", "fpr", "blocked", "ready"}


def test_an_alert_leads_to_the_panel_of_its_slice(site: Site) -> None:
    """As it is told: the address, read as Grafana reads it, chooses what the panel has data of."""

    def told() -> list[str]:
        alerts = site.watch.firing("SlicewatchBreach").values()
        return [alert["annotations"]["dashboard_url"] for alert in alerts]

    # While nothing is exported, as at a restart, the address has no slice.
    eventually(lambda: any("var-slice" in one for one in told()), "a breach of a slice")
    slices = set()
    for url in (urllib.parse.urlsplit(one) for one in told() if "var-slice" in one):
        assert f"{url.scheme}://{url.netloc}" == GRAFANA
        chosen = {k: v for k, (v,) in urllib.parse.parse_qs(url.query, strict_parsing=True).items()}
        uid, number = url.path.split("/")[2], int(chosen.pop("viewPanel"))
        (panel,) = [one for one in panels(DOCUMENTS[uid]) if one["id"] == number]
        values = {name.removeprefix("var-"): value for name, value in chosen.items()}
        assert values in site.choices(uid)
        where = f"{uid}: {panel['title']}: A"
        (drawn,) = [one for one in queries(DOCUMENTS[uid]) if one.where == where]
        slices |= {values["slice"]} if site.answers(drawn, values) else set()
    assert slices & {"language_variety=conversational", "channel=voice"}


def test_every_row_of_a_sorted_table_has_the_number_it_is_sorted_by(site: Site) -> None:
    """It is no order otherwise. Grafana merges rows by the labels that all queries have."""
    checked = 0
    for uid, document in DOCUMENTS.items():
        for panel in panels(document):
            found = {one["id"]: one["options"] for one in panel["transformations"]}
            if "sortBy" not in found or len(panel["targets"]) < 2:
                continue
            titles = found["organize"]["renameByName"]
            (source,) = [k for k, v in titles.items() if v == found["sortBy"]["sort"][0]["field"]]
            for values in site.choices(uid)[:5]:
                rows = {
                    f"Value #{target['refId']}": _keys(site.instant(filled(target["expr"], values)))
                    for target in panel["targets"]
                }
                shared = set.intersection(*(names for names, _ in rows.values()))
                keys = {
                    name: {tuple(row.get(label, "") for label in sorted(shared)) for row in of}
                    for name, (_, of) in rows.items()
                }
                assert all(one <= keys[source] for one in keys.values()), panel["title"]
                checked += bool(keys[source])
    assert checked > 3


def _keys(rows: Result) -> tuple[set[str], list[dict[str, str]]]:
    """Labels that any row has, and the labels of all rows."""
    labels = [row["metric"] for row in rows]
    return {name for one in labels for name in one}, labels


def test_a_suppressed_slice_shows_no_number(site: Site) -> None:
    """Neither a zero nor anything else: in graphs of the slice nothing is drawn of it."""
    (rate, gap, support) = (
        next(one for one in panels(DOCUMENTS["slicewatch-slice"]) if one["title"].startswith(begin))
        for begin in ("$metric of $slice", "Gap of $metric: ", "Support of")
    )
    drawn = {
        target["expr"]
        for panel in (rate, gap, support)
        for target in panel["targets"]
        if "$slice" in target["expr"]
    }
    hidden = 0
    for values in site.choices("slicewatch-slice"):
        if values["window"] != "24h":
            continue
        chosen = ", ".join(f'{k}="{v}"' for k, v in values.items() if k != "job")
        state = site.instant(f'slicewatch_slice_state{{{chosen}, state="suppressed"}} == 1')
        if state:
            assert all(site.instant(filled(text, values)) == [] for text in drawn)
            hidden += 1
    assert len(drawn) > 8
    assert hidden > 0
