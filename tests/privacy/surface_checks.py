"""What the rules of the surface table say of numbers on a scraped page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from scraped import Named, series_of
from surface_types import Surface
from surfaces import rows_of

from monitor.core.privacy.rules import PrivacyRule as Rule

Page = Mapping[Named, float]

MINUTES5 = 300.0
STEP = 100.0
_SUFFIXES = ("_bucket", "_count", "_sum")
_SLACK = 1e-9


def read_page(text: str) -> dict[Named, float]:
    """Every series of our own on a page."""
    return {
        named: value
        for named, value in series_of(text).items()
        if named[0].startswith("slicewatch_")
    }


@cache
def rule_of(name: str) -> Rule:
    rows = rows_of(Surface.METRIC)
    for suffix in ("", *_SUFFIXES):
        if suffix == name[len(name) - len(suffix) :] and name.removesuffix(suffix) in rows:
            return rows[name.removesuffix(suffix)].rule
    raise KeyError(name)


def _decimals(number: int) -> Callable[[float], bool]:
    scale = 10**number
    return lambda value: abs(value * scale - round(value * scale)) < _SLACK * scale


OTHERWISE: Mapping[str, Callable[[float], bool]] = {
    "slicewatch_duplicate_ratio": lambda value: 0 <= value <= 1,
    "slicewatch_slice_label_need_seconds": lambda value: value in (0, 604_800, 2_419_200),
    "slicewatch_cardinality_limited": lambda value: value in (0, 1),
    "slicewatch_exposition_series": float.is_integer,
    "slicewatch_exposition_dropped_series": float.is_integer,
    # By the hundred as a whole, not in each bucket; test_steps.py looks at those.
    **{f"slicewatch_label_delay_seconds{suffix}": lambda value: value >= 0 for suffix in _SUFFIXES},
}
"""Numbers that keep to their rule in a form of their own."""


def broken(page: Page, k: int) -> Iterator[str]:
    """Series that do not keep to the rule of their row."""
    checks: Mapping[Rule, Callable[[float], bool]] = {
        Rule.RELEASED_RATE: _decimals(3),
        Rule.BOUND: _decimals(3),
        Rule.CODED: _decimals(3),
        Rule.ROUNDED_SHARE: lambda value: _decimals(2)(value) and 0 <= value <= 1,
        Rule.BAND: lambda value: value.is_integer() and (value == 0 or value >= k),
        Rule.STATE: lambda value: value in (0, 1),
        Rule.CLASS: lambda value: value in range(5),
        Rule.COUNTED: lambda value: value > 0 and value.is_integer(),
        Rule.PERIOD: lambda value: value % MINUTES5 == 0,
        Rule.STEPS: lambda value: value % STEP == 0,
    }
    for (name, labels), value in page.items():
        if dict(labels).get("outcome") == "dead_letter":
            continue  # exact: nobody is counted
        check = OTHERWISE.get(name) or checks.get(rule_of(name))
        if check is not None and not check(value):
            yield f"{name}{dict(labels)} = {value} against {rule_of(name).name}"


def changed(before: Page, after: Page, *rules: Rule) -> set[str]:
    """Names of these rules whose series are not the same on two pages."""
    return {
        name
        for name, labels in before.keys() | after.keys()
        if rule_of(name) in rules and before.get((name, labels)) != after.get((name, labels))
    }
