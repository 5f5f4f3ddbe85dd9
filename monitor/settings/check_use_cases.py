"""Contradictions in attributes, use cases and contracts, and between them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations, pairwise
from math import prod
from unicodedata import normalize

from monitor.core.contract import COMPLEMENT, LIMITED_METRICS, GroupBy
from monitor.core.counts.cells import atom_text, parse_atom
from monitor.core.time import WINDOWS
from monitor.settings.problems import Problems, join, problem, shown, unknown
from monitor.settings.sections import AttributeSettings, GroupBySettings, Settings, UseCase

MAX_VALUES = 50
"""Largest allow-list of an attribute; with more values, slices are too small to decide."""
MIN_K = 11
"""Smallest cell of real people that may be shown; the usual rule of statistical offices."""

AllowLists = dict[str, tuple[str, ...]]


MAX_ATOMS = 10_000
"""Most combinations of attribute values: a worker keeps a counter of each in its memory."""
MAX_GROUP_BY = 4
"""Most attributes of a group-by: slices of more are smaller than k at almost every site."""


def check_use_cases(settings: Settings) -> None:
    """Check attributes and use cases; raise one SettingsError with the first problem of each."""
    _check_unique([a.name for a in settings.attribute], "attribute", ".name")
    problems = Problems()
    with problems.collected():
        _check_attributes(settings)
    if not settings.use_case:
        with problems.collected():
            raise problem("use_case", "is missing; add a [[use_case]] table with its contract")
    with problems.collected():
        _check_k(settings)
    allowed: AllowLists = {a.name: a.listed for a in settings.attribute}
    for i, use_case in enumerate(settings.use_case):
        with problems.collected():
            _check_use_case(use_case, join("use_case", i), allowed)
    with problems.collected():
        _check_unique([u.name for u in settings.use_case], "use_case", ".name")
    problems.raise_any()
    _check_disjoint(settings.use_case)  # last, to report wrong names in where only once


def _check_attributes(settings: Settings) -> None:
    problems = Problems()
    for i, attribute in enumerate(settings.attribute):
        with problems.collected():
            _check_attribute(attribute, join("attribute", i))
    problems.raise_any()
    versions = [a.version_of or f"none {i}" for i, a in enumerate(settings.attribute)]
    _check_unique(versions, "attribute", ".source")
    atoms = settings.coding.max_atoms
    if atoms > MAX_ATOMS:
        largest = max(settings.attribute, key=lambda a: len(a.listed))
        fix = f"shorten {shown(largest.name)} ({len(largest.listed)} values)"
        total = f"{atoms} combinations" if atoms < 10**12 else "a trillion combinations or more"
        raise problem("attribute", f"has {total} of values, {MAX_ATOMS} are possible; {fix}")


def _check_attribute(attribute: AttributeSettings, key: str) -> None:
    if attribute.ranges:
        _check_ranges(attribute, key)
    elif not attribute.values:
        fix = "list at least one allowed value, or set ranges"
        raise problem(f"{key}.values", f"is empty; {fix}")
    _check_aliases(attribute, key)
    _check_target(attribute, f"{key}.target")
    count = len(attribute.listed)
    if count > MAX_VALUES:
        fix = "list the frequent ones, the others become __other__"
        raise problem(f"{key}.values", f"has {count} values, at most {MAX_VALUES}; {fix}")
    _check_unique(attribute.values, f"{key}.values")


def _check_ranges(attribute: AttributeSettings, key: str) -> None:
    conflicts = {"values": attribute.values, "aliases": attribute.aliases}
    for name, texts in conflicts.items():
        if texts:
            raise problem(f"{key}.{name}", "is set beside ranges; keep one of the two")
    for i, (low, high) in enumerate(pairwise(attribute.ranges), start=1):
        if low >= high:
            text = f"found {high:g} after {low:g}; edges must increase, without repeats"
            raise problem(join(f"{key}.ranges", i), text)
    if attribute.version_of is not None:
        raise problem(
            f"{key}.ranges", f"does not go with {attribute.source}: a version is no number"
        )


def _check_aliases(attribute: AttributeSettings, key: str) -> None:
    for alias, value in attribute.aliases.items():
        alias_key = join(f"{key}.aliases", alias)
        if alias in attribute.values:
            raise problem(alias_key, f"{shown(alias)} is a listed value itself; remove the alias")
        if value not in attribute.values:
            values = ", ".join(attribute.values)
            raise problem(alias_key, f"{shown(value)} is not one of values; use one of {values}")


def _check_target(attribute: AttributeSettings, key: str) -> None:
    for value in attribute.target:
        if value not in attribute.listed:
            values = ", ".join(attribute.listed)
            raise problem(key, f"{shown(value)} is not one of its values; use some of {values}")
    if sum(attribute.target.values()) > 1:
        raise problem(key, "has shares whose sum is above 1; make them shares of one population")


def _check_unique(names: Sequence[str], key: str, part: str = "") -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            first = join(key, names.index(name)) + part
            raise problem(join(key, i) + part, f"{shown(name)} is taken by {first}; rename one")


def _check_k(settings: Settings) -> None:
    """Refuse k below MIN_K, or in a use case below ``privacy.k``, unless it is synthetic."""
    floor = settings.privacy.k
    if floor < MIN_K and not all(u.synthetic for u in settings.use_case):
        fix = f"use {MIN_K} or more; a use case with synthetic = true may set its own k"
        raise problem("privacy.k", f"found {floor}, which shows cells too small; {fix}")
    for i, use_case in enumerate(settings.use_case):
        if use_case.k is not None and use_case.k < floor and not use_case.synthetic:
            fix = f"use privacy.k ({floor}) or more, or declare synthetic = true"
            raise problem(f"use_case[{i}].k", f"found {use_case.k}; {fix}")


def _check_use_case(use_case: UseCase, key: str, allowed: AllowLists) -> None:
    for name, value in use_case.where.items():
        _check_listed(name, value, f"{key}.where", allowed)
    _check_windows(use_case, key)
    if not use_case.group_bys:
        fix = 'add { attributes = ["..."] } with a declared attribute'
        raise problem(f"{key}.group_bys", f"is empty, so nothing is compared; {fix}")
    for i, group_by in enumerate(use_case.group_bys):
        _check_group_by(group_by, use_case, join(f"{key}.group_bys", i), allowed)
    names = [" + ".join(sorted(g.attributes)) for g in use_case.group_bys]
    _check_unique(names, f"{key}.group_bys")
    _check_own_limits(use_case, f"{key}.limit", allowed)
    _check_page_on(use_case, f"{key}.contract.page_on")


def _check_page_on(use_case: UseCase, key: str) -> None:
    parts = (use_case.contract, *use_case.limit)
    limits = [n for n in LIMITED_METRICS if any(getattr(part, n) is not None for part in parts)]
    for i, name in enumerate(use_case.contract.page_on or ()):
        if name not in limits:
            text = f"{shown(name)} is no limit of this contract; set it, or use some of"
            raise problem(join(key, i), f"{text} {', '.join(limits)}")


def _check_windows(use_case: UseCase, key: str) -> None:
    name = use_case.contract.window
    labelled = [name for name, window in WINDOWS.items() if window.labelled]
    if name not in labelled:
        text = f"{shown(name)} is no window of labelled rates; use {', '.join(labelled)}"
        raise problem(f"{key}.contract.window", text)


def _check_listed(name: str, value: str, key: str, allowed: AllowLists) -> None:
    if name not in allowed:
        raise unknown(key, name, allowed) if allowed else problem(key, "no attribute is declared")
    if value not in allowed[name]:
        text = f"{shown(value)} is not allow-listed; use one of {', '.join(allowed[name])}"
        raise problem(join(key, name), text)


def _check_group_by(
    group_by: GroupBySettings, use_case: UseCase, key: str, allowed: AllowLists
) -> None:
    names = group_by.attributes
    if not 1 <= len(names) <= MAX_GROUP_BY:
        fix = f"use 1 to {MAX_GROUP_BY}"
        raise problem(f"{key}.attributes", f"has {len(names)} attributes; {fix}")
    _check_unique(names, f"{key}.attributes")
    for i, name in enumerate(names):
        if name not in allowed:
            fix = f"use one of {', '.join(allowed) or 'those you declare with [[attribute]]'}"
            text = f"{shown(name)} is not a declared attribute; {fix}"
            raise problem(join(f"{key}.attributes", i), text)
        if name in use_case.where:
            text = f"{shown(name)} has one value only, by where; remove it from one of the two"
            raise problem(join(f"{key}.attributes", i), text)
    _check_reference(group_by, f"{key}.reference", allowed)


def _check_reference(group_by: GroupBySettings, key: str, allowed: AllowLists) -> None:
    text = normalize("NFC", group_by.reference)
    if text == COMPLEMENT:
        return
    fix = f'use "{COMPLEMENT}" or a slice such as {_example(group_by.attributes, allowed)}'
    if "best" in text.lower() and "=" not in text:
        reason = "the best slice of the day changes by chance and makes every other look worse"
        raise problem(key, f"a best slice is not offered: {reason}; {fix}")
    _check_slice(text, group_by.attributes, key, allowed, fix)


def _check_own_limits(use_case: UseCase, key: str, allowed: AllowLists) -> None:
    group_bys = {tuple(sorted(g.attributes)): g.to_core() for g in use_case.group_bys}
    for i, own_limits in enumerate(use_case.limit):
        limit_key = join(key, i)
        group = group_bys.get(tuple(sorted(own_limits.group_by)))
        if group is None:
            names = "; ".join(" + ".join(names) for names in group_bys)
            text = f"{shown(' + '.join(own_limits.group_by))} is no group-by of this use case"
            raise problem(f"{limit_key}.group_by", f"{text}; use one of: {names}")
        if own_limits.slice:
            text = normalize("NFC", own_limits.slice)
            fix = f"use a slice such as {_example(group.attributes, allowed)}, or leave it out"
            _check_slice(text, group.attributes, f"{limit_key}.slice", allowed, fix)
        if not own_limits.numbers:
            raise problem(
                limit_key, "sets no limit; add one such as max_tpr_gap = 0.05, or remove it"
            )
        on_gaps = {name for name, _ in own_limits.numbers} - {"min_tpr", "max_fpr"}
        on_levels = len(on_gaps) < len(own_limits.numbers)
        if on_gaps and own_limits.slice and _is_mirrored(group, allowed):
            text = f"the two slices of {group.name} are compared with each other"
            raise problem(f"{limit_key}.slice", f"{text}: one gap, one limit; leave slice out")
        if own_limits.to_core().slice == group.reference and not on_levels:
            text = f"{shown(own_limits.slice)} is the reference of its group-by, which has no gap"
            raise problem(
                f"{limit_key}.slice", f"{text}; limit the slices that are compared with it"
            )
    core_limits = [own_limits.to_core() for own_limits in use_case.limit]
    _check_unique([f"{core.group_by} {core.slice}".strip() for core in core_limits], key)


def _is_mirrored(group: GroupBy, allowed: AllowLists) -> bool:
    """Return True where each of two slices is the complement of the other."""
    slices = prod(len(allowed[name]) for name in group.attributes)
    return group.reference == COMPLEMENT and slices == 2  # noqa: PLR2004 - a pair


def _example(attributes: Sequence[str], allowed: AllowLists) -> str:
    example = atom_text({name: allowed[name][0] for name in attributes})
    return json.dumps(example, ensure_ascii=False)  # TOML escapes alike


def _check_slice(
    text: str, attributes: Sequence[str], key: str, allowed: AllowLists, fix: str
) -> None:
    try:
        values = parse_atom(text)
    except ValueError:
        raise problem(key, f"{shown(text)} is not a slice; {fix}") from None
    if sorted(values) != sorted(attributes) or len(atom_text(values)) != len(text):
        raise problem(key, f"{shown(text)} is not a slice of this group-by; {fix}")
    for name, value in values.items():
        if value not in allowed[name]:
            listed = ", ".join(allowed[name])
            raise problem(key, f"{shown(value)} is not allow-listed; use one of {listed}")


def _check_disjoint(use_cases: Sequence[UseCase]) -> None:
    for (i, first), (j, second) in combinations(enumerate(use_cases), 2):
        shared = first.where.keys() & second.where.keys()
        if not any(first.where[name] != second.where[name] for name in shared):
            reason = "small cells of overlapping use cases could be found by subtraction"
            fix = (
                "give both one attribute with different values, or make them one use case"
                " whose contract.page_on names every limit that pages"
            )
            text = f"may overlap with use_case[{i}]; {reason}; {fix}"
            raise problem(f"use_case[{j}].where", text)
