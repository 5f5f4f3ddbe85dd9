"""Every name that leaves the service, as the code has it: to be compared with the surface table."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

import alerts
import consumers
import monitor
from consumers.receiving import BatchAnswer
from monitor.audit.audit_report import AuditReport
from monitor.audit.scorecard.card import Scorecard
from monitor.commands.probe.probe_status import ProbeStatus
from monitor.core.publish.backtests import Backtest
from monitor.core.publish.incident_reports import IncidentReport
from monitor.core.publish.lines import Cell
from monitor.core.publish.snapshot import ShownLimit, Snapshot
from monitor.reports.as_json import ReportDocument
from monitor.reports.bundle import Ledger, Manifest
from monitor.reports.proposals import Proposal
from monitor.store.schema import PUBLISHED
from monitor.store.upkeep.store_status import StoreStatus
from monitor.web.contents import Overview
from monitor.web.openapi import ANSWERS

PACKAGES = [Path(*package.__path__) for package in (monitor, consumers, alerts)]
"""Where they are imported from: the tree, or an installed wheel."""
LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
LOGGERS = frozenset({"log", "_log"})


def fields_below(kind: type) -> set[str]:
    """``Class.field`` of a dataclass, and of every dataclass in the types of its fields."""
    found: set[str] = set()
    waiting, seen = [kind], set[type]()
    while waiting:
        one = waiting.pop()
        if one in seen or not dataclasses.is_dataclass(one):
            continue
        seen.add(one)
        hints = get_type_hints(one)
        for field in dataclasses.fields(one):
            found.add(f"{one.__name__}.{field.name}")
            waiting += _types_in(hints[field.name])
    return found


def _types_in(hint: Any) -> list[type]:
    inner = [one for argument in get_args(hint) for one in _types_in(argument)]
    return [hint, *inner] if isinstance(hint, type) else inner


def snapshot_names() -> set[str]:
    return fields_below(Snapshot)


def page_names() -> set[str]:
    """Fields of all answers of the API, which pages and files are made of, too."""
    found = {name for kind in ANSWERS.values() for name in fields_below(kind)}
    return found - snapshot_names() - incident_names() - report_names()


def report_names() -> set[str]:
    """Fields of the JSON file, which all other formats are made of, and of the bundle's files."""
    found = fields_below(ReportDocument) | fields_below(Ledger) | fields_below(Manifest)
    return found - snapshot_names() - fields_below(Overview)


def backtest_names() -> set[str]:
    return fields_below(Backtest) | fields_below(Proposal)


def status_names() -> set[str]:
    return fields_below(StoreStatus)


def received_names() -> set[str]:
    return fields_below(BatchAnswer)


def incident_names() -> set[str]:
    """Fields of an incident; what is published of it now is a cell of the pages."""
    return fields_below(IncidentReport) - (fields_below(Cell) - fields_below(ShownLimit))


def probe_names() -> set[str]:
    return fields_below(ProbeStatus)


def audit_names() -> set[str]:
    return fields_below(AuditReport) | fields_below(Scorecard)


def published_names() -> set[str]:
    return {f"{table.name}.{column.name}" for table in PUBLISHED for column in table.columns}


def keys_of(document: Mapping[str, Any], closed: frozenset[str]) -> set[str]:
    """Keys of a document and of what it holds, with dots; ``closed`` have rows of their own."""
    found: set[str] = set()
    for name, value in document.items():
        first = value[0] if isinstance(value, list) and value else value
        if name not in closed and isinstance(first, Mapping):
            found |= {f"{name}.{below}" for below in keys_of(first, closed)}
        else:
            found.add(name)
    return found


@dataclasses.dataclass(frozen=True)
class LogLine:
    """A log line: the module that writes it, and its event with the names of its fields."""

    module: str
    event: str


def log_lines() -> list[LogLine]:
    """Every call of a logger: the event with its places, and the names of its fields."""
    return _log_lines(tuple(PACKAGES))


@cache
def _log_lines(packages: tuple[Path, ...]) -> list[LogLine]:
    found = []
    for module, call in _calls(packages):
        function = call.func
        if (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id in LOGGERS
            and function.attr in LEVELS
        ):
            found.append(LogLine(module, _event(call)))
    return found


def _event(call: ast.Call) -> str:
    """The first constant text among the arguments, and the fields of ``extra``."""
    texts = [
        argument.value
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    fields = [
        key.value
        for keyword in call.keywords
        if keyword.arg == "extra"
        for table in ast.walk(keyword.value)
        if isinstance(table, ast.Dict)
        for key in table.keys
        if isinstance(key, ast.Constant)
    ]
    event = texts[0] if texts else "?"
    return f"{event}; {' '.join(sorted(map(str, fields)))}" if fields else event


def _calls(packages: tuple[Path, ...]) -> Iterator[tuple[str, ast.Call]]:
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            if "migrations" in path.parts:
                continue
            module = ".".join(path.relative_to(package.parent).with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    yield module, node


def builtins(value: Any) -> Any:
    """As JSON has it."""
    return msgspec.json.decode(msgspec.json.encode(value))
