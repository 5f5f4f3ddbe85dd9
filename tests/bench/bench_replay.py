"""Replaying files against the batch libraries on the same rows, which they have in memory already.

The libraries read no events, join no labels and keep no history; they show what one look at the
finished table costs. Aequitas is one of them where it is installed. Run it by
``make bench FOR=replay``.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
from common import (
    Databases,
    Report,
    Traffic,
    databases,
    peak_megabytes,
    settings_at,
    timed,
    traffic,
)
from fairlearn.metrics import (
    MetricFrame,
    false_positive_rate,
    selection_rate,
    true_positive_rate,
)

from alerts.exposition.service_metrics import ServiceMetrics
from consumers.sources.file_source import FileSource
from monitor import composition
from monitor.clock import SystemClock
from monitor.store.shard_rows import read_statuses

GROUP_BYS = (["language"], ["channel"], ["language", "channel"])


def replay(events: Traffic, kind: str, made: Databases, folder: Path) -> tuple[float, float]:
    """Seconds to count everything, and to fold, evaluate and publish it."""
    paths = [("decisions", events.decisions), ("labels", events.labels)]
    for name, messages in paths:
        (folder / name).write_bytes(b"\n".join(messages) + b"\n")
    settings = settings_at(made.new(kind))
    engine = composition.open_store(settings, SystemClock())
    source = FileSource([(name, folder / name) for name, _ in paths])
    ingest = composition.build_ingest(settings, engine, source, ServiceMetrics(), SystemClock())
    counting = timed(ingest.run)
    assert all(status.tallies.balance == 0 for status in read_statuses(engine))
    evaluator = composition.build_evaluator(settings, engine, SystemClock())
    evaluating = timed(evaluator.cycle)
    evaluator.release_lease()
    engine.dispose()
    return counting, evaluating


def with_fairlearn(frame: pd.DataFrame) -> None:
    """Selection rate, TPR and FPR by each group-by."""
    metrics = {"selection": selection_rate, "tpr": true_positive_rate, "fpr": false_positive_rate}
    for attributes in GROUP_BYS:
        assert len(
            MetricFrame(
                metrics=metrics,
                y_true=frame["ready"],
                y_pred=frame["served"],
                sensitive_features=frame[attributes],
            ).by_group
        )


def with_pandas(frame: pd.DataFrame) -> None:
    """The same numbers by the shortest way there is."""
    for attributes in GROUP_BYS:
        frame.groupby(attributes)["served"].mean()
        frame.groupby([*attributes, "ready"])["served"].mean()


def with_aequitas(frame: pd.DataFrame) -> None:
    """The same by aequitas' table of groups; it knows single attributes only."""
    from aequitas.group import Group

    table = pd.DataFrame(
        {
            "score": frame["served"].astype(int),
            "label_value": frame["ready"].astype(int),
            "language": frame["language"].astype(str),
            "channel": frame["channel"].astype(str),
        }
    )
    table["both"] = table["language"] + "/" + table["channel"]
    Group().get_crosstabs(table, attr_cols=["language", "channel", "both"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=400_000)
    events = traffic(parser.parse_args().decisions)
    n, both = len(events.decisions), len(events.decisions) + len(events.labels)
    report = Report(
        f"Replay of {n:,} decisions and {len(events.labels):,} labels",
        *("by", "seconds", "rows/s", "against fairlearn", "peak MB"),
    )
    fair = min(timed(lambda: with_fairlearn(events.frame)) for _ in range(3))

    def add(name: str, rows: int, seconds: float) -> None:
        ratio = f"{fair / n / (seconds / rows):.2f}"
        cells = f"{seconds:.2f}", f"{rows / seconds:,.0f}", ratio, f"{peak_megabytes():,.0f}"
        report.add(name, *cells)

    add("fairlearn MetricFrame, rows in memory", n, fair)
    others: list[tuple[str, Callable[[pd.DataFrame], None]]] = [("pandas group-by", with_pandas)]
    if importlib.util.find_spec("aequitas"):
        others.append(("aequitas Group", with_aequitas))
    for name, call in others:
        add(
            f"{name}, rows in memory",
            n,
            min(timed(partial(call, events.frame)) for _ in range(3)),
        )
    with tempfile.TemporaryDirectory() as folder, databases(Path(folder)) as made:
        for kind in made.kinds:
            counting, evaluating = replay(events, kind, made, Path(folder))
            add(f"slicewatch replay, {kind}: read, join and store events", both, counting)
            add(f"slicewatch, {kind}: then fold, evaluate and publish", both, evaluating)
    report.close()
    report.keep_as("replay")


if __name__ == "__main__":
    main()
