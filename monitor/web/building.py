"""Builders of page contents from a Snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from monitor.core.metric import Metric
from monitor.core.publish.agreement import router_agreement
from monitor.core.publish.conclusion import limited
from monitor.core.publish.conditions import StandingCondition
from monitor.core.publish.glossary import FINDINGS
from monitor.core.publish.headlines import contract_headline
from monitor.core.publish.history import HistoryPoint
from monitor.core.publish.incident_reports import IncidentReport
from monitor.core.publish.limitations import Limitation
from monitor.core.publish.lines import (
    all_metrics,
    find_place,
    line,
    places,
    ranked,
    total_place,
    window_of,
)
from monitor.core.publish.pipeline import Pipeline
from monitor.core.publish.reasons import Place
from monitor.core.publish.side_by_side import VersionGroup, side_by_side
from monitor.core.publish.snapshot import ContractTable, Noted, Period, Snapshot, WindowTable
from monitor.core.publish.window_notes import window_notes
from monitor.core.publish.words import moment_text
from monitor.core.state import SLICE_CLASSES
from monitor.core.time import SECOND, optional_datetime, to_datetime
from monitor.web import headlines
from monitor.web.contents import (
    BandContent,
    Beginning,
    ContractContent,
    Finding,
    Moment,
    Overview,
    SliceContent,
    StandingIncident,
)
from monitor.web.links import LinkError, ViewSubject


def moment(number: int, snapshot: Snapshot, *, newest: bool, now: int) -> Moment:
    """Return number, times and age of a Snapshot as a Moment; ``now`` is wall time (us)."""
    watermark = snapshot.watermark
    return Moment(
        snapshot=number,
        as_of=optional_datetime(watermark),
        labels_to=optional_datetime(snapshot.frontier),
        newest=newest,
        age_seconds=None if watermark is None else max(0, now - watermark) / SECOND,
    )


def contract_contents(
    snapshot: Snapshot, view: ViewSubject, versions: Sequence[VersionGroup] = ()
) -> tuple[ContractContent, ...]:
    """Return a ContractContent per contract of a view; by default all, on their deciding windows.

    Args:
        snapshot: source of the numbers.
        view: chosen contract, window and group-by.
        versions: group-bys over versions of the router.

    Raises:
        LinkError: the contract, window or group-by does not exist.
    """
    return tuple(contract_content(table, view, versions) for table in _chosen(snapshot, view))


def overview(
    snapshot: Snapshot | None,
    at: Moment | None,
    contracts: tuple[ContractContent, ...],
    *,
    beginning: Beginning | None,
    blind: Sequence[str],
    conditions: Sequence[StandingCondition],
    pipeline: Pipeline,
    limitations: Sequence[Limitation],
) -> Overview:
    """Return the overview: verdict, incidents, contracts, pipeline, and whether it is outdated.

    Args:
        snapshot: source of the numbers; None before the first one.
        at: time of the Snapshot.
        contracts: contracts of the view.
        beginning: state before the first Snapshot.
        blind: reasons why the service cannot see the router.
        conditions: those that hold now.
        pipeline: state of the way from the broker.
        limitations: register of known limitations.
    """
    incidents = tuple(headlines.standing_incidents(snapshot)) if snapshot else ()
    outdated_contracts = [contract for contract in contracts if _is_outdated(contract, at)]
    outdated = bool(blind) or bool(outdated_contracts)
    return Overview(
        moment=at,
        beginning=beginning,
        verdict=headlines.page_headline(
            contracts,
            incidents,
            blind,
            outdated=outdated,
            newer=any(_has_newer(pipeline, contract, at) for contract in outdated_contracts),
        ),
        blind=tuple(blind),
        conditions=tuple(conditions),
        outdated=outdated,
        incidents=incidents,
        contracts=contracts,
        pipeline=pipeline,
        limitations=tuple(limitations),
    )


def _chosen(snapshot: Snapshot, view: ViewSubject) -> list[ContractTable]:
    """Return the contract that a link names, or all; a LinkError if there is no such one."""
    if not view.contract:
        return list(snapshot.contracts)
    chosen_tables = [table for table in snapshot.contracts if table.contract == view.contract]
    if not chosen_tables:
        names = ", ".join(table.contract for table in snapshot.contracts)
        raise LinkError(f"contract must be one of {names}")
    return chosen_tables


def _is_outdated(contract: ContractContent, at: Moment | None) -> bool:
    """Return True when the newest published data are older than the contract's ``max_age``."""
    if at is None or not at.newest or at.age_seconds is None or contract.max_age_seconds is None:
        return False
    return at.age_seconds > contract.max_age_seconds


def _has_newer(pipeline: Pipeline, contract: ContractContent, at: Moment | None) -> bool:
    """Return True when the store has a decision no older than the contract's ``max_age``."""
    newest, max_age = pipeline.newest_decision, contract.max_age_seconds
    if (
        newest is None
        or max_age is None
        or at is None
        or at.as_of is None
        or at.age_seconds is None
    ):
        return False
    age = at.age_seconds - (newest - at.as_of).total_seconds()
    return age <= max_age


def contract_content(
    table: ContractTable, view: ViewSubject, versions: Sequence[VersionGroup] = ()
) -> ContractContent:
    """Return the ContractContent of one table, in the window and group-by of ``view``.

    Raises:
        LinkError: the window or group-by does not exist.
    """
    window = _window(table, view)
    metrics = limited(table)
    slice_places = places(table, window)
    if view.group_by:
        slice_places = (p for p in slice_places if p.table.group_by == view.group_by)
    slices = ranked(line(place, metrics) for place in slice_places)
    if view.group_by and not slices:
        raise LinkError(
            f"group_by must be one of {', '.join(group.group_by for group in window.groups)}"
        )
    counts = Counter(slice_line.slice_class for slice_line in slices)
    own_groups = (group for group in versions if group.contract == table.contract)
    return ContractContent(
        contract=table.contract,
        version=table.version,
        owner=table.owner,
        synthetic=table.synthetic,
        k=table.k,
        max_age_seconds=None if table.max_age is None else table.max_age / SECOND,
        window=window.window,
        verdict_window=table.window,
        windows=tuple(window_table.window for window_table in table.windows),
        metrics=metrics,
        verdict=contract_headline(table, window, slices),
        notes=tuple(window_notes(table, window)),
        total=line(total_place(table, window), metrics),
        counts={name: counts[name] for name in SLICE_CLASSES},
        group_bys=tuple(group.group_by for group in window.groups),
        slices=slices,
        versions=tuple(side_by_side(slices, own_groups)),
    )


def narrowed(content: ContractContent, view: ViewSubject) -> ContractContent:
    """Return the content with the slices that a view looks for by name or class; else unchanged."""
    slices = (
        slice_line
        for slice_line in content.slices
        if view.find.lower() in slice_line.slice.lower()
        and view.show in ("", slice_line.slice_class)
    )
    return replace(content, slices=tuple(slices)) if view.find or view.show else content


def _window(table: ContractTable, view: ViewSubject) -> WindowTable:
    window = window_of(table, view.window)
    if window is None:
        names = ", ".join(window_table.window for window_table in table.windows)
        raise LinkError(f"window must be one of {names}")
    return window


def slice_content(
    snapshot: Snapshot,
    at: Moment,
    view: ViewSubject,
    history: Sequence[HistoryPoint],
    incidents: Sequence[IncidentReport],
) -> SliceContent:
    """Return the SliceContent of a view: figures, reference, notes, history and incidents.

    Args:
        snapshot: source of the numbers.
        at: time of the Snapshot.
        view: chosen slice, window and metric.
        history: published history of slice and metric.
        incidents: incidents of all slices, over or not.

    Raises:
        LinkError: the slice does not exist.
    """
    table, place = chosen_place(snapshot, view)
    metric = chosen_metric(table, view)
    row = place.row
    return SliceContent(
        moment=at,
        contract=table.contract,
        version=table.version,
        synthetic=table.synthetic,
        k=table.k,
        window=place.window.window,
        windows=tuple(window_table.window for window_table in table.windows),
        metric=metric,
        line=line(place, all_metrics(table)),
        reference=_reference(place, metric),
        calibration=tuple(
            BandContent(band_cell.band, band_cell.rate) for band_cell in row.calibration
        ),
        agreement=row.agreement,
        router_agreement=router_agreement(row),
        findings=tuple(map(_finding, row.noted)),
        notes=tuple(_slice_notes(table, place)),
        history=tuple(history),
        incidents=tuple(_slice_incidents(snapshot, table, row.slice)),
        past=tuple(
            incident
            for incident in incidents
            if (incident.contract, incident.metric) == (table.contract, metric)
            and row.slice in (incident.slice, *incident.further)
        ),
    )


def chosen_place(snapshot: Snapshot, view: ViewSubject) -> tuple[ContractTable, Place]:
    """Return (contract table, row) that a view is about; raise LinkError if there is none.

    Raises:
        LinkError: the contract or row does not exist.
    """
    tables = _chosen(snapshot, view)
    if not tables:
        raise LinkError("no contract is published yet")
    table = tables[0]
    place = find_place(table, _window(table, view), view.group_by, view.slice)
    if place is None:
        raise LinkError("this contract has no such slice in that group_by")
    return table, place


def chosen_metric(table: ContractTable, view: ViewSubject) -> Metric:
    """Return the metric of a view; by default the contract's primary one."""
    return view.metric or table.primary


def _reference(place: Place, metric: Metric) -> str | None:
    """Return the reference of a row's gap in a metric, else of any gap; None without gaps."""
    gaps = place.row.gaps
    gap = gaps.get(metric) or next(iter(gaps.values()), None)
    return None if gap is None else gap.reference


def _finding(noted: Noted) -> Finding:
    meaning, latest = FINDINGS[noted.annotation], to_datetime(noted.latest)
    return Finding(meaning, noted.metric, noted.count, latest)


def _slice_notes(table: ContractTable, place: Place) -> Iterator[str]:
    yield from window_notes(table, place.window)
    for rates_name, period in (
        ("Selection and blocked rates", place.table.decisions),
        ("Rates that rest on labels", place.table.labelled),
    ):
        yield f"{rates_name}: {_span(period)}."


def _span(period: Period | None) -> str:
    if period is None:
        return "nothing is published yet"
    return f"from {moment_text(period.start)} to {moment_text(period.end)}"


def _slice_incidents(
    snapshot: Snapshot, table: ContractTable, slice_: str
) -> Iterator[StandingIncident]:
    ids = {
        incident.id for incident in table.incidents if slice_ in (incident.slice, *incident.further)
    }
    for incident in headlines.standing_incidents(snapshot):
        if incident.id in ids:
            yield incident
