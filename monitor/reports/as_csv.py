"""CSV form of the report: one file per tidy frame, safe to open in a spreadsheet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.core.publish.release import Release
from monitor.present.csv_text import written
from monitor.reports.frames import weekly

if TYPE_CHECKING:
    import pandas as pd


def render(release: Release) -> dict[str, str]:
    """Return CSV text by frame name (rates, gaps, calibration); withheld numbers are empty."""
    return {name: _text(frame) for name, frame in weekly(release).items()}


def _text(frame: pd.DataFrame) -> str:
    rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    return written(list(frame.columns), rows)
