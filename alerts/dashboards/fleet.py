"""Dashboard of all slices of a contract: slices beyond their limits, and the age of the data."""

from __future__ import annotations

from alerts.dashboards import shown_states
from alerts.dashboards.history import days_in_states, gaps_by_day
from alerts.dashboards.model import (
    Column,
    Dashboard,
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
    NONE_IS_GOOD,
    WITHHELD,
    gap_limits,
    level_limits,
    limit_look,
    share,
    slice_link,
    table,
)
from alerts.dashboards.promql import decided, newest, oldest, series
from alerts.exposition import catalogue
from alerts.exposition.catalogue import Family

_METRIC = Variable(
    "metric", "Metric", f"label_values({series(catalogue.MAX_GAP, 'contract')}, metric)", True
)
"""Metrics with a limit, the TPR first."""
_ROW = ("metric", "group_by", "slice")
_INCIDENT = ("metric", "incident")
_ABOUT = (*_INCIDENT, "severity", "state", "group_by", "slice", "behind", "stage", "window_says")
_PERIOD = ("group_by", "window", "kind")


_COUNTED = f"sum by (state) ({newest(catalogue.STATE, (*_ROW, 'state'), 'contract')})"
"""Number of slices per state, zeros included, because a state is exported as 0 or 1."""


_STATES_NOW = Panel(
    1,
    "states",
    "Slices by state, now",
    "Each slice and metric of the contract has one state, by its published bounds. Only `within"
    " contract` says that a limit is kept; `suppressed`, `insufficient support`, `maturing` and"
    " `inconclusive` are undecided, which is no pass.",
    PanelKind.NUMBERS,
    (Query(_COUNTED, "{{state}}", now=True),),
    width=24,
    height=4,
    looks=shown_states.LOOKS,
)

_INCIDENTS = Panel(
    2,
    "incidents",
    "Incidents that stand",
    "Breaches that the sequential tests found and that are not resolved; `withheld` is a slice that"
    " may not be shown. `window says` is whether the published numbers show the breach yet: the"
    f" tests look at newer data. {NONE_IS_GOOD}",
    PanelKind.TABLE,
    (
        table(newest(catalogue.INCIDENT_INFO, _ABOUT, "contract")),
        table(f"1000 * {newest(catalogue.INCIDENT_SINCE, _INCIDENT, 'contract')}"),
        table(newest(catalogue.INCIDENT_LATEST.value, _INCIDENT, "contract")),
        table(f"1000 * {newest(catalogue.INCIDENT_WINDOW_END, _INCIDENT, 'contract')}"),
    ),
    width=24,
    height=7,
    columns=(
        Column("incident", "incident", width=80),
        Column("severity", "severity", width=80),
        Column("state", "state", width=110),
        Column("metric", "metric", width=90),
        Column("group_by", "group_by"),
        Column(
            "slice",
            "slice",
            link=slice_link(metric="metric", group_by="group_by", slice="slice"),
        ),
        Column("behind", "worse off"),
        Column("stage", "stage"),
        Column("Value #B", "since", Unit.INSTANT),
        share("Value #C", "latest number"),
        Column("Value #D", "which is until", Unit.INSTANT),
        Column("window_says", "window says"),
    ),
    sort="since",
)

_OVER_TIME = Panel(
    3,
    "states_over_time",
    "Slices by state, over time",
    "How many slices and metrics of the contract are in each state. "
    "A gap in the graph is a time at which nothing was exported.",
    queries=(Query(_COUNTED, "{{state}}"),),
    width=12,
    looks=shown_states.LOOKS,
    stacked=True,
    lowest=0,
)

_TIMELINE = Panel(
    4,
    "timeline",
    "State of every slice: $metric",
    "One line for each slice of the contract, for the metric that is chosen above. The state is by"
    f" the published bounds. {AS_PUBLISHED}",
    PanelKind.STATES,
    (
        Query(
            shown_states.state_code("contract", "metric", by=(), where='group_by=""'),
            "all decisions",
        ),
        Query(
            shown_states.state_code("contract", "metric", by=_ROW[1:], where='group_by!=""'),
            "{{slice}}",
        ),
    ),
    width=12,
    mappings=shown_states.MAPPINGS,
)

_ENDS_OF_CONTRACT = decided(catalogue.WINDOW_END, ("group_by", "kind"), "contract")
_UNTIL = Panel(
    15,
    "until",
    "The contract's window goes until",
    "Group-bys advance one by one: the end of the one furthest behind, and of the one furthest"
    " ahead. `decisions` are selection and blocked, `labelled` are TPR, FPR and ready. The graphs"
    " below say nothing about what came after.",
    PanelKind.NUMBERS,
    (
        Query(f"1000 * min by (kind) ({_ENDS_OF_CONTRACT})", "{{kind}}, at least", now=True),
        Query(f"1000 * max by (kind) ({_ENDS_OF_CONTRACT})", "{{kind}}, at most", now=True),
    ),
    unit=Unit.INSTANT,
    width=24,
    height=4,
)

_GAPS = Panel(
    5,
    "gaps",
    "Gap of every slice against its limit: $metric, as published",
    "Slice against its reference, in the contract's window; above 0, the slice is worse off. The"
    f" limit holds in either direction. {AS_PUBLISHED} {WITHHELD}",
    queries=(
        Query(decided(catalogue.GAP.value, _ROW[1:], "contract", "metric"), "{{slice}}"),
        *gap_limits("contract", "metric"),
    ),
    unit=Unit.SHARE,
    height=10,
    looks=GAP_LIMIT_LOOKS,
)


_LIMITED = newest(catalogue.MAX_GAP, ["metric"], "contract")
_POINT = f"{decided(catalogue.GAP.value, _ROW, 'contract')} and on (metric) {_LIMITED}"
_WITH_GAP = f"and on (metric, group_by, slice) ({_POINT})"
"""Number to sort the rows by."""


def _compared(family: Family) -> str:
    return f"{decided(family, (*_ROW, 'reference'), 'contract')} {_WITH_GAP}"


_BEYOND = f"abs({_compared(catalogue.GAP.value)}) - on (metric) group_left () {_LIMITED}"

_WORST = Panel(
    6,
    "worst",
    "Worst slices",
    "All gaps of the contract's window that have a limit, the one furthest beyond it first;"
    " `beyond the limit` only ranks, by the shown gap: what is decided is the `state`. `evidence`"
    " is how far the sequential test is on the way to a page, 0 to 4: it looks at newer data than"
    " the gap. Not in this table are slices of which nothing, or only bounds, are shown.",
    PanelKind.TABLE,
    (
        table(_compared(catalogue.GAP.value)),
        table(_compared(catalogue.GAP.lower)),
        table(_compared(catalogue.GAP.upper)),
        table(_BEYOND),
        table(f"{decided(catalogue.SUPPORT, _ROW, 'contract')} {_WITH_GAP}"),
        table(f"({shown_states.state_code('contract', by=_ROW)}) {_WITH_GAP}"),
        table(f"{newest(catalogue.EVIDENCE, _ROW, 'contract')} {_WITH_GAP}"),
        table(f"0 * {decided(catalogue.GAP.value, (*_ROW, 'window'), 'contract')} {_WITH_GAP}"),
    ),
    height=10,
    columns=(
        Column("metric", "metric", width=90),
        Column("group_by", "group_by"),
        Column(
            "slice",
            "slice",
            link=slice_link(metric="metric", group_by="group_by", slice="slice", window="window"),
        ),
        Column("reference", "against"),
        share("Value #A", "gap", 70),
        share("Value #B", "from", 70),
        share("Value #C", "to", 70),
        share("Value #D", "beyond the limit", 120),
        Column("Value #F", "state", mappings=shown_states.MAPPINGS),
        Column("Value #E", "support, at least", Unit.COUNT, width=120),
        Column("Value #G", "evidence", Unit.COUNT, width=80),
        Column("window", "window", width=80),
    ),
    sort="beyond the limit",
)

_RATES = Panel(
    14,
    "rates",
    "Rate of every slice: $metric, as published",
    "In the contract's window, with the smallest and the largest rate that the contract allows in"
    f" any slice, where it limits them. {AS_PUBLISHED} {WITHHELD}",
    queries=(
        Query(
            decided(*(catalogue.RATE.value, _ROW[1:], "contract", "metric"), where='group_by!=""'),
            "{{slice}}",
        ),
        *level_limits("contract", "metric"),
    ),
    unit=Unit.SHARE,
    width=24,
    looks=LEVEL_LIMIT_LOOKS,
)

_UNDECIDED_STATES = newest(
    catalogue.STATE,
    _ROW,
    "contract",
    where='group_by!="", slice!~".*__other__.*", state=~"suppressed|insufficient_support"',
)

_UNDECIDED = Panel(
    7,
    "undecided",
    "Slices that cannot be decided",
    "Share of the slices of each metric that are `suppressed` or have `insufficient support`;"
    " values that are on no list are left out. Undecided is not passed.",
    queries=(Query(f"avg by (metric) ({_UNDECIDED_STATES})", "{{metric}}"),),
    unit=Unit.SHARE,
    lowest=0,
    highest=1,
)

_BEHIND = "max({}) - on () group_right () {}"
_WATERMARK = series(catalogue.WATERMARK)
_ENDS = newest(catalogue.WINDOW_END, _PERIOD, "contract")

_AGE = Panel(
    8,
    "age",
    "How far windows end before the newest decisions",
    "In event time, the oldest window of each group-by; `labelled` are those of TPR, FPR and ready."
    " A group-by advances as a whole: a line that rises waits for the slice with the least new"
    " data. Beyond the limit (max_age of the contract) its slices are `stale`.",
    queries=(
        Query(
            _BEHIND.format(_WATERMARK, f"min by (group_by, kind) ({_ENDS})"),
            "{{kind}} {{group_by}}",
        ),
        Query(newest(catalogue.MAX_AGE, (), "contract"), "limit"),
    ),
    unit=Unit.SECONDS,
    looks=(limit_look("limit"),),
    lowest=0,
)

_WINDOWS = Panel(
    9,
    "windows",
    "What the published numbers are about",
    "From when until when each window goes, of each kind of rates: `decisions` are selection and"
    " blocked, `labelled` are TPR, FPR and ready. Every number in these dashboards is about such a"
    " period and about nothing after its end. An empty group_by is all decisions together.",
    PanelKind.TABLE,
    (
        table(f"1000 * {newest(catalogue.WINDOW_START, _PERIOD, 'contract')}"),
        table(f"1000 * {_ENDS}"),
        table(_BEHIND.format(_WATERMARK, _ENDS)),
    ),
    columns=(
        Column("group_by", "group_by"),
        Column("window", "window", width=80),
        Column("kind", "kind", width=100),
        Column("Value #A", "from", Unit.INSTANT),
        Column("Value #B", "until", Unit.INSTANT),
        Column("Value #C", "before the newest decisions", Unit.SECONDS),
    ),
    sort="before the newest decisions",
)

_CONTRACTS = Panel(
    10,
    "reviews",
    "Contracts, and when people are to look at them again",
    "All contracts of this job. `synthetic` is true for declared test conditions.",
    PanelKind.TABLE,
    (
        table(
            newest(
                catalogue.CONTRACT_INFO,
                ("contract", "version", "owner", "synthetic", "k", "primary"),
            )
        ),
        table(f"1000 * {oldest(catalogue.REVIEW_DUE, ['contract'])}"),
        table(f"{oldest(catalogue.REVIEW_DUE, ['contract'])} - time()"),
    ),
    height=6,
    columns=(
        *(Column(name, name) for name in ("contract", "version", "owner", "synthetic")),
        *(Column(name, name, width=90) for name in ("primary", "k")),
        Column("Value #B", "review due", Unit.INSTANT),
        Column("Value #C", "time left", Unit.SECONDS),
    ),
)

_REPORTS = Panel(
    16,
    "reports",
    "The newest weekly report",
    "Its week, and when its Release was first stored. Older ones are on the status page.",
    PanelKind.TABLE,
    (table(f"1000 * {newest(catalogue.REPORT_STORED, ['week'])}"),),
    height=6,
    columns=(Column("week", "week", width=110), Column("Value", "stored", Unit.INSTANT)),
)

_LIMITS = Panel(
    11,
    "limits",
    "What the contract allows",
    "An empty cell is not limited. Gaps are limited in either direction; levels hold for every"
    " slice by itself. No rate is decided on less than the support.",
    PanelKind.TABLE,
    tuple(
        table(newest(family, ["metric"], "contract"))
        for family in (
            *(catalogue.MIN_SUPPORT, catalogue.MAX_GAP),
            *(catalogue.MIN_LEVEL, catalogue.MAX_LEVEL),
        )
    ),
    height=6,
    columns=(
        Column("metric", "metric"),
        share("Value #B", "largest gap"),
        share("Value #C", "smallest rate"),
        share("Value #D", "largest rate"),
        Column("Value #A", "smallest support", Unit.COUNT),
    ),
)

FLEET = Dashboard(
    "fleet",
    "slicewatch / fleet",
    "Which slices are out of the contract's limits, and how old is that knowledge?",
    (JOB, CONTRACT, _METRIC),
    (
        PanelRow("Now", (_STATES_NOW, _INCIDENTS)),
        PanelRow("Gaps and rates", (_UNTIL, _GAPS, _WORST, _RATES)),
        PanelRow("States over time", (_OVER_TIME, _TIMELINE)),
        PanelRow("Age and support of the data", (_AGE, _WINDOWS, _UNDECIDED)),
        PanelRow("Contracts", (_CONTRACTS, _LIMITS, _REPORTS)),
        PanelRow(
            "By day, as far back as published", (gaps_by_day(12), days_in_states(13)), folded=True
        ),
    ),
)
"""Dashboard of all slices of one contract."""
