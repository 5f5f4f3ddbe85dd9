"""Dashboard of the service itself, from the topics to the exposition."""

from __future__ import annotations

from alerts.dashboards.model import Column, Dashboard, Panel, PanelKind, PanelRow, Query, Unit
from alerts.dashboards.operations_reading import LOST, READ, READING
from alerts.dashboards.parts import JOB, NONE_IS_GOOD, flag, lines, table
from alerts.dashboards.promql import increase, newest, oldest, per_second
from alerts.exposition import catalogue
from alerts.exposition.catalogue import Family

_OUTSIDE = 'up{job="$job"}'
"""Series of Prometheus itself about a target."""


def _by_process(family: Family) -> Query:
    return Query(newest(family, ["instance"]), "{{instance}}")


_ALERTS = Panel(
    1,
    "alerts",
    "Alerts that fire or are pending",
    "As Prometheus has them; Alertmanager may have silenced or inhibited some. The watchdog always"
    " fires: where it is missing, the rules are not evaluated.",
    PanelKind.TABLE,
    (
        table(
            "max by (alertname, alertstate, severity, about, contract, metric, instance)"
            ' (ALERTS{alertname=~"Slicewatch.+", job=~"$job|"})'
        ),
    ),
    width=16,
    height=8,
    columns=(
        Column("alertname", "alert"),
        Column("alertstate", "state", width=90),
        Column("severity", "severity", width=90),
        Column("about", "about", width=110),
        *(Column(name, name) for name in ("contract", "metric", "instance")),
    ),
)
_BLIND = flag(
    2,
    "blind",
    "Blind: the service does not see what the router does",
    "By reason: nobody reads a partition (no_worker), what is read cannot be stored (not_stored),"
    " decisions wait unread (not_read), one partition holds all windows back (behind), no decisions"
    " come (decisions_late, then decisions_silent), or hardly any labels (labels_silent).",
    Query(newest(catalogue.BLIND, ["reason"]), "{{reason}}"),
    height=8,
)
_UP = Panel(
    3,
    "up",
    "Processes that answer",
    "1 while Prometheus can read a process. No line at all: Prometheus has no target of this job.",
    PanelKind.STATES,
    (Query(f"max by (instance) ({_OUTSIDE})", "{{instance}}"),),
    width=8,
    height=6,
    mappings=(
        {
            "type": "value",
            "options": {
                "0": {"text": "down", "color": "dark-red", "index": 0},
                "1": {"text": "up", "color": "rgba(128, 128, 128, 0.25)", "index": 1},
            },
        },
    ),
)
_CONSUMER = Panel(
    4,
    "consumer_state",
    "What the consumers do",
    "The one state that each process that reads Kafka is in.",
    PanelKind.STATES,
    (
        Query(
            f"{newest(catalogue.CONSUMER_STATE, ['instance', 'state'])} == 1",
            "{{instance}} {{state}}",
        ),
    ),
    width=8,
    height=6,
    mappings=(
        {
            "type": "value",
            "options": {"1": {"text": "now", "color": "blue", "index": 0}},
        },
    ),
)
_BUILDS = Panel(
    5,
    "builds",
    "Versions that run",
    "By process. Two of them for longer than a release takes is a release that stopped half way.",
    PanelKind.TABLE,
    (table(newest(catalogue.BUILD_INFO, ["instance", "version"])),),
    width=8,
    height=6,
    columns=(Column("instance", "instance"), Column("version", "version")),
)

_STORE = (
    lines(
        21,
        "cycle_age",
        "Age of the last evaluation",
        "By process: each that serves has a cycle of its own, of which one process at a time holds"
        " the lease and evaluates. Who does is in `slicewatch db status`.",
        Query(f"time() - {newest(catalogue.EVALUATED, ['instance'])}", "{{instance}}"),
        unit=Unit.SECONDS,
    ),
    lines(
        22,
        "cycle_seconds",
        "Duration of an evaluation",
        "By process: of those that do not hold the lease it is short.",
        _by_process(catalogue.EVALUATION_SECONDS),
        unit=Unit.SECONDS,
    ),
    lines(
        23,
        "store_failures",
        "Transactions that failed",
        "Within three minutes, by process. They are retried, and nothing is lost; but nothing new"
        " is counted meanwhile.",
        Query(increase(catalogue.STORE_FAILURES, ["instance"], "3m"), "{{instance}}"),
    ),
    lines(
        24,
        "flushes",
        "Flushes",
        "Committed transactions per second, by process; in whole hundreds.",
        Query(per_second(catalogue.FLUSHES, ["instance"]), "{{instance}}"),
        unit=Unit.PER_SECOND,
    ),
    lines(
        25,
        "flush_seconds",
        "Duration of the last flush",
        "By process, to a tenth of a second.",
        _by_process(catalogue.FLUSH_SECONDS),
        unit=Unit.SECONDS,
    ),
    flag(
        26,
        "retention",
        "Retention refused",
        "1 while retention would delete most of what is kept, and deletes nothing until a person"
        " confirms it.",
        Query(newest(catalogue.RETENTION_REFUSED, ()), "refused"),
    ),
)

_SERVED = (
    lines(
        27,
        "scrape",
        "What a scrape costs",
        "`scrape` is as Prometheus sees it; `render` is paid once for each publication.",
        Query('max by (instance) (scrape_duration_seconds{job="$job"})', "scrape {{instance}}"),
        Query(newest(catalogue.RENDER_SECONDS, ["instance"]), "render {{instance}}"),
        unit=Unit.SECONDS,
    ),
    lines(
        28,
        "series",
        "Series",
        "On the page of slices, those left out to keep within max_series, and all that Prometheus"
        " got at its last scrape.",
        Query(newest(catalogue.SERIES, ()), "slices"),
        Query(newest(catalogue.DROPPED, ()), "left out"),
        Query('max by (instance) (scrape_samples_scraped{job="$job"})', "all of {{instance}}"),
    ),
    flag(
        29,
        "withheld",
        "Page of slices withheld",
        "By process: 1 while nothing is published yet, or the evaluation is stale.",
        Query(newest(catalogue.WITHHELD, ["instance"]), "{{instance}}"),
    ),
    flag(
        30,
        "insecure",
        "Page of slices open to others",
        "By process: 1 if it can be reached from elsewhere without TLS and credentials.",
        Query(newest(catalogue.INSECURE, ["instance"]), "{{instance}}"),
    ),
    Panel(
        31,
        "certificates",
        "Certificates",
        f"When each expires, as its file was when the process started. {NONE_IS_GOOD}",
        PanelKind.TABLE,
        (
            table(f"1000 * {oldest(catalogue.CERTIFICATE_EXPIRES, ['certificate'])}"),
            table(f"{oldest(catalogue.CERTIFICATE_EXPIRES, ['certificate'])} - time()"),
        ),
        width=16,
        height=6,
        columns=(
            Column("certificate", "certificate"),
            Column("Value #A", "expires", Unit.INSTANT),
            Column("Value #B", "time left", Unit.SECONDS),
        ),
    ),
)

OPERATIONS = Dashboard(
    "operations",
    "slicewatch / operations",
    "Does the service read, count, evaluate and answer?",
    (JOB,),
    (
        PanelRow("Now", (_ALERTS, _BLIND, _UP, _CONSUMER, _BUILDS)),
        PanelRow("Reading", READING),
        PanelRow("What could not be read, or was lost", LOST),
        PanelRow("What nobody declared", READ),
        PanelRow("Evaluating and storing", _STORE),
        PanelRow("Serving", _SERVED),
    ),
    since="now-24h",
)
"""Dashboard of the service itself."""
