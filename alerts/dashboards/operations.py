"""The dashboard of the service itself: from the topics to the page that Prometheus reads."""

from __future__ import annotations

from alerts.dashboards.model import Column, Dashboard, Kind, Panel, Query, Row, Unit
from alerts.dashboards.parts import FLAG, JOB, NONE_IS_GOOD, table
from alerts.dashboards.promql import increase, newest, oldest, per_second, series
from alerts.exposition import catalogue
from alerts.exposition.catalogue import Family

SHARD = ("topic", "partition")
_PLACE = "{{topic}} / {{partition}}"
_OUTSIDE = 'up{job="$job"}'
"""Prometheus's own series of a target."""


def _flag(number: int, key: str, title: str, about: str, query: Query, *, height: int = 6) -> Panel:
    """Something that is 1 while it is wrong."""
    return Panel(
        number,
        key,
        title,
        about,
        Kind.STATES,
        (query,),
        width=8,
        height=height,
        mappings=FLAG,
    )


def _lines(
    number: int,
    key: str,
    title: str,
    about: str,
    *queries: Query,
    unit: Unit = Unit.COUNT,
) -> Panel:
    """Numbers that are never below 0."""
    return Panel(number, key, title, about, queries=queries, unit=unit, width=8, height=7, lowest=0)


def _by_process(family: Family) -> Query:
    return Query(newest(family, ["instance"]), "{{instance}}")


_ALERTS = Panel(
    1,
    "alerts",
    "Alerts that fire or are pending",
    "As Prometheus has them; Alertmanager may have silenced or inhibited some. The watchdog always"
    " fires: where it is missing, the rules are not evaluated.",
    Kind.TABLE,
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
_BLIND = _flag(
    2,
    "blind",
    "Blind: the service does not see what the router does",
    "By reason: nobody reads a partition (no_worker), what is read cannot be stored (not_stored),"
    " one partition holds all windows back (behind), no decisions come (decisions_silent), or"
    " hardly any labels (labels_silent).",
    Query(newest(catalogue.BLIND, ["reason"]), "{{reason}}"),
    height=8,
)
_UP = Panel(
    3,
    "up",
    "Processes that answer",
    "1 while Prometheus can read a process. No line at all: Prometheus has no target of this job.",
    Kind.STATES,
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
    Kind.STATES,
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
    Kind.TABLE,
    (table(newest(catalogue.BUILD_INFO, ["instance", "version"])),),
    width=8,
    height=6,
    columns=(Column("instance", "instance"), Column("version", "version")),
)

_READING = (
    _lines(
        6,
        "lag",
        "Age of the oldest unread message",
        "By partition; 0 at its end. The watermark waits for the slowest partition, and all windows"
        " wait for the watermark.",
        Query(newest(catalogue.LAG_SECONDS, SHARD), _PLACE),
        unit=Unit.SECONDS,
    ),
    _lines(
        7,
        "lag_messages",
        "Unread messages",
        "By partition, rounded up to hundreds.",
        Query(newest(catalogue.LAG_MESSAGES, SHARD), _PLACE),
    ),
    _lines(
        8,
        "watermark",
        "How far the watermark is behind",
        "`behind the newest decision` is in event time, in steps of five minutes; `age` is by the"
        " clock: it is long where the stream is read late, or is simulated.",
        Query(newest(catalogue.WATERMARK_LAG, ()), "behind the newest decision"),
        Query(f"time() - {newest(catalogue.WATERMARK, ())}", "age"),
        unit=Unit.SECONDS,
    ),
    _lines(
        9,
        "events",
        "Events by where they ended",
        "Per second, by topic; in whole hundreds, so a quiet stream makes steps.",
        Query(
            per_second(catalogue.EVENTS, ["topic", "outcome"], of=["partition"]),
            "{{topic}} {{outcome}}",
        ),
        unit=Unit.PER_SECOND,
    ),
    _lines(
        10,
        "messages",
        "Messages read",
        "Per second, by topic; in whole hundreds.",
        Query(per_second(catalogue.MESSAGES, ["topic"], of=["partition"]), "{{topic}}"),
        unit=Unit.PER_SECOND,
    ),
    _lines(
        11,
        "ahead",
        "Events dated ahead of the worker's clock",
        "By partition, rounded up to minutes. They are counted, and advance no window.",
        Query(newest(catalogue.EVENTS_AHEAD, SHARD), _PLACE),
        unit=Unit.SECONDS,
    ),
)

_LETTERS = ["topic", "reason"]
_ENDED = increase(catalogue.EVENTS, ["topic"], "1h", of=["partition"])
_DEAD = increase(catalogue.EVENTS, ["topic"], "1h", of=["partition"], where='outcome="dead_letter"')
_LOST = (
    _lines(
        12,
        "dead_share",
        "Share of events that cannot be read",
        f"Dead letters of the last hour over all its events. {NONE_IS_GOOD}",
        Query(f"{_DEAD}\n/ ({_ENDED} > 0)", "{{topic}}"),
        unit=Unit.SHARE,
    ),
    _lines(
        13,
        "dead_letters",
        "Dead letters by reason",
        "Within the last hour.",
        Query(
            increase(catalogue.DEAD_LETTERS, _LETTERS, "1h", of=["partition"]),
            "{{topic}} {{reason}}",
        ),
        Query(increase(catalogue.UNKEPT, ["topic"], "1h", of=["partition"]), "{{topic}} not kept"),
    ),
    Panel(
        14,
        "unreadable",
        "Which fields cannot be read",
        "Dead letters within the shown time, by reason and field; the field is empty where none is"
        f" to blame. {NONE_IS_GOOD}",
        Kind.TABLE,
        (
            table(
                increase(*(catalogue.UNREADABLE, ["reason", "field"], "$__range"), of=["instance"])
                + " > 0"
            ),
        ),
        width=8,
        height=7,
        columns=(
            Column("reason", "reason"),
            Column("field", "field"),
            Column("Value", "events", Unit.COUNT, decimals=0),
        ),
        sort="events",
    ),
    _flag(
        15,
        "parked",
        "Partitions that wait for a person",
        "1 while a partition is parked, because the broker no longer has its next offset.",
        Query(newest(catalogue.PARKED, SHARD), _PLACE),
    ),
    _flag(
        16,
        "data_lost",
        "Windows that lack lost events",
        "By contract and window: 1 while events of it were lost before they could be read.",
        Query(newest(catalogue.DATA_LOST, ["contract", "window"]), "{{contract}} {{window}}"),
    ),
    _lines(
        17,
        "imbalance",
        "Messages or events that ended nowhere",
        "By partition and equation: 0, or a bug in slicewatch.",
        Query(
            f"max by (topic, partition, equation) (abs({series(catalogue.IMBALANCE)}))",
            f"{_PLACE} {{{{equation}}}}",
        ),
    ),
)

_READ = (
    _flag(
        18,
        "limited",
        "Limits on cardinality that are reached",
        "series: the page would exceed max_series. versions: tuples beyond max_versions. values: an"
        " attribute had very many unlisted values today. A line for each that was reached.",
        Query(newest(catalogue.LIMITED, ["limit"]), "{{limit}}"),
    ),
    _lines(
        19,
        "unknown",
        "Values and fields that nobody declared",
        "Per second, in whole hundreds: attribute values that are counted as __other__, and fields"
        " that are dropped.",
        Query(
            per_second(catalogue.UNKNOWN_VALUES, ["attribute"], of=["instance"]),
            "value of {{attribute}}",
        ),
        Query(
            per_second(catalogue.UNKNOWN_FIELDS, ["event", "field"], of=["instance"]),
            "field {{field}} of a {{event}}",
        ),
        Query(per_second(catalogue.BELOW_THRESHOLD, (), of=["instance"]), "served below threshold"),
        unit=Unit.PER_SECOND,
    ),
    _lines(
        20,
        "unknown_distinct",
        "Distinct unlisted values today",
        "By attribute: an estimate, 0 or the lower edge of a band.",
        Query(newest(catalogue.UNKNOWN_DISTINCT, ["attribute"]), "{{attribute}}"),
    ),
)

_STORE = (
    _lines(
        21,
        "cycle_age",
        "Age of the last evaluation",
        "By process: each that serves has a cycle of its own, of which one process at a time holds"
        " the lease and evaluates. Who does is in `slicewatch db status`.",
        Query(f"time() - {newest(catalogue.EVALUATED, ['instance'])}", "{{instance}}"),
        unit=Unit.SECONDS,
    ),
    _lines(
        22,
        "cycle_seconds",
        "Duration of an evaluation",
        "By process: of those that do not hold the lease it is short.",
        _by_process(catalogue.EVALUATION_SECONDS),
        unit=Unit.SECONDS,
    ),
    _lines(
        23,
        "store_failures",
        "Transactions that failed",
        "Within three minutes, by process. They are retried, and nothing is lost; but nothing new"
        " is counted meanwhile.",
        Query(increase(catalogue.STORE_FAILURES, ["instance"], "3m"), "{{instance}}"),
    ),
    _lines(
        24,
        "flushes",
        "Flushes",
        "Committed transactions per second, by process; in whole hundreds.",
        Query(per_second(catalogue.FLUSHES, ["instance"]), "{{instance}}"),
        unit=Unit.PER_SECOND,
    ),
    _lines(
        25,
        "flush_seconds",
        "Duration of the last flush",
        "By process, to a tenth of a second.",
        _by_process(catalogue.FLUSH_SECONDS),
        unit=Unit.SECONDS,
    ),
    _flag(
        26,
        "retention",
        "Retention refused",
        "1 while retention would delete most of what is kept, and deletes nothing until a person"
        " confirms it.",
        Query(newest(catalogue.RETENTION_REFUSED, ()), "refused"),
    ),
)

_SERVED = (
    _lines(
        27,
        "scrape",
        "What a scrape costs",
        "`scrape` is as Prometheus sees it; `render` is paid once for each publication.",
        Query('max by (instance) (scrape_duration_seconds{job="$job"})', "scrape {{instance}}"),
        Query(newest(catalogue.RENDER_SECONDS, ["instance"]), "render {{instance}}"),
        unit=Unit.SECONDS,
    ),
    _lines(
        28,
        "series",
        "Series",
        "On the page of slices, those left out to keep within max_series, and all that Prometheus"
        " got at its last scrape.",
        Query(newest(catalogue.SERIES, ()), "slices"),
        Query(newest(catalogue.DROPPED, ()), "left out"),
        Query('max by (instance) (scrape_samples_scraped{job="$job"})', "all of {{instance}}"),
    ),
    _flag(
        29,
        "withheld",
        "Page of slices withheld",
        "By process: 1 while nothing is published yet, or the evaluation is stale.",
        Query(newest(catalogue.WITHHELD, ["instance"]), "{{instance}}"),
    ),
    _flag(
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
        Kind.TABLE,
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
        Row("Now", (_ALERTS, _BLIND, _UP, _CONSUMER, _BUILDS)),
        Row("Reading", _READING),
        Row("What could not be read, or was lost", _LOST),
        Row("What nobody declared", _READ),
        Row("Evaluating and storing", _STORE),
        Row("Serving", _SERVED),
    ),
    since="now-24h",
)
"""The service itself."""
