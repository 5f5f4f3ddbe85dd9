"""Panels from the published tables, which go back as far as Snapshots are kept.

There is one row per day. Every value is drawn at the end of its own window, which the tables
contain; a window that did not advance from one day to the next is one point. Queries run as a
member of ``slicewatch_reporter``, which sees nothing else.
"""

from __future__ import annotations

from alerts.dashboards.model import Panel, PanelKind, Unit
from alerts.dashboards.parts import (
    GAP_LIMIT_LOOKS,
    LEVEL_LIMIT_LOOKS,
    WITHHELD,
    band,
    dotted,
    sql,
)
from alerts.dashboards.shown_states import LOOKS
from monitor.core.contract import Metric
from monitor.core.rates.gaps import HARMED_BY_LESS

AT_ITS_END = "From the published tables, one value a day, drawn at the end of its own window."
_PERIOD = "published_window w USING (day, contract, window_name, group_by, kind)"
_LIMIT = "LEFT JOIN published_limit l USING (day, contract, metric)"
_SLICE = """r.contract = ${contract:sqlstring} AND r.metric = ${metric:sqlstring}
  AND r.window_name = ${window:sqlstring} AND r.group_by = ${group_by:sqlstring}
  AND r.slice = ${slice:sqlstring} AND $__timeFilter(w.ends_at)"""


def _by_window_end(columns: str) -> str:
    """Return SQL for ``columns`` of a slice by its window's end; the newest publication wins."""
    return (
        f'SELECT DISTINCT ON (w.ends_at) w.ends_at AS "time", {columns}\n'
        f"FROM published_rate r JOIN {_PERIOD}\n{_LIMIT}\nWHERE {_SLICE}\n"
        "ORDER BY w.ends_at, r.day DESC"
    )


def _reference() -> str:
    less = ", ".join(f"'{metric}'" for metric in Metric if metric in HARMED_BY_LESS)
    return f"CASE WHEN r.metric IN ({less}) THEN r.value + r.gap ELSE r.value - r.gap END"


def _limit(name: str) -> str:
    """Return SQL for a slice's limit of this name: its own, or else the contract's."""
    return f"COALESCE(r.own_{name}, l.{name})"


def rate_by_day(number: int) -> Panel:
    """Return panel ``number``: the rate of one slice by day, with bounds and limits."""
    columns = (
        f'r.value AS "rate", r.lower AS "lower", r.upper AS "upper", {_reference()} AS "reference",'
        ' r.at_least AS "at least", r.at_most AS "at most",'
        f' {_limit("min_level")} AS "smallest allowed", {_limit("max_level")} AS "largest allowed"'
    )
    return Panel(
        number,
        "rate_by_day",
        "$metric by day: $slice",
        f"{AT_ITS_END} The band is the 95 % interval. {WITHHELD}",
        queries=(sql(_by_window_end(columns)),),
        unit=Unit.SHARE,
        looks=(
            *band("lower", "upper", "blue"),
            *(dotted(name, "blue") for name in ("at least", "at most")),
            dotted("reference", "text"),
            *LEVEL_LIMIT_LOOKS,
        ),
    )


def gap_by_day(number: int) -> Panel:
    """Return panel ``number``: the gap of one slice by day, with each day's limit."""
    columns = (
        'r.gap AS "gap", r.gap_lower AS "lower", r.gap_upper AS "upper",'
        f' {_limit("max_gap")} AS "limit", -{_limit("max_gap")} AS "limit, the other way"'
    )
    return Panel(
        number,
        "gap_by_day",
        "Gap of $metric by day: $slice",
        f"{AT_ITS_END} The limit is the one that was in force on that day. Above 0, the slice is"
        f" worse off. {WITHHELD}",
        queries=(sql(_by_window_end(columns)),),
        unit=Unit.SHARE,
        looks=(*band("lower", "upper", "blue"), *GAP_LIMIT_LOOKS),
    )


def gaps_by_day(number: int) -> Panel:
    """Return panel ``number``: the gaps of all slices of a contract by day."""
    return Panel(
        number,
        "gaps_by_day",
        "Gap of every slice by day: $metric",
        f"{AT_ITS_END} In the contract's window. {WITHHELD}",
        queries=(
            sql(
                "SELECT DISTINCT ON (w.ends_at, r.group_by, r.slice)"
                ' w.ends_at AS "time", r.slice AS "metric", r.gap AS "value"\n'
                f"FROM published_rate r JOIN {_PERIOD}\n"
                "JOIN published_contract c USING (day, contract)\n"
                "WHERE r.contract = ${contract:sqlstring} AND r.metric = ${metric:sqlstring}\n"
                "  AND r.window_name = c.verdict_window AND r.gap IS NOT NULL"
                " AND $__timeFilter(w.ends_at)\n"
                "ORDER BY w.ends_at, r.group_by, r.slice, r.day DESC"
            ),
            sql(
                'SELECT c.complete_to AS "time", l.max_gap AS "limit",'
                ' -l.max_gap AS "limit, the other way"\n'
                "FROM published_limit l JOIN published_contract c USING (day, contract)\n"
                "WHERE contract = ${contract:sqlstring} AND l.metric = ${metric:sqlstring}"
                " AND $__timeFilter(c.complete_to)\nORDER BY c.complete_to"
            ),
        ),
        unit=Unit.SHARE,
        looks=GAP_LIMIT_LOOKS,
    )


def days_in_states(number: int) -> Panel:
    """Return panel ``number``: how many slices are in each state, by day."""
    return Panel(
        number,
        "states_by_day",
        "Slices by state, by day",
        "From the published tables: the states of each day's last publication, at the time up to"
        " which its decisions were complete.",
        queries=(
            sql(
                'SELECT c.complete_to AS "time", r.state AS "metric", count(*) AS "value"\n'
                "FROM published_rate r JOIN published_contract c USING (day, contract)\n"
                "WHERE contract = ${contract:sqlstring} AND r.window_name = c.verdict_window\n"
                "  AND $__timeFilter(c.complete_to)\n"
                "GROUP BY c.complete_to, r.state ORDER BY c.complete_to, r.state"
            ),
        ),
        looks=LOOKS,
        stacked=True,
        lowest=0,
    )


def completeness_by_day(number: int, complete: float) -> Panel:
    """Return panel ``number``: labels received over labels requested by day, for all decisions."""
    return Panel(
        number,
        "completeness_by_day",
        "Completeness of labels by day, all decisions",
        f"{AT_ITS_END} The line is the share at which a cohort counts as complete. {WITHHELD}",
        PanelKind.LINES,
        (
            sql(
                'SELECT DISTINCT ON (w.ends_at) w.ends_at AS "time",'
                ' r.completeness AS "completeness"\n'
                f"FROM published_rate r JOIN {_PERIOD}\n"
                "JOIN published_contract c USING (day, contract)\n"
                "WHERE r.contract = ${contract:sqlstring} AND r.window_name = c.verdict_window\n"
                "  AND r.group_by = '' AND r.completeness IS NOT NULL"
                " AND $__timeFilter(w.ends_at)\n"
                "ORDER BY w.ends_at, r.day DESC"
            ),
        ),
        unit=Unit.SHARE,
        highest=1,
        limit=complete,
    )
