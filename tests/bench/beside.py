"""The hourly refresh that a team would write instead: a week's rates by pandas, DuckDB, fairlearn.

Each gets the newest week of decisions and labels ready in memory, joins and groups them again, and
returns selection rate, TPR and FPR of every slice. None hides a slice, gives an interval, judges a
limit or publishes anything. Labels weigh 1 / audit_p.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from fairlearn.metrics import MetricFrame, false_positive_rate, selection_rate, true_positive_rate
from refresh_site import AUDITED, Events, Play

from monitor.core.time import DAY

GROUP_BYS: tuple[tuple[str, ...], ...] = ((), ("a",), ("b",), ("a", "b"))
Rates = dict[tuple[str, ...], tuple[float, float, float]]
"""Selection rate, TPR and FPR by the values of a slice, of which some may be ``*``."""
Frames = Mapping[str, pd.DataFrame]


def newest_week(play: Play, events: Events, now: int) -> Frames:
    """Frames of the decisions of the week before a time, and of the labels that came until then."""
    (chosen,) = np.nonzero((events.at >= now - 7 * DAY) & (events.at < now))
    served = events.served[chosen]
    decisions = pd.DataFrame(
        {
            "decision_id": chosen,
            "a": pd.Categorical([f"a{value}" for value in events.pair[chosen] % play.a]),
            "b": pd.Categorical([f"b{value}" for value in events.pair[chosen] // play.a]),
            "served": served,
            "weight": np.where(served, 1 / AUDITED, 1.0),
        }
    )
    (labelled,) = np.nonzero(events.asked & (events.said < now))
    labels = pd.DataFrame({"decision_id": labelled, "ready": events.ready[labelled]})
    return {"decisions": decisions, "labels": labels}


def with_pandas(frames: Frames) -> Rates:
    """Rates by a merge and a grouping for each group-by."""
    joined = frames["decisions"].merge(frames["labels"], on="decision_id", how="left")
    ready = joined["ready"].eq(True)
    not_ready = joined["ready"].eq(False)
    weights = {"ready": joined["weight"] * ready, "not": joined["weight"] * not_ready}
    parts = joined[["a", "b", "served"]].assign(
        **weights,
        **{f"served_{name}": weight * joined["served"] for name, weight in weights.items()},
    )
    rates: Rates = {}
    for names in GROUP_BYS:
        keys = [parts[name] for name in names] or [pd.Series(0, parts.index)]
        groups = parts.drop(columns=["a", "b"]).groupby(keys, observed=True)
        sums, sizes = groups.sum(), groups.size()
        tpr, fpr = sums["served_ready"] / sums["ready"], sums["served_not"] / sums["not"]
        columns = zip(sums["served"] / sizes, tpr, fpr, strict=True)
        for value, of_slice in zip(sums.index, columns, strict=True):
            rates[_key(names, value)] = of_slice
    return rates


def _key(names: tuple[str, ...], value: Any) -> tuple[str, ...]:
    values = dict(zip(names, value if isinstance(value, tuple) else (value,), strict=False))
    return str(values.get("a", "*")), str(values.get("b", "*"))


QUERY = """
SELECT coalesce(a::VARCHAR, '*'), coalesce(b::VARCHAR, '*'), avg(served::INT),
       sum(weight) FILTER (ready AND served) / sum(weight) FILTER (ready),
       sum(weight) FILTER (NOT ready AND served) / sum(weight) FILTER (NOT ready)
FROM decisions LEFT JOIN labels USING (decision_id)
GROUP BY GROUPING SETS ((), (a), (b), (a, b))
"""


def in_duckdb(frames: Frames) -> Callable[[], Rates]:
    """Return the query of one refresh over tables in memory, which are filled beforehand."""
    duckdb: Any = importlib.import_module("duckdb")  # installed for benchmarks alone
    connection = duckdb.connect()
    for name, frame in frames.items():
        connection.register("frame", frame)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
        connection.unregister("frame")

    def query() -> Rates:
        rows = connection.execute(QUERY).fetchall()
        return {(a, b): (selection, tpr, fpr) for a, b, selection, tpr, fpr in rows}

    return query


def with_fairlearn(frames: Frames) -> Rates:
    """Rates by a MetricFrame for each group-by and metric."""
    joined = frames["decisions"].merge(frames["labels"], on="decision_id", how="left")
    labelled = joined[joined["ready"].notna()]
    ready = labelled["ready"].astype(bool)
    rates: Rates = {}
    for names in GROUP_BYS:
        selection = _metric_frame({"rate": selection_rate}, joined, joined["served"], names)
        metrics = {"tpr": true_positive_rate, "fpr": false_positive_rate}
        measured = _metric_frame(metrics, labelled, ready, names, labelled["weight"])
        if not names:
            rates["*", "*"] = selection.overall["rate"], *measured.overall[["tpr", "fpr"]]
            continue
        columns = (selection.by_group["rate"], measured.by_group["tpr"], measured.by_group["fpr"])
        for value, *of_slice in pd.concat(columns, axis=1).itertuples():
            rates[_key(names, value)] = tuple(of_slice)
    return rates


def _metric_frame(
    metrics: dict[str, Any],
    rows: pd.DataFrame,
    ready: Any,
    names: tuple[str, ...],
    weights: pd.Series | None = None,
) -> MetricFrame:
    sample_params = {} if weights is None else {m: {"sample_weight": weights} for m in metrics}
    features = rows[list(names)] if names else np.zeros(len(rows))
    return MetricFrame(
        metrics=metrics,
        y_true=ready,
        y_pred=rows["served"],
        sensitive_features=features,
        sample_params=sample_params,
    )
