"""Panels of one slice beyond its rate and gap: reasons for the gap, and detectable gaps."""

from __future__ import annotations

from alerts.dashboards.model import (
    Column,
    Panel,
    PanelKind,
    Query,
    Unit,
)
from alerts.dashboards.parts import (
    AS_PUBLISHED,
    NONE_IS_GOOD,
    WITHHELD,
    share,
    table,
)
from alerts.dashboards.promql import newest
from alerts.exposition import catalogue

_CELL = ("contract", "group_by", "slice", "window")

SIBLINGS = Panel(
    10,
    "siblings",
    "$metric of all slices of $group_by",
    f"{AS_PUBLISHED} {WITHHELD}",
    queries=(
        Query(
            newest(
                *(catalogue.RATE.value, ("slice",), "contract", "metric", "group_by", "window"),
            ),
            "{{slice}}",
        ),
    ),
    unit=Unit.SHARE,
)

CALIBRATION = Panel(
    11,
    "calibration",
    "Ready replies by score band",
    "P(ready) in each band of the judge's score, with its 95 % interval, in the chosen window. A"
    f" band of too few decisions is left out. {WITHHELD}",
    PanelKind.TABLE,
    tuple(
        table(newest(family, ["band"], *_CELL))
        for family in (*catalogue.CALIBRATION.families, catalogue.CALIBRATION_SUPPORT)
    ),
    columns=(
        Column("band", "score"),
        share("Value #A", "ready"),
        share("Value #B", "from"),
        share("Value #C", "to"),
        Column("Value #D", "support, at least", Unit.COUNT),
    ),
)

FOUND = Panel(
    13,
    "found",
    "What else was found about this slice",
    f"Advisory findings: they annotate and never page. {NONE_IS_GOOD}",
    PanelKind.TABLE,
    (
        table(
            newest(catalogue.FINDINGS, ("metric", "finding"), "contract", "group_by", "slice")
            + " > 0"
        ),
        table(
            "1000 * "
            + newest(catalogue.FOUND_AT, ("metric", "finding"), "contract", "group_by", "slice")
        ),
    ),
    width=8,
    height=6,
    columns=(
        Column("finding", "finding"),
        Column("metric", "metric"),
        Column("Value #A", "times", Unit.COUNT),
        Column("Value #B", "last", Unit.INSTANT),
    ),
    sort="last",
)

STAGES = Panel(
    14,
    "stage",
    "Where the slice and its reference part",
    f"The stage of the router, and how much of the difference it makes. {NONE_IS_GOOD}",
    PanelKind.TABLE,
    (
        table(
            newest(
                *(catalogue.STAGE, ("metric", "stage", "share")),
                *("contract", "group_by", "slice"),
            )
        ),
    ),
    width=8,
    height=6,
    columns=(Column("metric", "metric"), Column("stage", "stage"), Column("share", "share")),
)

POWER = Panel(
    15,
    "power",
    "What could be found",
    "`detectable gap` is the smallest gap beyond the limit that four weeks of labels, at their"
    " present rate, would show to be beyond it in 80 of 100 cases. `labels needed` is how long they"
    " must come until a gap of the limit + 5 points would be found. `as labelled` is the rate over"
    " labelled rows alone: wrong where labels are a biased sample.",
    PanelKind.TABLE,
    (
        table(newest(catalogue.DETECTABLE, ["metric"], "contract", "group_by", "slice")),
        table(newest(catalogue.LABEL_NEED, ["metric"], "contract", "group_by", "slice")),
        table(newest(catalogue.AS_LABELLED, ["metric"], *_CELL)),
        table(newest(catalogue.RATE.value, ["metric"], *_CELL)),
        table(newest(catalogue.RELATIVE.value, ["metric"], *_CELL)),
    ),
    columns=(
        Column("metric", "metric"),
        share("Value #D", "rate"),
        share("Value #E", "of the reference's"),
        share("Value #C", "as labelled"),
        share("Value #A", "detectable gap"),
        Column("Value #B", "labels needed", Unit.SECONDS),
    ),
)
