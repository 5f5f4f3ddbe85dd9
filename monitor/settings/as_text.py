"""Settings as text: plain values, the resolved file, and the contract's canonical records."""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, get_args

import msgspec
from msgspec import Struct

from monitor.settings.build import bare, is_section, required
from monitor.settings.kinds import MASK, Duration, Secret, Url, duration_text
from monitor.settings.sections import Settings, UseCase


def resolved(settings: Settings) -> str:
    """Return the settings in force as TOML: stable order, defaults filled in, secrets masked.

    Options that are not set appear as comments. Without secrets the text loads to equal settings.
    """
    return "\n".join(_table_lines(plain(settings), ())).strip() + "\n"


_PLACES = frozenset({"store", "server", "alerting", "links"})
"""Sections of addresses and readers, which no number depends on."""
_WIRE = frozenset({"schema_registry"})


def settings_digest(settings: Settings) -> str:
    """Return the SHA-256, in hex, of the settings that numbers and their texts depend on.

    It is the hash of the canonical JSON with defaults filled in and secrets masked. Sections on
    addresses, readers and the format of messages are left out, because no number depends on them.
    """
    sections = {name: part for name, part in plain(settings).items() if name not in _PLACES}
    stream = sections["stream"]
    sections["stream"] = {name: part for name, part in stream.items() if name not in _WIRE}
    return hashlib.sha256(_canonical(sections).encode()).hexdigest()


def mapping_texts(settings: Settings) -> dict[str, str]:
    """Return canonical JSON by ``mapping.decisions`` and ``mapping.labels``, with all keys."""
    mapping = settings.mapping
    kinds = {"decisions": mapping.decisions, "labels": mapping.labels}
    return {f"mapping.{kind}": _canonical(plain(section)) for kind, section in kinds.items()}


_LATER_LIMITS = frozenset({"max_selection_gap", "min_selection_ratio", "max_precision_gap"})


def contract_numbers(use_case: UseCase) -> str:
    """Return canonical JSON of all that a contract's states and pages depend on.

    These are limits, support, window, comparisons, filter, k and what pages. Contracts of one
    version must have equal numbers. What was added later is left out while it is not set, so that
    older contracts keep their text. Texts, people, dates and the order of group-bys are left out;
    0.1 and 0.10 are equal.
    """
    contract = use_case.to_core()
    all_limits = {name: getattr(contract.limits, name) for name in contract.limits.__slots__}
    limits = {n: v for n, v in all_limits.items() if v is not None or n not in _LATER_LIMITS}
    own_limits = sorted(
        [
            own_limit.group_by,
            own_limit.slice,
            {name: _plain_leaf(Fraction, x) for name, x in own_limit.limits},
        ]
        for own_limit in contract.own_limits
    )
    return _canonical(
        {
            **({"own_limits": own_limits} if own_limits else {}),
            "group_bys": sorted([list(g.attributes), g.reference] for g in contract.group_bys),
            "k": contract.k,
            "limits": {name: _plain_leaf(type(v), v) for name, v in limits.items()},
            "page_on": contract.page_on,
            "synthetic": contract.synthetic,
            "where": dict(contract.where),
            "window": contract.window,
        }
    )


def use_case_text(use_case: UseCase) -> str:
    """Return a use case as TOML for a settings file; keys that are not set are comments."""
    lines = ["[[use_case]]", *_table_lines(plain(use_case), ("use_case",))]
    return "\n".join(lines) + "\n"


def contract_record(use_case: UseCase) -> str:
    """Return canonical JSON of a use case and its contract, all keys included."""
    return _canonical(plain(use_case))


def plain(section: Struct) -> dict[str, Any]:
    """Return a section as a dict of tables, lists, texts and exact decimals; secrets are masked."""
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(type(section)):
        value = getattr(section, field.name)
        if isinstance(value, Secret) and value.file is not None:
            values[f"{field.name}_file"] = value.file
        else:
            values[field.name] = _plain(field.type, value)
    return values


def _plain(kind: Any, value: Any) -> Any:
    kind = required(kind)
    if value is None or isinstance(value, dict):
        return value
    if is_section(kind):
        return plain(value)
    if isinstance(value, tuple):
        return [_plain(get_args(kind)[0], part) for part in value]
    return _plain_leaf(bare(kind)[0], value)


def _plain_leaf(base: Any, value: Any) -> Any:
    if base is Duration:
        return duration_text(value)
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, Url):
        return value.masked
    if isinstance(value, Fraction):
        # Exact, because limits are decimals of few digits.
        return Decimal(value.numerator) / Decimal(value.denominator)
    return value.value if isinstance(value, enum.Enum) else value


def _canonical(value: Any) -> str:
    # Decimals become text, because a JSON number would be read back as a float.
    return json.dumps(
        value, default=_json_text, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )


def _json_text(value: object) -> str:
    return f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)


def _table_lines(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table: plain keys first, as TOML requires, then sub-tables."""
    nested = {key: part for key, part in table.items() if _is_nested(key, part)}
    for key, part in table.items():
        if key not in nested:
            yield f"# {key}: not set" if part is None else f"{_key(key)} = {toml(part)}"
    for key, part in nested.items():
        full = ".".join([*path, key])
        for sub_table in part if isinstance(part, list) else [part]:
            yield ""
            yield f"[[{full}]]" if isinstance(part, list) else f"[{full}]"
            yield from _table_lines(sub_table, (*path, key))


def _is_nested(key: str, part: Any) -> bool:
    if isinstance(part, dict):
        return key not in ("where", "aliases", "target")
    return isinstance(part, list) and bool(part) and isinstance(part[0], dict)


def toml(value: Any) -> str:
    """Return lists, objects, texts, numbers and dates as one line of TOML.

    Example:
        >>> print(toml({"route": "/r", "attributes.tier": ["/a/t"]}))
        { route = "/r", "attributes.tier" = ["/a/t"] }
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        pairs = [f"{_key(key)} = {toml(part)}" for key, part in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    return _toml_leaf(value)


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else toml(name)


def _toml_leaf(value: Any) -> str:
    match value:
        case bool() | str():
            # JSON and TOML escape alike, except for DEL, which TOML does not accept raw.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)
