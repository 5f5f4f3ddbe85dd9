"""The last page of a census run: its series by slice, and the rows behind its windows."""

from __future__ import annotations

import census_oracle as oracle
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


def window_rows(run: Consumed, window: str, kind: str = "decisions") -> pd.DataFrame:
    """The pooled rows of a window, as its published edges say."""
    frame = oracle.pooled(newest_rows(run.history.frame, 28 * DAY))
    where = {("window", window), ("kind", kind)}
    start, end = (
        next(
            value
            for (family, having), value in run.series.items()
            if family == f"slicewatch_window_{edge}_timestamp_seconds" and where <= having
        )
        for edge in ("start", "end")
    )
    assert end - start == WINDOWS[window]
    assert end == NEW_YEAR_2019 or window == "1h"
    return frame[(frame["decided"] >= start * 1e6) & (frame["decided"] < end * 1e6)]


def newest_rows(frame: pd.DataFrame, seconds: int) -> pd.DataFrame:
    return frame[frame["decided"] >= (NEW_YEAR_2019 - seconds) * 1_000_000]
