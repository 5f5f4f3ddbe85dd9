"""Conditions that compare one metric with a limit, as PromQL and as the status page asks them.

Alert and page come from one declaration (``when`` in alerts.yaml), so that they cannot differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import inf, nan
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from prometheus_client.samples import Sample

from alerts.declared import Name

Selector = Annotated[str, Meta(pattern=r'^slicewatch_[a-z_]+(\{[a-z_]+!?="[a-z_]+"\})?$')]
_PARTS = re.compile(r'^(\w+)(?:\{(\w+)(!?=)"(\w+)"\})?$')
WATERMARK = "slicewatch_watermark_timestamp_seconds"
"""Metric of the present in event time: a stream that lags, or is simulated, has its own."""
_LOWEST, _OF_EVENTS = ("since", "due"), ("newer", "behind")
_EVENT_AGE = f"(max by (job) ({WATERMARK})\n  - on (job) group_right ()\n  {{value}}\n)"
_QUERIES = {
    "older": "time() - {value} > {limit}",
    "due": "{value} < time() + {limit}",
    "newer": f"{_EVENT_AGE} < {{limit}}",
    "behind": f"{_EVENT_AGE} > {{limit}}",
}


Holding = tuple[dict[str, str], float]
"""Labels and ``$value`` of a group of series for which a condition holds."""
Breach = Literal["above", "apart", "since", "older", "due", "newer", "behind"]


class When(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Condition of an alert: for which groups of series a metric breaks its limit.

    Attributes:
        is_: how the metric breaks it. ``above``: its highest value is above it; ``apart``: the same
            of its distance from 0; ``since``: it is the instant since when the condition holds;
            ``older``: it is an instant longer ago than the limit; ``due``: it is an instant that is
            over or comes within the limit; ``newer`` and ``behind``: it is an instant no longer, or
            longer, before the watermark than the limit. Instants and their limits are in seconds.
        metric: the metric; a matcher of one label may follow.
        by: labels of the groups, in addition to ``job``.
        limit: the number that it is compared with.
        times: metric, of the same groups, that the limit is multiplied by.
        over: time for which Prometheus remembers the metric after its process has lost it.
    """

    is_: Breach = field(name="is", default="above")
    metric: Selector
    by: tuple[Name, ...] = ()
    limit: int | float = 0
    times: Selector | None = None
    over: str | None = None

    @property
    def query(self) -> str:
        """Return the condition as PromQL."""
        series = f"max_over_time({self.metric}[{self.over}])" if self.over else self.metric
        series = f"abs({series})" if self.is_ == "apart" else series
        group = f"by ({', '.join(('job', *self.by))})"
        value = f"{'min' if self.is_ in _LOWEST else 'max'} {group} ({series})"
        limit = f"{self.limit} * max {group} ({self.times})" if self.times else f"{self.limit}"
        return _QUERIES.get(self.is_, "{value} > {limit}").format(value=value, limit=limit)

    def holding(self, samples: Sequence[Sample], now: float) -> Iterator[Holding]:
        """Yield the groups for which it holds at ``now`` (seconds since 1970), by these samples."""
        watermark = max((s.value for s in samples if s.name == WATERMARK), default=nan)
        present = watermark if self.is_ in _OF_EVENTS else now
        factors = self._groups(samples, self.times) if self.times else {}
        for group, value in self._groups(samples, self.metric).items():
            most = self.limit * factors.get(group, inf if self.times else 1)
            number = present - value if self.is_ in ("older", *_OF_EVENTS) else value
            if {"due": value < now + most, "newer": number < most}.get(self.is_, number > most):
                yield dict(zip(self.by, group, strict=True)), number

    def _groups(self, samples: Sequence[Sample], selector: str) -> dict[tuple[str, ...], float]:
        """Return the value of each group of a metric's series: the lowest, or the highest."""
        ((name, label, operator, wanted),) = _PARTS.findall(selector)
        pick = min if self.is_ in _LOWEST else max
        groups: dict[tuple[str, ...], float] = {}
        for sample in samples:
            alike = not label or (sample.labels.get(label) == wanted) == (operator == "=")
            if sample.name == name and alike:
                group = tuple(sample.labels.get(part, "") for part in self.by)
                value = abs(sample.value) if self.is_ == "apart" else sample.value
                groups[group] = pick(value, groups.get(group, value))
        return groups
