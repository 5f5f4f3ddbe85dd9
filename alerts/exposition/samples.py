"""Samples by family and label text, and their lines on a page."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from alerts.exposition.catalogue import FAMILIES, Family
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import PublishedValue, ShownGap, ShownRate

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Block(NamedTuple):
    """Consecutive lines of one family, with their number of series."""

    series: int
    text: str


Blocks = Mapping[Family, Block]


class Samples:
    """Collector of the samples of one part of a page, unique by family and labels."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self._lines: defaultdict[Family, dict[str, str]] = defaultdict(dict)

    def add(self, name: str, labels: str, value: float | None) -> None:
        """Set a sample by its label text; withheld (None) and non-finite numbers stay absent."""
        if value is not None and math.isfinite(value):
            family = FAMILIES[name]
            self._lines[family][labels] = f"{family.name}{labels} {float(value)!r}\n"

    def put(self, name: str, value: float | None, *labels: str) -> None:
        """Set a sample by the values of all labels of its family; None stays absent."""
        if value is not None:
            self.add(name, label_text(FAMILIES[name].labels, labels), value)

    def put_by_metric(
        self, name: str, values: Mapping[Metric, float], contract: str, *labels: str
    ) -> None:
        """Set one sample per metric, whose name follows the contract in the labels."""
        # Sorted, because encoding a Snapshot loses the order of its mappings.
        for metric, value in sorted(values.items()):
            self.put(name, value, contract, metric, *labels)

    def add_interval(
        self, stem: str, labels: str, shown: ShownRate | ShownGap | PublishedValue
    ) -> None:
        """Set the samples of a number and its bounds; ``stem`` is its name without ``_ratio``."""
        self.add(f"{stem}_ratio", labels, shown.value)
        self.add(f"{stem}_lower_ratio", labels, shown.lower)
        self.add(f"{stem}_upper_ratio", labels, shown.upper)

    def blocks(self) -> Blocks:
        """Return all samples as lines, by family."""
        return {
            family: Block(len(lines), "".join(lines.values()))
            for family, lines in self._lines.items()
        }


def label_text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    r"""Return labels in the page's format, ``{name="value"}``, with values escaped.

    Example:
        >>> label_text(("slice", "window"), ('a="b"', "7d"))
        '{slice="a=\\"b\\"",window="7d"}'
    """
    text = _template(names) % values
    if text.count('"') == 2 * len(names) and "\\" not in text and "\n" not in text:
        return text
    return _template(names) % tuple(value.translate(_ESCAPES) for value in values)


@cache
def _template(names: tuple[str, ...]) -> str:
    return "{" + ",".join(f'{name}="%s"' for name in names) + "}"
