"""Reference page of all metrics, rendered from the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import resources

import yaml

from alerts.exposition.catalogue import (
    CATALOGUE,
    OPERATIONS,
    PAGE,
    Family,
    MetricKind,
    MetricSurface,
)

LABELS: dict[str, str] = yaml.safe_load(
    (resources.files(__package__) / "labels.yaml").read_text(encoding="utf-8")
)
"""Meaning of every label."""

_UNITS = {
    "timestamp_seconds": "seconds since 1970",
    "seconds": "seconds",
    "ratio": "ratio",
    "band": "lower edge of a band",
    "total": "count, since the beginning",
    "info": "always 1",
    "messages": "messages",
}
_AHEAD = ("contract_review_due_timestamp_seconds", "certificate_not_after_timestamp_seconds")
"""Instants that are usually in the future."""
_SHARD = ("topic", "partition")
_BOUNDS = ("_lower_ratio", "_upper_ratio")
_EXAMPLE = {"contract": "CONTRACT", "metric": "tpr"}
"""Label values of example queries."""

_INTRODUCTION = """# Metrics

Every metric that slicewatch exports, with its unit, its labels and a query to begin with. This page
is written by `slicewatch render` from the catalogue that the exporter itself uses.

Queries take the maximum over replicas, which export the same numbers. Replace `CONTRACT` by the
name of a contract. What may be shown of small slices is in [privacy](privacy.md).
"""


def page() -> str:
    """Return the reference page of all metrics, in Markdown."""
    return "\n".join((_INTRODUCTION, *_sections(), *_labels(), ""))


def unit(family: Family) -> str:
    """Return a family's unit by the suffix of its name; else "number", for a count or flag."""
    units = (unit for suffix, unit in _UNITS.items() if family.name.endswith(f"_{suffix}"))
    return next(units, "number")


def example(family: Family) -> str:
    """Return a typical PromQL query of a family."""
    if family.kind is MetricKind.HISTOGRAM:
        return f"histogram_quantile(0.9, sum by (le) (rate({family.name}_bucket[1d])))"
    if family.kind is MetricKind.COUNTER:
        labels = [label for label in family.labels if label != "partition"]
        return f"sum{_by(labels)}(rate({family.name}[5m]))"
    selected = [f'{name}="{value}"' for name, value in _EXAMPLE.items() if name in family.labels]
    series = family.name + (f"{{{', '.join(selected)}}}" if selected else "")
    labels = [label for label in family.labels if label not in _EXAMPLE]
    newest = f"max{_by(labels)}({series})"
    if family.name.endswith("_timestamp_seconds"):
        return f"{newest} - time()" if family.key in _AHEAD else f"time() - {newest}"
    return newest


def _by(labels: Iterable[str]) -> str:
    names = ", ".join(labels)
    return f" by ({names}) " if names else ""


def _sections() -> Iterator[str]:
    groups: dict[str, list[Family]] = {}
    for family in CATALOGUE:
        groups.setdefault(_title(family), []).append(family)
    for title, families in groups.items():
        yield f"\n## {title}\n"
        yield "| metric | unit | labels | meaning | example |\n|---|---|---|---|---|"
        yield from _rows(families)


def _title(family: Family) -> str:
    """Return the heading that a family of metrics is listed under."""
    if family.surface is MetricSurface.JUDGE:
        return "The judge"
    if family not in PAGE:
        return "The service itself" if family in OPERATIONS else "Decisions and labels"
    if "incident" in family.labels:
        return "Incidents"
    if "probe_set" in family.labels:
        return "Probe sets"
    if "slice" in family.labels or family.name.startswith("slicewatch_group_"):
        return "Slices"
    return "Contracts, windows and label requests"


def _rows(families: Iterable[Family]) -> Iterator[str]:
    names = {family.name for family in CATALOGUE}
    for family in families:
        if not family.name.endswith(_BOUNDS):
            stem = family.name.removesuffix("_ratio")
            bounds = (name for bound in _BOUNDS if (name := stem + bound) in names)
            shown_names = "<br>".join(f"`{name}`" for name in (family.name, *bounds))
            labels = ", ".join(f"`{label}`" for label in family.labels) or "-"
            query = example(family).replace("|", "\\|")
            yield f"| {shown_names} | {unit(family)} | {labels} | {family.help} | `{query}` |"


def _labels() -> Iterator[str]:
    yield "\n## Labels\n"
    yield "| label | meaning |\n|---|---|"
    yield from (f"| `{name}` | {LABELS[name]} |" for name in sorted(LABELS))
    shard = " and ".join(f"`{name}`" for name in _SHARD)
    yield f"\nCounters of partitions carry {shard}: sum over them."
