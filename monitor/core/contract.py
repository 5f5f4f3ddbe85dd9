"""Release contract: limits on gaps and levels, minimum support, and references."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, fields, replace
from fractions import Fraction

from monitor.core.metric import Metric


class Verdict(enum.StrEnum):
    """Verdict on a gap or level, from its shown bounds and its limit; never decided by the point.

    Without support there is none to tell, whatever the bounds are. With it, PASS is within the
    limit for certain, FAIL beyond it for certain with the slice worse off, BETTER_OFF beyond it
    for certain with the slice better off, and INCONCLUSIVE none of these.
    """

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    BETTER_OFF = "better_off"  # neither good nor bad for the slice: others are worse off
    INCONCLUSIVE = "inconclusive"  # support, but the interval straddles the limit
    INSUFFICIENT_SUPPORT = "insufficient_support"


class Severity(enum.StrEnum):
    """Urgency of a broken limit, and of an incident: page or ticket."""

    PAGE = "page"  # somebody is woken
    TICKET = "ticket"  # somebody looks at it in office hours


class Role(enum.StrEnum):
    """Role of a metric in a contract: primary or guardrail."""

    PRIMARY = "primary"  # leads every text
    GUARDRAIL = "guardrail"  # limited, so that the primary is not kept at its cost


def role_of(metric: Metric, primary: Metric) -> Role:
    """Return PRIMARY if ``metric`` is the contract's ``primary`` metric, else GUARDRAIL."""
    return Role.PRIMARY if metric is primary else Role.GUARDRAIL


MAX_UNJUDGED = 0.05
"""Largest share of outputs without a judgement with which a slice may keep a limit."""

DEFAULT_PAGE_ON = ("max_tpr_gap", "min_tpr")
"""Limits that page unless a contract says otherwise: the harm is delayed help."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits and minimum support of a contract; limits are inclusive, None means unlimited.

    Attributes:
        max_tpr_gap: largest allowed TPR gap, in rate units (0.10 is ten points).
        max_fpr_gap: largest allowed FPR gap.
        max_blocked_gap: largest allowed gap of P(blocked_by_evidence).
        min_tpr: smallest allowed TPR of any slice.
        max_fpr: largest allowed FPR of any slice.
        min_positives: support that a TPR needs, in effective positives at the joint rate of slice
            and reference.
        min_negatives: support that an FPR needs, in effective negatives.
        max_selection_gap: largest allowed gap of P(auto_serve), over all requests, ready or not.
        min_selection_ratio: smallest allowed ratio of the lower P(auto_serve) of slice and
            reference to the higher one (adverse impact; 0.8 is the four-fifths rule).
        max_precision_gap: largest allowed gap of P(ready | auto_serve).
    """

    max_tpr_gap: Fraction
    max_fpr_gap: Fraction
    max_blocked_gap: Fraction | None
    min_tpr: Fraction | None
    max_fpr: Fraction | None
    min_positives: int
    min_negatives: int
    max_selection_gap: Fraction | None = None
    min_selection_ratio: Fraction | None = None
    max_precision_gap: Fraction | None = None

    def max_gap(self, metric: Metric) -> Fraction | None:
        """Return the limit on the gap of a metric; None without one."""
        return self._number(gap_limit(metric))

    def min_ratio(self, metric: Metric) -> Fraction | None:
        """Return the smallest allowed ratio of lower to higher rate of a metric, or None."""
        return self._number(f"min_{metric}_ratio")

    def min_level(self, metric: Metric) -> Fraction | None:
        """Return the smallest allowed rate of a metric in any slice; None without one."""
        return self._number(f"min_{metric}")

    def max_level(self, metric: Metric) -> Fraction | None:
        """Return the largest allowed rate of a metric in any slice; None without one."""
        return self._number(f"max_{metric}")

    def level(self, metric: Metric) -> Fraction | None:
        """Return the limit on a metric's level (``min_tpr`` or ``max_fpr``); None without one."""
        low = self.min_level(metric)
        return self.max_level(metric) if low is None else low

    def limits(self, metric: Metric) -> bool:
        """Return True if any limit is on the metric."""
        names = (name for name, limited in LIMITED_METRICS.items() if limited is metric)
        return any(getattr(self, name) is not None for name in names)

    def min_support(self, metric: Metric) -> int:
        """Return the support a metric needs: positives for TPR, negatives for FPR, else the sum."""
        name = metric.row.support
        needed: int = getattr(self, name) if name else self.min_positives + self.min_negatives
        return needed

    def _number(self, name: str) -> Fraction | None:
        """Return the limit of this name; None without one, or if no metric has such a limit."""
        return getattr(self, name, None)


def gap_limit(metric: Metric) -> str:
    """Return the name of the limit on a metric's gap."""
    return f"max_{metric}_gap"


_LIMIT = re.compile(r"(?:min|max)_(?P<metric>[a-z]+)(?:_gap|_ratio)?")
LIMITED_METRICS = {
    field.name: Metric(match["metric"])
    for field in fields(Limits)
    if (match := _LIMIT.fullmatch(field.name)) and match["metric"] in set(Metric)
}
"""Metrics by the names of all limits."""


@dataclass(frozen=True, slots=True)
class OwnLimits:
    """Limits of one group-by or slice that replace the contract's limits of the same names.

    Attributes:
        group_by: name, as exported.
        slice: slice text of the group-by; empty for all of its slices.
        limits: numbers by the names in :class:`Limits`; tighter or looser than the contract's, or
            without a limit in the contract.
    """

    group_by: str
    slice: str
    limits: tuple[tuple[str, Fraction], ...]

    def over(self, limits: Limits) -> Limits:
        """Return a copy of ``limits`` in which these own limits replace limits of the same name."""
        return replace(limits, **dict(self.limits))  # type: ignore[arg-type]  # names of limits

    def alone(self, limits: Limits) -> Limits:
        """Return Limits with only these own limits, and with the minimum support of ``limits``."""
        support = limits.min_positives, limits.min_negatives
        nothing = Limits(None, None, None, None, None, *support)  # type: ignore[arg-type]
        return self.over(nothing)


COMPLEMENT = "complement"
"""Reference that is everything in the group-by except the slice."""


@dataclass(frozen=True, slots=True)
class GroupBy:
    """Family of compared slices: attributes that define them, and the reference of each slice.

    Attributes:
        attributes: sorted names; several attributes make intersections.
        reference: a slice text of this group-by (``channel=chat``), or ``complement``.
    """

    attributes: tuple[str, ...]
    reference: str = COMPLEMENT

    @property
    def name(self) -> str:
        """Exported name: attribute names joined by ``+``."""
        return "+".join(self.attributes)


@dataclass(frozen=True, slots=True)
class Contract:
    """Contract of a use case as the engine uses it: limits, window, group-bys, smallest cell.

    Attributes:
        name: unique; the ``contract`` label of every metric.
        version: changes whenever a number changes.
        owner: person or team that answers for it.
        limits: the numbers.
        window: name of the window for verdicts and states.
        group_bys: the compared families of slices.
        synthetic: True for declared test conditions, which are shown exactly and marked as such.
        k: smallest cell that may be shown (1 only when synthetic).
        where: attribute values of the atoms that belong to the use case.
        effective: start of the contract (microseconds); None if not stated.
        review_due: time of the next review (microseconds); None if not stated.
        max_age: largest lag of a window's end behind the watermark (microseconds) at which it
            still shows that the contract is kept; None is unlimited.
        own_limits: limits of group-bys and slices, in place of those in ``limits``.
        page_on: names of the limits whose breach pages; the metric of the first one leads.
        max_blocked: largest P(blocked_by_evidence) with which a slice can keep any limit; None for
            routers, whose blocked requests were decided.
    """

    name: str
    version: str
    owner: str
    limits: Limits
    window: str
    group_bys: tuple[GroupBy, ...]
    synthetic: bool
    k: int
    where: tuple[tuple[str, str], ...] = ()
    effective: int | None = None
    review_due: int | None = None
    max_age: int | None = None
    own_limits: tuple[OwnLimits, ...] = ()
    page_on: tuple[str, ...] = DEFAULT_PAGE_ON
    max_blocked: float | None = None

    def limits_of(self, group_by: str, slice_: str = "") -> Limits:
        """Return the limits of a slice, or of the whole group-by; the most specific limit wins."""
        limits = self.limits
        for name in dict.fromkeys(("", slice_)):
            for own_limits in self.own_limits:
                if own_limits.group_by == group_by and own_limits.slice == name:
                    limits = own_limits.over(limits)
        return limits

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics shown under the contract: the usual ones, and others that it limits."""
        own_limits = (own_limits.over(self.limits) for own_limits in self.own_limits)
        all_limits = (self.limits, *own_limits)
        return tuple(
            metric
            for metric in Metric
            if metric.row.always_shown or any(limits.limits(metric) for limits in all_limits)
        )

    @property
    def primary(self) -> Metric:
        """Metric that leads every text: that of the first limit that pages; TPR if none does."""
        return LIMITED_METRICS[self.page_on[0]] if self.page_on else Metric.TPR

    def role(self, metric: Metric) -> Role:
        """Return the role of a metric: primary, or guardrail."""
        return role_of(metric, self.primary)

    def severity(self, limit: str) -> Severity:
        """Return the urgency of a breach of a limit, by its name."""
        return Severity.PAGE if limit in self.page_on else Severity.TICKET


def exceeds(worse: Fraction, limit: Fraction) -> bool:
    """Return True when a difference of counted rates is above its limit; equality is not above.

    The comparison is exact, unlike with floats: 80/100 against 70/100 is not above 0.10.

    Example:
        >>> exceeds(Fraction(80, 100) - Fraction(70, 100), Fraction("0.10"))
        False
        >>> 0.8 - 0.7 > 0.1
        True
    """
    return worse > limit
