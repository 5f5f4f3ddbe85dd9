"""Records as typed rows; what is missing, unfit or unknown is named by its field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert, structs

from monitor.audit.columns import nested_records
from monitor.audit.digest import request_digest
from monitor.audit.fields import (
    ALL_NAMES,
    HINTS,
    REQUIRED,
    RESULT_NAMES,
    Label,
    SetFields,
    VersionFields,
    fits,
    words,
)
from monitor.audit.files import is_csv, json_records
from monitor.audit.problems import field_name, found, problem, unknown
from monitor.errors import AuditError
from monitor.settings.kinds import AttributeName

Fields = TypeVar("Fields", bound=SetFields)


def typed_rows(path: Path, kind: type[Fields]) -> Iterator[tuple[int, Fields]]:
    """The rows of a file with their lines; the results' part is not looked at in a set.

    ``request_sha256`` is filled in where there is a request.

    Raises:
        AuditError: the file cannot be read, or a row is not what it must be.
    """
    records = nested_records(path) if is_csv(path) else json_records(path)
    for line, record in records:
        _check_known(path, line, record)
        fields = record
        if kind is SetFields:
            fields = {name: value for name, value in record.items() if name not in RESULT_NAMES}
        elif not RESULT_NAMES & record.keys():
            text = "a row without results (threshold, evidence_passed, versions ...); a set is "
            raise problem(path, text + "sent to a router by slicewatch probe run", line=line)
        yield line, typed_row(path, line, fields, kind)


def typed_row(path: Path, line: int, record: Mapping[str, object], kind: type[Fields]) -> Fields:
    """One record as a row; AuditError names the field that does not fit."""
    try:
        fields = convert(record, kind)
    except ValidationError:
        raise _explained(path, line, record, kind) from None
    try:
        sent = request_digest(fields.request)
    except (ValueError, RecursionError):
        text = "found broken text, or nested too deeply; write valid JSON"
        raise problem(path, text, line=line, field="request") from None
    if fields.request_sha256 and sent and fields.request_sha256 != sent:
        text = "not the hash of the request beside it; leave one of the two out"
        raise problem(path, text, line=line, field="request_sha256")
    return structs.replace(fields, request_sha256=sent) if sent else fields


def _check_known(path: Path, line: int, record: Mapping[str, object]) -> None:
    for name in record:
        if name not in ALL_NAMES:
            raise unknown(path, line, ALL_NAMES, name)


def _explained(
    path: Path, line: int, record: Mapping[str, object], kind: type[Struct], *parents: str
) -> AuditError:
    """The error for the first field that is missing or unfit, in the order of the fields."""
    for name, hint in HINTS[kind].items():
        parts = (*parents, name)
        if name in record and not fits(record[name], hint):
            return _unfit(path, line, record[name], hint, *parts)
        if name not in record and name in REQUIRED[kind]:
            text = f"missing; write {words(hint)}"
            return problem(path, text, line=line, field=field_name(*parts))
    name = next(name for name in record if name not in HINTS[kind])
    return unknown(path, line, HINTS[kind], *parents, name)


def _unfit(path: Path, line: int, value: object, hint: Any, *parts: str) -> AuditError:
    if parts == ("versions",) and isinstance(value, dict):
        return _explained(path, line, value, VersionFields, *parts)
    if parts == ("attributes",) and isinstance(value, dict) and value:
        name = next(name for name in value if not fits({name: value[name]}, hint))
        inner = Label if fits(name, AttributeName) else AttributeName
        wrong = value[name] if inner is Label else name
        return _unfit(path, line, wrong, inner, *parts, name)
    text = f"found {found(value)}; write {words(hint)}"
    return problem(path, text, line=line, field=field_name(*parts))
