"""The metric catalogue: the closed list of everything on ``/metrics``, read from ``families.yaml``.

Exposition, documentation, rules and dashboards are rendered from it; a name that is not listed is
not exported. Ratios are 0 to 1 (gaps -1 to 1), times are seconds, instants are Unix seconds.
An absent series is a withheld or unknown number; no series is ever NaN or infinite.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Annotated

import msgspec

from monitor.core.privacy.rules import PrivacyRule
from monitor.errors import SlicewatchError


class MetricKind(enum.StrEnum):
    """Type of a metric; INFO is a gauge that is always 1 and carries only labels."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class MetricSurface(enum.StrEnum):
    """Group of metrics that are shown to the same readers."""

    SLICES = "slices"
    OPERATIONS = "operations"
    DECISIONS = "decisions"
    JUDGE = "judge"


_PREFIX = "slicewatch_"


# eq=False: families are dictionary keys on the render path, and identity is a cheap hash.
@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Metric of the catalogue, with its labels, help text and disclosure rule.

    Attributes:
        name: queried name, with its prefix and suffix.
        surface: who reads it.
        rule: privacy rule that keeps it from revealing a single decision or a small slice.
        why: how it comes to obey the rule.
        kind: its type.
        labels: label names, in the order they are written.
        help: text without backslashes, quotes or line breaks.
        tier: order of removal when the series budget is exceeded: 1 goes first, 0 never.
    """

    name: str
    surface: MetricSurface
    rule: PrivacyRule
    why: str
    kind: MetricKind
    labels: tuple[str, ...]
    help: str
    tier: int

    @property
    def key(self) -> str:
        """Return the name in the catalogue and in the code, without the prefix."""
        return self.name.removeprefix(_PREFIX)

    @property
    def stem(self) -> str:
        """Return the name without the suffix ``_total``, which client libraries add themselves."""
        return self.name.removesuffix("_total") if self.kind is MetricKind.COUNTER else self.name


_Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]*$")]
_Text = Annotated[str, msgspec.Meta(pattern=r"^[ !#-\[\]-~]+$")]  # ASCII without quote, backslash


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Row of ``families.yaml``, whose head explains the fields."""

    name: _Name
    surface: MetricSurface
    rule: str
    why: str
    help: _Text
    labels: tuple[_Name, ...] = ()
    tier: int = 0
    bounds: str = ""
    kind: MetricKind | None = None


_KINDS = {"total": MetricKind.COUNTER, "info": MetricKind.INFO}
_RULES = {rule.name.lower(): rule for rule in PrivacyRule}


def read_families(text: bytes) -> dict[str, Family]:
    """Return the families in a YAML text by name without prefix, in its order.

    Raises:
        SlicewatchError: a row breaks the schema, names an unknown rule or repeats a name.
    """
    try:
        rows = msgspec.yaml.decode(text, type=list[_Row])
    except msgspec.DecodeError as error:
        raise SlicewatchError(f"families.yaml: {error}") from error
    families: dict[str, Family] = {}
    for family in (family for row in rows for family in _families(row)):
        if families.setdefault(family.key, family) is not family:
            raise SlicewatchError(f"families.yaml: {family.key} has two rows; remove one")
    return families


def _families(row: _Row) -> Iterator[Family]:
    """Yield the family of a row, then those of its bounds if it has any."""
    if row.rule not in _RULES:
        choices = ", ".join(_RULES)
        raise SlicewatchError(
            f"families.yaml: {row.name}: rule is {row.rule}, not one of {choices}"
        )
    kind = row.kind or _KINDS.get(row.name.rpartition("_")[2], MetricKind.GAUGE)
    rule = _RULES[row.rule]
    value = Family(
        _PREFIX + row.name, row.surface, rule, row.why, kind, row.labels, row.help, row.tier
    )
    yield value
    for side in ("lower", "upper") if row.bounds else ():
        yield replace(
            value,
            name=f"{value.name.removesuffix('_ratio')}_{side}_ratio",
            rule=PrivacyRule.BOUND,
            why=row.bounds,
            help=f"{side.capitalize()} 95 % bound. {row.help}",
        )


FAMILIES: Mapping[str, Family] = read_families(
    (resources.files(__package__) / "families.yaml").read_bytes()
)
"""All families by name without prefix, in the order of the page."""
CATALOGUE: tuple[Family, ...] = tuple(FAMILIES.values())


def _on(surface: MetricSurface) -> tuple[Family, ...]:
    return tuple(family for family in CATALOGUE if family.surface is surface)


PAGE = _on(MetricSurface.SLICES)
"""Families rendered from the Snapshot; counters last."""
OPERATIONS = _on(MetricSurface.OPERATIONS)
"""Families on the service itself. Counters carry the partition: they continue the committed totals
of their shard wherever it is consumed, and a sum over a changing assignment would jump."""
OF_DECISIONS = _on(MetricSurface.DECISIONS)
"""Families on decisions that are not on the slice page, but need the same credentials."""
SERVICE = OPERATIONS + OF_DECISIONS
"""The service's own families, in the order of the page."""
