"""Panels of events that are read from the topics, and of unreadable ones."""

from __future__ import annotations

from alerts.dashboards.model import Column, Panel, PanelKind, Query, Unit
from alerts.dashboards.parts import NONE_IS_GOOD, flag, lines, table
from alerts.dashboards.promql import increase, newest, per_second, series
from alerts.exposition import catalogue

SHARD = ("topic", "partition")
_PLACE = "{{topic}} / {{partition}}"

READING = (
    lines(
        6,
        "lag",
        "Age of the oldest unread message",
        "By partition; 0 at its end. The watermark waits for the slowest partition, and all windows"
        " wait for the watermark.",
        Query(newest(catalogue.LAG_SECONDS, SHARD), _PLACE),
        unit=Unit.SECONDS,
    ),
    lines(
        7,
        "lag_messages",
        "Unread messages",
        "By partition, rounded up to hundreds.",
        Query(newest(catalogue.LAG_MESSAGES, SHARD), _PLACE),
    ),
    lines(
        8,
        "watermark",
        "How far the watermark is behind",
        "`behind the newest decision` is in event time, in steps of five minutes; `age` is by the"
        " clock: it is long where the stream is read late, or is simulated.",
        Query(newest(catalogue.WATERMARK_LAG, ()), "behind the newest decision"),
        Query(f"time() - {newest(catalogue.WATERMARK, ())}", "age"),
        unit=Unit.SECONDS,
    ),
    lines(
        9,
        "events",
        "Events by where they ended",
        "Per second, by topic; in whole hundreds, so a quiet stream makes steps.",
        Query(
            per_second(catalogue.EVENTS, ["topic", "outcome"], split=["partition"]),
            "{{topic}} {{outcome}}",
        ),
        unit=Unit.PER_SECOND,
    ),
    lines(
        10,
        "messages",
        "Messages read",
        "Per second, by topic; in whole hundreds.",
        Query(per_second(catalogue.MESSAGES, ["topic"], split=["partition"]), "{{topic}}"),
        unit=Unit.PER_SECOND,
    ),
    lines(
        11,
        "ahead",
        "Events dated ahead of the worker's clock",
        "By partition, rounded up to minutes. They are counted, and advance no window.",
        Query(newest(catalogue.EVENTS_AHEAD, SHARD), _PLACE),
        unit=Unit.SECONDS,
    ),
)

_LETTERS = ["topic", "reason"]
_ENDED = increase(catalogue.EVENTS, ["topic"], "1h", split=["partition"])
_DEAD = increase(
    catalogue.EVENTS, ["topic"], "1h", split=["partition"], where='outcome="dead_letter"'
)
LOST = (
    lines(
        12,
        "dead_share",
        "Share of events that cannot be read",
        f"Dead letters of the last hour over all its events. {NONE_IS_GOOD}",
        Query(f"{_DEAD}\n/ ({_ENDED} > 0)", "{{topic}}"),
        unit=Unit.SHARE,
    ),
    lines(
        13,
        "dead_letters",
        "Dead letters by reason",
        "Within the last hour.",
        Query(
            increase(catalogue.DEAD_LETTERS, _LETTERS, "1h", split=["partition"]),
            "{{topic}} {{reason}}",
        ),
        Query(
            increase(catalogue.UNKEPT, ["topic"], "1h", split=["partition"]), "{{topic}} not kept"
        ),
    ),
    Panel(
        14,
        "unreadable",
        "Which fields cannot be read",
        "Dead letters within the shown time, by reason and field; the field is empty where none is"
        f" to blame. {NONE_IS_GOOD}",
        PanelKind.TABLE,
        (
            table(
                increase(
                    *(catalogue.UNREADABLE, ["reason", "field"], "$__range"), split=["instance"]
                )
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
    flag(
        15,
        "parked",
        "Partitions that wait for a person",
        "1 while a partition is parked, because the broker no longer has its next offset.",
        Query(newest(catalogue.PARKED, SHARD), _PLACE),
    ),
    flag(
        16,
        "data_lost",
        "Windows that lack lost events",
        "By contract and window: 1 while events of it were lost before they could be read.",
        Query(newest(catalogue.DATA_LOST, ["contract", "window"]), "{{contract}} {{window}}"),
    ),
    lines(
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

READ = (
    flag(
        18,
        "limited",
        "Limits on cardinality that are reached",
        "series: the page would exceed max_series. versions: more than 64 tuples. values: an"
        " attribute had very many unlisted values today. A line for each that was reached.",
        Query(newest(catalogue.LIMITED, ["limit"]), "{{limit}}"),
    ),
    lines(
        19,
        "unknown",
        "Values and fields that nobody declared",
        "Per second, in whole hundreds: attribute values that are counted as __other__, and fields"
        " that are dropped.",
        Query(
            per_second(catalogue.UNKNOWN_VALUES, ["attribute"], split=["instance"]),
            "value of {{attribute}}",
        ),
        Query(
            per_second(catalogue.UNKNOWN_FIELDS, ["event", "field"], split=["instance"]),
            "field {{field}} of a {{event}}",
        ),
        Query(
            per_second(catalogue.BELOW_THRESHOLD, (), split=["instance"]), "served below threshold"
        ),
        unit=Unit.PER_SECOND,
    ),
    lines(
        20,
        "unknown_distinct",
        "Distinct unlisted values today",
        "By attribute: an estimate, 0 or the lower edge of a band.",
        Query(newest(catalogue.UNKNOWN_DISTINCT, ["attribute"]), "{{attribute}}"),
    ),
)
