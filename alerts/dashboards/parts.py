"""Variables, looks and sentences that several dashboards share."""

from __future__ import annotations

from functools import partial
from typing import Any

from alerts.dashboards.model import Column, Look, Panel, PanelKind, Query, Source, Unit, Variable
from alerts.dashboards.promql import newest, series
from alerts.dashboards.shown_states import LIMIT_COLOR
from alerts.exposition import catalogue

JOB = Variable("job", "Job", "label_values(slicewatch_build_info, job)")
"""Variable of the installation: the scrape job of its processes, whatever its name."""
CONTRACT = Variable(
    "contract", "Contract", f"label_values({series(catalogue.CONTRACT_INFO)}, contract)"
)

AS_PUBLISHED = (
    "The time axis is when a value was published. What it is about ended earlier, at the end of its"
    " window."
)
"""Note on the time axis, because Prometheus cannot shift a line by another series."""
WITHHELD = "Where nothing is drawn, the number is withheld or unknown: it is not zero."
NONE_IS_GOOD = "Empty where there is none."

SLICE_PAGE = "/d/slicewatch-slice/"
KEPT = ("datasource", "history", "job", "contract")
"""Variables whose present choice a link keeps."""


def slice_link(**fields: str) -> tuple[str, str]:
    """Return title and address of a link from a table's cells to the dashboard of one slice.

    Args:
        fields: for each variable of that dashboard, the column with its value, or ``$name`` for
            the variable of that name.
    """
    kept_variables = "&".join(f"${{{name}:queryparam}}" for name in KEPT)
    slice_variables = "&".join(f"var-{name}={_value(column)}" for name, column in fields.items())
    return (
        "This slice in detail",
        f"{SLICE_PAGE}?{kept_variables}&{slice_variables}&${{__url_time_range}}",
    )


def _value(column: str) -> str:
    if column.startswith("$"):
        return f"${{{column[1:]}:percentencode}}"
    return f'${{__data.fields["{column}"]:percentencode}}'


def color(name: str, shade: str) -> Look:
    """Return the look that gives the lines of this name one colour."""
    return Look(name, {"color": _fixed(shade)})


def limit_look(name: str) -> Look:
    """Return the look of a limit's line of this name: dashed, without filling."""
    dashes: dict[str, Any] = {"fill": "dash", "dash": [8, 8]}
    return Look(
        name,
        {
            "color": _fixed(LIMIT_COLOR),
            "custom.lineStyle": dashes,
            "custom.lineWidth": 2,
            "custom.fillOpacity": 0,
        },
    )


def dotted(name: str, shade: str) -> Look:
    """Return the look of the lines of this name: thin, dotted, in one colour."""
    dots: dict[str, Any] = {"fill": "dot", "dash": [2, 4]}
    return Look(name, {"color": _fixed(shade), "custom.lineStyle": dots})


def band(lower: str, upper: str, shade: str) -> tuple[Look, Look]:
    """Return the looks of two bounds: lines hidden, and the area between them filled."""
    return (
        Look(lower, {"color": _fixed(shade), "custom.lineWidth": 0, "custom.hideFrom": _LEGEND}),
        Look(
            upper,
            {
                "color": _fixed(shade),
                "custom.lineWidth": 0,
                "custom.fillBelowTo": lower,
                "custom.fillOpacity": 20,
                "custom.hideFrom": _LEGEND,
            },
        ),
    )


_LEGEND = {"legend": True, "tooltip": False, "viz": False}


def _fixed(shade: str) -> dict[str, str]:
    return {"mode": "fixed", "fixedColor": shade}


def table(text: str) -> Query:
    """Return a PromQL query for the newest values, as rows of a table."""
    return Query(text, now=True, table=True)


def sql(text: str) -> Query:
    """Return a query with this SQL on the published tables."""
    return Query(text, source=Source.POSTGRESQL)


def gap_limits(*chosen: str) -> tuple[Query, Query]:
    """Return queries for the limit on a gap, in both directions, where labels match ``chosen``."""
    limit = newest(catalogue.MAX_GAP, (), *chosen)
    return Query(limit, "limit"), Query(f"-{limit}", "limit, the other way")


GAP_LIMIT_LOOKS = (limit_look("limit"), limit_look("limit, the other way"))


def level_limits(*chosen: str) -> tuple[Query, Query]:
    """Return queries for the smallest and largest rate allowed, where labels match ``chosen``."""
    return (
        Query(newest(catalogue.MIN_LEVEL, (), *chosen), "smallest allowed"),
        Query(newest(catalogue.MAX_LEVEL, (), *chosen), "largest allowed"),
    )


LEVEL_LIMIT_LOOKS = (limit_look("smallest allowed"), limit_look("largest allowed"))


def share(source: str, title: str, width: int | None = None) -> Column:
    """Return a table column that shows ratios in per cent."""
    return Column(source, title, Unit.SHARE, decimals=0, width=width)


FLAG: tuple[dict[str, Any], ...] = (
    {
        "type": "value",
        "options": {
            "0": {"text": "no", "color": "rgba(128, 128, 128, 0.25)", "index": 0},
            "1": {"text": "yes", "color": "dark-red", "index": 1},
        },
    },
)
"""Words for a flag: 1 while something is wrong, else 0."""


def flag(number: int, key: str, title: str, about: str, query: Query, *, height: int = 6) -> Panel:
    """Return a panel of a flag's states over time; the flag is 1 while something is wrong."""
    return Panel(
        number,
        key,
        title,
        about,
        PanelKind.STATES,
        (query,),
        width=8,
        height=height,
        mappings=FLAG,
    )


def lines(
    number: int,
    key: str,
    title: str,
    about: str,
    *queries: Query,
    unit: Unit = Unit.COUNT,
    looks: tuple[Look, ...] = (),
    height: int = 7,
) -> Panel:
    """Return a panel of lines over time, with an axis from 0."""
    return Panel(
        *(number, key, title, about),
        queries=queries,
        unit=unit,
        looks=looks,
        width=8,
        height=height,
        lowest=0,
    )


tall_lines = partial(lines, height=8)
