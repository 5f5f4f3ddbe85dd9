"""The last page of a census run: its series by slice, and the rows behind its windows."""

from __future__ import annotations

import pandas as pd
from census_run import Consumed

DAY = 86_400
WINDOWS = {"1h": 3_600, "24h": DAY, "7d": 7 * DAY, "28d": 28 * DAY}
NEW_YEAR_2019 = 1_546_300_800


def shown(run: Consumed, name: str, **labels: str) -> dict[str, float]:
    """Series of one family by slice."""
    return {
        dict(having)["slice"]: value
        for (family, having), value in run.series.items()
        if family == f"slicewatch_{name}" and labels.items() <= dict(having).items()
    }


def window_rows(
    run: Consumed, window: str, group_by: str, kind: str = "decisions"
) -> pd.DataFrame | None:
    """The rows of what a group-by shows in a window, by its published edges; None before any."""
    frame = run.history.frame
    where = {("window", window), ("kind", kind), ("group_by", group_by)}
    edges = [
        value * 1e6
        for edge in ("start", "end")
        for (family, having), value in run.series.items()
        if family == f"slicewatch_window_{edge}_timestamp_seconds" and where <= having
    ]
    if not edges:
        return None
    start, end = edges
    return frame[(frame["decided"] >= start) & (frame["decided"] < end)]
