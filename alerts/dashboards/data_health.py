"""Dashboard of drift and of the data behind the rates: labels, sampling, probes."""

from __future__ import annotations

from alerts.dashboards.health_labels import copies, labels
from alerts.dashboards.health_probes import probes
from alerts.dashboards.history import completeness_by_day
from alerts.dashboards.model import (
    Column,
    Dashboard,
    Panel,
    PanelKind,
    PanelRow,
    Query,
    Unit,
)
from alerts.dashboards.parts import (
    CONTRACT,
    JOB,
    NONE_IS_GOOD,
    slice_link,
    table,
)
from alerts.dashboards.promql import newest
from alerts.exposition import catalogue

_FINDING = ("metric", "group_by", "slice", "window", "finding")


def _findings() -> tuple[Panel, ...]:
    return (
        Panel(
            1,
            "findings",
            "Findings, the newest first",
            "`gap` and `drift` are the weekly lists; mix_shift, adwin, page_hinkley, labels_later,"
            " labels_earlier and version_change annotate. All are advisory and never page. `last`"
            f" is the end of the day that showed it. {NONE_IS_GOOD}",
            PanelKind.TABLE,
            (
                table(f"1000 * {newest(catalogue.FOUND_AT, _FINDING, 'contract')}"),
                table(f"{newest(catalogue.FINDINGS, _FINDING, 'contract')} > 0"),
            ),
            width=14,
            height=9,
            columns=(
                Column("finding", "finding"),
                Column("metric", "metric", width=90),
                Column("group_by", "group_by"),
                Column(
                    "slice",
                    "slice",
                    link=slice_link(group_by="group_by", slice="slice", window="window"),
                ),
                Column("Value #A", "last", Unit.INSTANT),
                Column("Value #B", "times", Unit.COUNT, decimals=0, width=80),
            ),
            sort="last",
        ),
        Panel(
            2,
            "findings_total",
            "Findings since monitoring began",
            "By kind, over all slices of the contract: a step is a new finding.",
            queries=(
                Query(
                    f"sum by (finding) ({newest(catalogue.FINDINGS, _FINDING, 'contract')})",
                    "{{finding}}",
                ),
            ),
            width=10,
            height=9,
            lowest=0,
        ),
    )


def health(complete: float) -> Dashboard:
    """Return the dashboard of drift, labels, sampling and probes; ``complete`` is drawn as a limit.

    Args:
        complete: completeness of a mature cohort, from the settings.
    """
    return Dashboard(
        "health",
        "slicewatch / drift and data health",
        "Has something changed, and can the rates be trusted?",
        (JOB, CONTRACT),
        (
            PanelRow("Drift", _findings()),
            PanelRow("Labels", labels(complete)),
            PanelRow("Copies, clusters and gaps in the data", copies()),
            PanelRow("Probes", probes()),
            PanelRow(
                "By day, as far back as published",
                (completeness_by_day(24, complete),),
                folded=True,
            ),
        ),
    )
