"""Permalinks: the subject of a view as query parameters; errors never echo the input.

Example:
    >>> ViewSubject(contract="demo", slice="channel=chat", metric=Metric.TPR).query()
    'contract=demo&slice=channel%3Dchat&metric=tpr'
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import urlencode

from monitor.core.metric import Metric
from monitor.core.publish.words import iso_text
from monitor.core.state import SLICE_CLASSES
from monitor.core.time import WINDOWS, IsoWeek, to_micros
from monitor.errors import SlicewatchError

_LONGEST = 1_024
_NAMES = frozenset(
    {"contract", "window", "group_by", "slice", "metric", "as_of", "page", "find", "show"}
)


class LinkError(SlicewatchError):
    """Error for a link with a wrong parameter; the text says which."""


class NothingThereError(SlicewatchError):
    """Error for a link to something that does not exist."""


@dataclass(frozen=True, slots=True)
class ViewSubject:
    """Subject of a view, as links name it: contract, window, slice, metric, time, page, filter.

    Attributes:
        contract: name; empty: the first contract, or all.
        window: name; empty: the window that decides the contract.
        group_by: attribute names joined by ``+``; empty: all decisions, or all group-bys.
        slice: slice text; empty: all decisions.
        metric: limited metric; None: the primary one.
        as_of: event time (us), for the newest Snapshot of that time; None: the newest of all.
        page: page of a long list, from 1.
        find: part of the slice's name, in any case; empty: all slices.
        show: class of slices, one of SLICE_CLASSES; empty: all classes.
    """

    contract: str = ""
    window: str = ""
    group_by: str = ""
    slice: str = ""
    metric: Metric | None = None
    as_of: int | None = None
    page: int = 1
    find: str = ""
    show: str = ""

    @classmethod
    def parse(cls, parameters: Mapping[str, str]) -> ViewSubject:
        """Return the ViewSubject that query parameters name.

        Raises:
            LinkError: a parameter is unknown, or has an impossible value.
        """
        if unknown := parameters.keys() - _NAMES:
            raise LinkError(f"{len(unknown)} of its parameters are unknown")
        if any(len(text) > _LONGEST for text in parameters.values()):
            raise LinkError(f"a parameter is longer than {_LONGEST} characters")
        window, metric = parameters.get("window", ""), parameters.get("metric", "")
        as_of, page = parameters.get("as_of", ""), parameters.get("page", "")
        show = parameters.get("show", "")
        if show and show not in SLICE_CLASSES:
            raise LinkError(f"show must be one of {', '.join(SLICE_CLASSES)}")
        if window and window not in WINDOWS:
            raise LinkError(f"window must be one of {', '.join(WINDOWS)}")
        return cls(
            contract=parameters.get("contract", ""),
            window=window,
            group_by=parameters.get("group_by", ""),
            slice=parameters.get("slice", ""),
            metric=_metric(metric) if metric else None,
            as_of=_instant(as_of) if as_of else None,
            page=_whole("page", page) if page else 1,
            find=parameters.get("find", "").strip(),
            show=show,
        )

    @property
    def of_all_slices(self) -> ViewSubject:
        """Copy of this view without slice and metric."""
        return replace(self, slice="", metric=None)

    def query(self, **changes: object) -> str:
        """Return the query string of this view, after ``changes`` of its fields."""
        view = replace(self, **changes)  # type: ignore[arg-type]  # checked by replace itself
        parameters = {
            "contract": view.contract,
            "window": view.window,
            "group_by": view.group_by,
            "slice": view.slice,
            "metric": view.metric.value if view.metric else "",
            "as_of": "" if view.as_of is None else iso_text(view.as_of, "seconds"),
            "page": str(view.page) if view.page > 1 else "",
            "find": view.find,
            "show": view.show,
        }
        return urlencode({name: text for name, text in parameters.items() if text})


def _metric(text: str) -> Metric:
    try:
        return Metric(text)
    except ValueError:
        raise LinkError(f"metric must be one of {', '.join(Metric)}") from None


def _instant(text: str) -> int:
    """Return a link's time in microseconds; an error unless it has a zone."""
    try:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is None:
            raise ValueError
        return to_micros(instant.astimezone(UTC))
    except (ValueError, OverflowError):  # OverflowError: at the ends of the calendar
        raise LinkError(
            "as_of must be a time with its zone, such as 2026-06-01T10:00:00Z"
        ) from None


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:6]) >= 1 and len(text) < 6):  # noqa: PLR2004
        raise LinkError(f"{name} must be a whole number from 1 on")
    return int(text)


@dataclass(frozen=True, slots=True)
class ReportView:
    """Weekly report that a link names: week, revision and CSV table, each optional.

    Attributes:
        week: ISO week; None: the newest.
        revision: revision of its Release; None: the newest.
        table: name of a CSV file; empty: the first.
    """

    week: IsoWeek | None = None
    revision: int | None = None
    table: str = ""

    @classmethod
    def parse(cls, parameters: Mapping[str, str], tables: Collection[str]) -> ReportView:
        """Return the ReportView that query parameters name; ``tables`` are the allowed tables.

        Args:
            parameters: query parameters by name.
            tables: names of the CSV files.

        Raises:
            LinkError: a parameter is unknown, or has an impossible value.
        """
        if unknown := parameters.keys() - {"week", "revision", "table"}:
            raise LinkError(f"{len(unknown)} of its parameters are unknown")
        week, revision, table = (parameters.get(name, "") for name in ("week", "revision", "table"))
        if table and table not in tables:
            raise LinkError(f"table must be one of {', '.join(tables)}")
        return cls(
            week=_week(week) if week else None,
            revision=_whole("revision", revision) if revision else None,
            table=table,
        )


def _week(text: str) -> IsoWeek:
    try:
        return IsoWeek.named(text)
    except ValueError:
        raise LinkError("week must be an ISO week, such as 2026-W47") from None
