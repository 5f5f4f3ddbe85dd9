"""PromQL of the panels, made from families of the catalogue: a label that none has is an error.

Every ``serve`` process exports the same Snapshot, so everything is the maximum over processes
before it is added up: a second process doubles nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from alerts.exposition import catalogue
from alerts.exposition.catalogue import Family, MetricKind

TARGET = ("job", "instance")
"""Labels that Prometheus adds to every series."""
RATE_INTERVAL = "$__rate_interval"


def series(family: Family, *chosen: str, where: str = "") -> str:
    """The series of a family in the chosen job.

    Args:
        family: what.
        chosen: labels that must have the value of the dashboard's variable of the same name.
        where: further matchers, as PromQL has them.
    """
    _check(family, chosen)
    matchers = [f'{label}="${label}"' for label in ("job", *chosen)]
    return f"{family.name}{{{', '.join([*matchers, where] if where else matchers)}}}"


def newest(family: Family, by: Iterable[str], *chosen: str, where: str = "") -> str:
    """A gauge, without what differs between processes that export the same.

    Example:
        >>> newest(catalogue.MAX_GAP, ["metric"], "contract")
        'max by (metric) (slicewatch_contract_max_gap_ratio{job="$job", contract="$contract"})'
    """
    return _aggregated("max", family, by, series(family, *chosen, where=where))


def oldest(family: Family, by: Iterable[str], *chosen: str, where: str = "") -> str:
    """Likewise, the minimum: of instants at which something ends."""
    return _aggregated("min", family, by, series(family, *chosen, where=where))


def per_second(family: Family, by: Iterable[str], *chosen: str, of: Iterable[str] = ()) -> str:
    """Pace of a counter: of each one the highest over processes, then the sum.

    Args:
        family: a counter.
        by: labels of the result.
        chosen: as for :func:`series`.
        of: labels that tell its counters apart beyond ``by``: topic and partition, or instance.
    """
    return _counted(f"rate({series(family, *chosen)}[{RATE_INTERVAL}])", family, by, of)


def increase(
    family: Family,
    by: Iterable[str],
    interval: str,
    *chosen: str,
    of: Iterable[str] = (),
    where: str = "",
) -> str:
    """Growth of a counter within an interval; otherwise as :func:`per_second`."""
    return _counted(f"increase({series(family, *chosen, where=where)}[{interval}])", family, by, of)


def decided(family: Family, by: Iterable[str], *chosen: str, where: str = "") -> str:
    """A gauge in the window that its contract is decided in: the one that states are of."""
    labels = tuple(by)
    _check(family, labels)
    of_window = series(catalogue.STATE, "contract")
    inner = f"{series(family, *chosen, where=where)} and on (contract, window) {of_window}"
    return f"max{_by(labels)}({inner})"


def _counted(each: str, family: Family, by: Iterable[str], of: Iterable[str]) -> str:
    if family.kind is not MetricKind.COUNTER:
        raise ValueError(f"{family.name} is no counter")
    by, of = tuple(by), tuple(of)
    one = _aggregated("max", family, (*by, *of), each)
    return f"sum{_by(by)}({one})" if of else one


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
