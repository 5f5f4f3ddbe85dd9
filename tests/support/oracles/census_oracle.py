"""Brute force over rows of the census: what every count and rate must be, by other means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import nan

import numpy as np
import pandas as pd

BANDS = (0.25, 0.50, 0.75, 0.90)
DELAY_HOURS = (1, 3, 6, 12, 24, 72, 168)
K = 11
MIN_LABELS = 10
HOUR = 3_600_000_000
OTHER = "__other__"


def slice_names(frame: pd.DataFrame, attributes: Sequence[str]) -> pd.Series[str]:
    """The slice of every row, attributes sorted by name."""
    parts = [name + "=" + frame[name] for name in sorted(attributes)]
    if not parts:
        return pd.Series("", frame.index)
    return reduce(lambda left, right: left + "," + right, parts)


def cells(frame: pd.DataFrame) -> dict[tuple[str, bool, int, bool], tuple[int, ...]]:
    """Counts by (atom, auto, band, sampled): N, requested, labelled, ready, then label delays."""
    keys = pd.DataFrame(
        {
            "atom": slice_names(frame, ["sex", "rac1p"]),
            "auto": frame["auto"],
            "band": sum((frame["score"] >= edge).astype(int) for edge in BANDS),
            "sampled": frame["audit_p"] < 1,
        }
    )
    asked = frame["requested"]
    hours = (frame["labelled"] - frame["decided"]) / HOUR
    bucket = sum((hours >= edge).astype(int) for edge in DELAY_HOURS)
    values = pd.DataFrame({"n": 1, "q": asked, "labelled": asked, "ready": asked & frame["ready"]})
    for one in range(len(DELAY_HOURS) + 1):
        values[f"delay_{one}"] = asked & (bucket == one)
    summed = values.astype(int).groupby([keys[name] for name in keys]).sum()
    return {key: tuple(row) for key, row in zip(summed.index, summed.to_numpy().tolist())}  # noqa: B905


@dataclass(frozen=True, slots=True)
class Rate:
    """One rate counted: value hits / (hits + misses); NaN without trials."""

    hits: int
    misses: int

    @property
    def value(self) -> float:
        total = self.hits + self.misses
        return self.hits / total if total else nan


def plain(frame: pd.DataFrame) -> dict[str, Rate]:
    """Selection rate, TPR and FPR of all rows, every one labelled."""
    auto, ready = frame["auto"], frame["ready"]

    def rate(rows: pd.Series[bool]) -> Rate:
        return Rate(int((rows & auto).sum()), int((rows & ~auto).sum()))

    everything = pd.Series(data=True, index=frame.index)
    return {"selection": rate(everything), "tpr": rate(ready), "fpr": rate(~ready)}


def post_stratified(frame: pd.DataFrame) -> dict[str, float]:
    """TPR and FPR from the labelled rows, weighted by the decisions of route and score band.

    Neighbouring bands are joined from below until each has ten labels, or none is left to join.
    NaN without trials, or where a route has decisions and no label.
    """
    auto, review = (_expected(frame[frame["auto"] == route]) for route in (True, False))
    totals = [a + b for a, b in zip(auto, review, strict=True)]
    shares = [a / total if total else nan for a, total in zip(auto, totals, strict=True)]
    return dict(zip(("tpr", "fpr"), shares, strict=True))


def _expected(rows: pd.DataFrame) -> tuple[float, float]:
    """Expected ready and not ready decisions of one route."""
    band = np.searchsorted(BANDS, rows["score"], side="right")
    runs: list[list[int]] = []
    open_run = [0, 0, 0]
    for one in range(len(BANDS) + 1):
        part = rows[band == one]
        asked = part["requested"]
        found = (len(part), int(asked.sum()), int((asked & part["ready"]).sum()))
        open_run = [a + b for a, b in zip(open_run, found, strict=True)]
        if open_run[1] >= MIN_LABELS:
            runs.append(open_run)
            open_run = [0, 0, 0]
    if not runs and open_run[0] and not open_run[1]:
        return nan, nan
    runs = runs or [[0, 0, 0]]
    runs[-1] = [a + b for a, b in zip(runs[-1], open_run, strict=True)]
    ready = sum(n * m / labelled for n, labelled, m in runs if labelled)
    return ready, sum(n for n, _, _ in runs) - ready


def as_labelled(frame: pd.DataFrame) -> dict[str, Rate]:
    """The rates over labelled rows alone."""
    return plain(frame[frame["requested"]])
