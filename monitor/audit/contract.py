"""Contract of an audit: its use case, its k, and the attribute values that a set may use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from monitor.audit.model import Results, Row
from monitor.audit.problems import field_name, problem
from monitor.core.contract import Contract
from monitor.core.counts.coding import Attribute, Coding
from monitor.errors import AuditError
from monitor.settings import Settings
from monitor.settings.check_use_cases import MIN_K
from monitor.settings.problems import shown
from monitor.settings.use_case import UseCase


def use_case_of(settings: Settings, name: str | None) -> UseCase:
    """The use case of this name; without one, the only one there is.

    Raises:
        AuditError: if there is none of this name, or several to choose from.
    """
    names = [use_case.name for use_case in settings.use_case]
    if name is None and len(names) == 1:
        return settings.use_case[0]
    if name is None:
        raise AuditError(f"the settings have {len(names)} use cases; {_choice(names)}")
    if name not in names:
        raise AuditError(f"use case {shown(name)}: is not in the settings; {_choice(names)}")
    return settings.use_case[names.index(name)]


def contract_of(use_case: UseCase, *, synthetic: bool) -> Contract:
    """The contract with the k of the set, not of the use case.

    k protects people. A synthetic set has none in it, so its numbers are exact, whatever the use
    case says of production; a set of real people is guarded, whatever it says.

    Raises:
        AuditError: if the set is of real people and the use case declares test conditions.
    """
    contract = use_case.to_core()
    if synthetic:
        return replace(contract, synthetic=True, k=1)
    if use_case.synthetic:
        why = "is declared synthetic, but the set is of real people"
        raise AuditError(f"use case {shown(use_case.name)}: {why}; choose one of real traffic")
    return replace(contract, k=max(contract.k, MIN_K))


def check_listed(results: Results, coding: Coding, contract: Contract) -> None:
    """Refuse attributes and values that the settings do not list, and those of other use cases.

    Production would code them as ``__other__``; in a set that somebody wrote they are mistakes.
    Values of real people are not repeated.

    Raises:
        AuditError: for the first one found.
    """
    listed = {attribute.name: attribute for attribute in coding.attributes}
    where, synthetic = dict(contract.where), results.probe_set.synthetic
    for row in results.rows:
        for name, value in row.item.attributes.items():
            fault = _fault(row, listed.get(name), name, value if synthetic else None)
            if fault:
                raise _problem(results, row, name, fault)
        for name, value in where.items():
            if _value(row, listed[name]) != value:
                fault = f"use case {shown(contract.name)} is about {name}={value}; remove the row"
                raise _problem(results, row, name, f"{fault} or choose another")


def _fault(row: Row, attribute: Attribute | None, name: str, echo: str | None) -> str:
    """Describe the fault in an attribute of a row, and the fix; empty if there is none."""
    if attribute is None:
        return "is not allow-listed; add an [[attribute]] to the settings or remove it from the set"
    if attribute.version_of is not None:
        return f"it is taken from versions.{attribute.version_of}; remove it from the set"
    if row.item.attributes[name] not in attribute.values:
        what = "its value" if echo is None else shown(echo)
        return f"{what} is not allow-listed; use one of {', '.join(attribute.values)}"
    return ""


def _value(row: Row, attribute: Attribute) -> str | None:
    if attribute.version_of is not None:
        return str(getattr(row.versions, attribute.version_of))
    return row.item.attributes.get(attribute.name)


def _problem(results: Results, row: Row, name: str, text: str) -> AuditError:
    return problem(results.path, text, line=row.line, field=field_name("attributes", name))


def _choice(names: Iterable[str]) -> str:
    return f"give --use-case with one of {', '.join(names)}"
