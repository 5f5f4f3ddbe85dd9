"""CSV files with exactly the content of a view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from itertools import repeat

from monitor.core.publish.history import HistoryPoint
from monitor.core.publish.incident_reports import IncidentReport
from monitor.core.publish.lines import Cell
from monitor.core.publish.lines import SliceLine as Line
from monitor.present.csv_text import written
from monitor.web.contents import ContractContent, HistoryContent, Moment, SliceContent

_RATE = ("value", "lower", "upper", "at_least", "at_most", "support")
_GAP = ("reference", "value", "lower", "upper", "ratio", "ratio_lower", "ratio_upper", "verdict")
_COLUMNS = (
    *("as_of", "snapshot", "contract", "version", "window", "group_by", "slice", "metric"),
    *("state", "mirror_of"),
    *_RATE,
    *("reference", "gap", "gap_lower", "gap_upper", "ratio", "ratio_lower", "ratio_upper"),
    *(
        "verdict",
        "max_gap",
        "min_ratio",
        "min_level",
        "max_level",
        "decided_by",
        "completeness",
        "ends_at",
        "why",
        "until",
    ),
)


def contracts_text(moment: Moment | None, contracts: Iterable[ContractContent]) -> str:
    """Return CSV text with a row per cell of the contracts, in the overview's order."""
    return written(_COLUMNS, (row for contract in contracts for row in _contract(moment, contract)))


def _contract(moment: Moment | None, contract: ContractContent) -> Iterator[list[object]]:
    for line in (contract.total, *contract.slices):
        yield from _line(moment, contract.contract, contract.version, contract.window, line)


_BESIDE = tuple(f"beside_{name}" for name in ("slice", "state", *_RATE))


def versions_text(moment: Moment | None, contracts: Iterable[ContractContent]) -> str:
    """Return CSV text of versions side by side: overview columns, then the other slice's."""
    rows = (row for contract in contracts for row in _versions(moment, contract))
    return written((*_COLUMNS, *_BESIDE), rows)


def _versions(moment: Moment | None, contract: ContractContent) -> Iterator[list[object]]:
    for pair in contract.versions:
        rows = _line(moment, contract.contract, contract.version, contract.window, pair.version)
        cells: Iterable[Cell | None] = pair.beside.cells if pair.beside else repeat(None)
        for row, cell in zip(rows, cells, strict=False):  # repeat() never ends
            state = cell.state if cell else None
            name = pair.beside.slice if pair.beside else None
            rate = cell.rate if cell else None
            yield [*row, name, state, *(getattr(rate, field, None) for field in _RATE)]


def slice_text(content: SliceContent) -> str:
    """Return CSV text with a row per metric of a slice."""
    contract_columns = (content.moment, content.contract, content.version, content.window)
    return written(_COLUMNS, _line(*contract_columns, content.line))


def _line(
    moment: Moment | None, contract: str, version: str, window: str, line: Line
) -> Iterator[list[object]]:
    """Yield a row of the CSV file for each metric of a line."""
    as_of, number = (moment.as_of, moment.snapshot) if moment else (None, None)
    for cell in line.cells:
        yield [
            *(as_of, number, contract, version, window, line.group_by, line.slice),
            *(cell.metric, cell.state, cell.mirror_of),
            *(getattr(cell.rate, name, None) for name in _RATE),
            *_gap(cell),
            *(cell.max_gap, cell.min_ratio, cell.min_level, cell.max_level),
            cell.decided_by.kind.value if cell.decided_by else None,
            line.completeness if cell.metric.labelled else None,
            *(cell.ends_at, cell.why, cell.until),
        ]


def _gap(cell: Cell) -> list[object]:
    return [getattr(cell.gap, name, None) for name in _GAP]


def history_text(content: HistoryContent) -> str:
    """Return CSV text of a history, one row per day."""
    names = [field.name for field in fields(HistoryPoint)]
    return written(names, (list(asdict(point).values()) for point in content.points))


_INCIDENT = (
    *("id", "kind", "severity", "state", "by", "outcome", "accepted_until", "contract", "metric"),
    *("group_by", "slice", "share", "since", "noticed_at", "resolved_at", "behind"),
    *("limit", "limit_value"),
)


def incidents_text(incidents: Iterable[IncidentReport]) -> str:
    """Return CSV text of incidents, one row each."""
    return written(_INCIDENT, (_incident(incident) for incident in incidents))


def _incident(incident: IncidentReport) -> list[object]:
    limit = (incident.limit.kind, incident.limit.value) if incident.limit else (None, None)
    return [*(getattr(incident, name) for name in _INCIDENT[: -len(limit)]), *limit]
