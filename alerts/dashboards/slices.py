"""Dashboard of one slice: rate and gap with their intervals, and the data behind them."""

from __future__ import annotations

from alerts.dashboards import shown_states
from alerts.dashboards.history import gap_by_day, rate_by_day
from alerts.dashboards.model import (
    Dashboard,
    GraphAnnotation,
    Panel,
    PanelKind,
    PanelRow,
    Query,
    Unit,
    Variable,
)
from alerts.dashboards.parts import (
    AS_PUBLISHED,
    CONTRACT,
    GAP_LIMIT_LOOKS,
    JOB,
    LEVEL_LIMIT_LOOKS,
    WITHHELD,
    band,
    dotted,
    gap_limits,
    level_limits,
    limit_look,
)
from alerts.dashboards.promql import newest, series
from alerts.dashboards.slice_details import (
    CALIBRATION,
    FOUND,
    POWER,
    SIBLINGS,
    STAGES,
)
from alerts.exposition import catalogue
from alerts.exposition.catalogue import Family
from monitor.core.contract import Metric
from monitor.core.rates.gaps import HARMED_BY_LESS

_CELL = ("contract", "group_by", "slice", "window")
_SLICE = ("contract", "metric", "group_by", "slice", "window")
_ALWAYS = ("contract", "metric", "group_by", "slice")
"""Labels of numbers that exist only for the contract's window, whatever window is chosen."""


def _values(family: Family, name: str, *chosen: str) -> str:
    return f"label_values({series(family, *chosen)}, {name})"


_VARIABLES = (
    JOB,
    CONTRACT,
    Variable("window", "Window", _values(catalogue.WINDOW_END, "window", "contract"), True),
    Variable("group_by", "Group-by", _values(catalogue.STATE, "group_by", "contract")),
    Variable("slice", "Slice", _values(catalogue.STATE, "slice", "contract", "group_by")),
    Variable("metric", "Metric", _values(catalogue.STATE, "metric", *_ALWAYS[:1]), True),
)
_KINDS = (
    "`decisions` are selection and blocked, `labelled` are TPR, FPR, ready and precision. "
    "The numbers of this page say nothing about what came after."
)


def _metric_matcher(*, by_less: bool) -> str:
    """Return a PromQL matcher of metrics for which a lower rate is worse, or of the others."""
    names = "|".join(metric for metric in Metric if (metric in HARMED_BY_LESS) is by_less)
    return f'metric=~"{names}"'


def _reference_rate() -> str:
    """Return PromQL for the rate of the slice's reference, from the shown rate and gap.

    A gap is positive if the slice is worse off, so its sign depends on the metric.
    """

    def term(sign: str, *, by_less: bool) -> str:
        where = _metric_matcher(by_less=by_less)
        rate = newest(catalogue.RATE.value, ("group_by", "slice"), *_SLICE, where=where)
        by = ("group_by", "slice", "reference")
        gap = newest(catalogue.GAP.value, by, *_SLICE, where=where)
        return f"{rate} {sign} on (group_by, slice) group_right () {gap}"

    return f"{term('+', by_less=True)}\nor {term('-', by_less=False)}"


_STATE = Panel(
    1,
    "state",
    "State",
    "By the published bounds, in the contract's window.",
    PanelKind.NUMBERS,
    (Query(shown_states.state_code(*_ALWAYS, by=("slice",)), "{{slice}}", now=True),),
    width=4,
    height=4,
    mappings=shown_states.MAPPINGS,
)

_EVIDENCE = Panel(
    2,
    "evidence",
    "Evidence for a breach",
    "How far the sequential test is on the way to a page: 0 to 3 are below 25, 50, 75 and 100 % of"
    " what it needs, 4 is a crossing that stands.",
    PanelKind.NUMBERS,
    (Query(newest(catalogue.EVIDENCE, ("slice",), *_ALWAYS), "{{slice}}", now=True),),
    width=4,
    height=4,
)

_WINDOW_END = newest(catalogue.WINDOW_END, ("kind",), "contract", "group_by", "window")

_UNTIL = Panel(
    3,
    "until",
    "The window $window goes until",
    f"The end of the chosen window of this group-by. {_KINDS}",
    PanelKind.NUMBERS,
    (Query(f"1000 * {_WINDOW_END}", "{{kind}}", now=True),),
    unit=Unit.INSTANT,
    width=8,
    height=4,
)

_WAITS = Panel(
    4,
    "waits",
    "How long ago that is",
    f"Age of the end of the chosen window. {_KINDS}",
    PanelKind.NUMBERS,
    (Query(f"time() - {_WINDOW_END}", "{{kind}}", now=True),),
    unit=Unit.SECONDS,
    width=8,
    height=4,
)

_RATE = Panel(
    5,
    "rate",
    "$metric of $slice, as published",
    "Rate of the slice with its 95 % interval, that of its reference, and that of all decisions."
    " Dots are a bound that is shown instead of the rate, where too few were (or were not)"
    f" selected. {AS_PUBLISHED} {WITHHELD}",
    queries=(
        Query(newest(catalogue.RATE.value, (), *_SLICE), "rate"),
        Query(newest(catalogue.RATE.lower, (), *_SLICE), "lower"),
        Query(newest(catalogue.RATE.upper, (), *_SLICE), "upper"),
        Query(newest(catalogue.AT_LEAST, (), *_SLICE), "at least"),
        Query(newest(catalogue.AT_MOST, (), *_SLICE), "at most"),
        Query(_reference_rate(), "reference: {{reference}}"),
        Query(
            newest(
                *(catalogue.RATE.value, (), "contract", "metric", "window"),
                where='group_by="", slice=""',
            ),
            "all decisions",
        ),
        *level_limits("contract", "metric"),
    ),
    unit=Unit.SHARE,
    height=10,
    looks=(
        *band("lower", "upper", "blue"),
        *(dotted(name, "blue") for name in ("at least", "at most")),
        dotted("/^reference/", "text"),
        dotted("all decisions", "purple"),
        *LEVEL_LIMIT_LOOKS,
    ),
)

_GAP = Panel(
    6,
    "gap",
    "Gap of $metric: $slice, as published",
    "Slice against its reference with its 95 % interval; above 0, the slice is worse off. The limit"
    " holds in either direction. The test of the contract looks at newer data than this: a page may"
    f" come before its gap is seen here. {AS_PUBLISHED} {WITHHELD}",
    queries=(
        Query(newest(catalogue.GAP.value, ("reference",), *_SLICE), "gap to {{reference}}"),
        Query(newest(catalogue.GAP.lower, (), *_SLICE), "lower"),
        Query(newest(catalogue.GAP.upper, (), *_SLICE), "upper"),
        *gap_limits("contract", "metric"),
    ),
    unit=Unit.SHARE,
    height=10,
    looks=(*band("lower", "upper", "blue"), *GAP_LIMIT_LOOKS),
)

_SUPPORT = Panel(
    7,
    "support",
    "Support of $metric",
    "Lower edge of the band that holds the number of trials, and the support below which the"
    f" contract decides nothing. {WITHHELD}",
    queries=(
        Query(newest(catalogue.SUPPORT, (), *_SLICE), "at least"),
        Query(newest(catalogue.MIN_SUPPORT, (), "contract", "metric"), "needed"),
    ),
    width=8,
    looks=(limit_look("needed"),),
    lowest=0,
)

_COMPLETENESS = Panel(
    8,
    "completeness",
    "Completeness of labels",
    "Labels received over labels requested in the chosen window, the lowest of all routes and audit"
    f" rates: of the slice, and of all decisions. {WITHHELD}",
    queries=(
        Query(newest(catalogue.COMPLETENESS, (), *_CELL), "slice"),
        Query(
            newest(
                *(catalogue.COMPLETENESS, (), "contract", "window"),
                where='group_by="", slice=""',
            ),
            "all decisions",
        ),
    ),
    unit=Unit.SHARE,
    width=8,
    highest=1,
)

_STATES = Panel(
    9,
    "states",
    "State over time",
    "In the contract's window, by the published bounds, of every metric of this slice.",
    PanelKind.STATES,
    (
        Query(
            shown_states.state_code("contract", "group_by", "slice", by=("metric",)), "{{metric}}"
        ),
    ),
    width=8,
    mappings=shown_states.MAPPINGS,
)

_INCIDENT = ("contract", "metric")
_RELEASES = GraphAnnotation(
    "Releases (versions)",
    "1000 * "
    + newest(
        *(catalogue.FOUND_AT, ("group_by", "slice"), "contract", "group_by", "slice"),
        where='finding="version_change"',
    ),
    "Versions changed",
    "Other versions answer {{slice}}.",
    "purple",
    at_value=True,
)
_VERSION_OF = newest(catalogue.CONTRACT_INFO, ("contract", "version"), "contract")
_BEFORE = series(catalogue.CONTRACT_INFO, "contract")
_CONTRACT_CHANGES = GraphAnnotation(
    "Changes of the contract",
    f"{_VERSION_OF}"
    f"\nunless on (contract, version) max_over_time({_BEFORE}[1d] offset 5m)"
    f"\nand on (contract) max_over_time({_BEFORE}[1d] offset 5m)",
    "Contract {{contract}}",
    "Version {{version}} is in force.",
    "yellow",
)
_INCIDENTS = GraphAnnotation(
    "Incidents",
    f"1000 * {newest(catalogue.INCIDENT_SINCE, ('incident', 'metric'), *_INCIDENT)}",
    "Incident {{incident}}",
    "{{metric}}: the first cohort that crossed.",
    "red",
    at_value=True,
)
_CHANGES = GraphAnnotation(
    "Changes before an incident",
    f"1000 * {newest(catalogue.INCIDENT_CHANGE, ('incident', 'what'), *_INCIDENT)}",
    "Changed before incident {{incident}}",
    "{{what}}",
    "blue",
    at_value=True,
)

SLICE = Dashboard(
    "slice",
    "slicewatch / slice",
    "How is one slice treated, against whom, and what does that rest on?",
    _VARIABLES,
    (
        PanelRow("Now", (_STATE, _EVIDENCE, _UNTIL, _WAITS)),
        PanelRow("Rate and gap", (_RATE, _GAP)),
        PanelRow("What they rest on", (_SUPPORT, _COMPLETENESS, _STATES)),
        PanelRow("Why", (STAGES, FOUND)),
        PanelRow("More", (SIBLINGS, CALIBRATION, POWER)),
        PanelRow(
            "By day, as far back as published", (rate_by_day(16), gap_by_day(17)), folded=True
        ),
    ),
    (_RELEASES, _CONTRACT_CHANGES, _INCIDENTS, _CHANGES),
)
"""Dashboard of one slice."""
