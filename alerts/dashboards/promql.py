"""PromQL of the panels, built from families of the catalogue; an unknown label is an error.

Every ``serve`` process exports the same Snapshot. So a query takes the maximum over processes
before it sums, and a second process doubles nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from alerts.exposition import catalogue
from alerts.exposition.catalogue import Family, MetricKind

TARGET = ("job", "instance")
"""Labels that Prometheus adds to every series."""
RATE_INTERVAL = "$__rate_interval"


def series(family: Family, *chosen: str, where: str = "") -> str:
    """Return PromQL for a family's series in the chosen job, further limited by chosen variables.

    Args:
        family: the metric.
        chosen: labels that must have the value of the dashboard's variable of the same name.
        where: further matchers, in PromQL.
    """
    _check(family, chosen)
    matchers = [f'{label}="${label}"' for label in ("job", *chosen)]
    return f"{family.name}{{{', '.join([*matchers, where] if where else matchers)}}}"


def newest(family: Family, by: Iterable[str], *chosen: str, where: str = "") -> str:
    """Return PromQL for the maximum of a gauge over processes, which export equal values.

    Example:
        >>> newest(catalogue.MAX_GAP, ["metric"], "contract")
        'max by (metric) (slicewatch_contract_max_gap_ratio{job="$job", contract="$contract"})'
    """
    return _aggregated("max", family, by, series(family, *chosen, where=where))


def oldest(family: Family, by: Iterable[str], *chosen: str, where: str = "") -> str:
    """Return PromQL for the minimum of a gauge over processes, such as the earliest expiry."""
    return _aggregated("min", family, by, series(family, *chosen, where=where))


def per_second(family: Family, by: Iterable[str], *chosen: str, split: Iterable[str] = ()) -> str:
    """Return PromQL for a counter's rate per second: maximum over processes, sum over ``split``.

    Args:
        family: a counter.
        by: labels of the result.
        chosen: as for :func:`series`.
        split: labels that distinguish its counters besides ``by``: topic and partition, or
            instance.
    """
    return _summed(f"rate({series(family, *chosen)}[{RATE_INTERVAL}])", family, by, split)


def increase(
    family: Family,
    by: Iterable[str],
    interval: str,
    *chosen: str,
    split: Iterable[str] = (),
    where: str = "",
) -> str:
    """Return PromQL for a counter's growth in an interval, combined as in :func:`per_second`."""
    return _summed(
        f"increase({series(family, *chosen, where=where)}[{interval}])", family, by, split
    )


def decided(family: Family, by: Iterable[str], *chosen: str, where: str = "") -> str:
    """Return PromQL for a gauge in its contract's deciding window, to which states apply."""
    labels = tuple(by)
    _check(family, labels)
    of_window = series(catalogue.STATE, "contract")
    inner = f"{series(family, *chosen, where=where)} and on (contract, window) {of_window}"
    return f"max{_by(labels)}({inner})"


def _summed(inner: str, family: Family, by: Iterable[str], split: Iterable[str]) -> str:
    if family.kind is not MetricKind.COUNTER:
        raise ValueError(f"{family.name} is no counter")
    by, split = tuple(by), tuple(split)
    largest = _aggregated("max", family, (*by, *split), inner)
    return f"sum{_by(by)}({largest})" if split else largest


def _aggregated(operator: str, family: Family, by: Iterable[str], inner: str) -> str:
    labels = tuple(by)
    _check(family, labels)
    return f"{operator}{_by(labels)}({inner})"


def _by(labels: Iterable[str]) -> str:
    names = ", ".join(labels)
    return f" by ({names}) " if names else ""


def _check(family: Family, labels: Iterable[str]) -> None:
    if unknown := set(labels) - {*family.labels, *TARGET}:
        raise ValueError(f"{family.name} has no label {', '.join(sorted(unknown))}")
