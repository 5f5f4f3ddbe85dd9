"""An attacker of published precision, who has fetched pages and tries every table of labels.

Where everything is labelled, a row's TPR, FPR and ready rate are of one table of four counts. The
attacker keeps the tables that would be shown as the page shows the row, and of these the ones whose
precision would be, too: by the rule that the manual states, or by that of a naive product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from adversary.label_tables import RESOLUTION, Floats, Ints, Tables, shown_rate, what_is_told
from adversary.numbers import band
from adversary.pages import RATE, Numbers, parse_name

from monitor.core.contract import Metric
from monitor.core.publish.shown_precision import shown_precision
from monitor.core.publish.suppression import ShownColumns

LABELLED = (Metric.TPR, Metric.FPR, Metric.READY)
LARGEST = 700_000
"""Tables that are tried of one row at most."""

Rule = Callable[[Tables], ShownColumns]
"""How a product makes precision of a table."""


def by_the_manual(tables: Tables) -> ShownColumns:
    """From the rates that are shown."""
    tpr, fpr, ready, _ = tables.shown
    return shown_precision(tpr, fpr, ready, RESOLUTION)


def by_its_own_counts(tables: Tables) -> ShownColumns:
    """Rounded and coded as every other rate is."""
    a, b, _, _ = tables.counts
    return shown_rate(Metric.PRECISION, a, a + b)


@dataclass(frozen=True)
class Found:
    """What is left of one row: how many numbers each count (see ``Tables``) could be.

    Attributes:
        without: by TPR, FPR and ready rate.
        numbers: with the precision, too.
    """

    without: tuple[int, ...]
    numbers: tuple[int, ...]


def rows_in(bodies: Sequence[str]) -> list[dict[str, Numbers]]:
    """Every row of labelled rates that any page showed with all four, once."""
    found: dict[str, dict[str, Numbers]] = {}
    for body in bodies:
        shown: dict[tuple[str, ...], dict[str, Numbers]] = {}
        for line in body.splitlines():
            name, _, value = line.rpartition(" ")
            parsed = parse_name(name)
            if parsed and parsed[0] in RATE and "window" in parsed[1]:
                labels = parsed[1]
                where = labels.get("group_by", ""), labels["window"], labels.get("slice", "")
                numbers = shown.setdefault(where, {}).setdefault(labels["metric"], {})
                numbers[RATE[parsed[0]]] = float(value)
        for row in shown.values():
            if {*LABELLED, Metric.PRECISION} <= row.keys():
                told = {str(metric): row[metric] for metric in (*LABELLED, Metric.PRECISION)}
                found[repr(told)] = told
    return list(found.values())


def attack(bodies: Sequence[str], rule: Rule) -> Iterator[Found]:
    """What every row gives away; rows of too many tables are passed over."""
    for row in rows_in(bodies):
        ready, others = (band(row[metric]["support"]) for metric in (Metric.TPR, Metric.FPR))
        if _size(*ready) * _size(*others) > LARGEST:
            continue
        tables = _tables(ready, others)
        same = np.all([_alike(s, row[s.metric]) for s in tables.shown[:3]], axis=0)
        fits = same & _alike(rule(tables), row[Metric.PRECISION])
        yield Found(_numbers(tables.counts[:, same]), _numbers(tables.counts[:, fits]))


def _numbers(counts: Ints) -> tuple[int, ...]:
    return tuple(len(np.unique(count)) for count in counts)


def _size(low: int, high: int) -> int:
    return sum(n + 1 for n in range(low, high + 1))


@cache
def _tables(ready: tuple[int, int], others: tuple[int, int]) -> Tables:
    return Tables.of(range(ready[0], ready[1] + 1), range(others[0], others[1] + 1))


def _alike(shown: ShownColumns, row: Numbers) -> npt.NDArray[np.bool_]:
    """Which tables would be shown as a row is."""
    told: Floats = what_is_told(shown)
    seen = [row.get(name, -1) for name in ("value", "at_least", "at_most", "support")]
    return np.asarray(np.all(np.abs(told - np.array(seen)[:, None]) < 1e-6, axis=0))
