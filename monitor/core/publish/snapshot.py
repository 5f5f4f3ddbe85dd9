"""The Snapshot: the only live value that may leave the service.

An absent number (None, or a metric that is missing from a mapping) is withheld; no number is NaN
or infinite. Encoded, equal Snapshots have equal bytes.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import msgspec

from monitor.core.contract import Severity, Verdict
from monitor.core.counts.cells import Route
from monitor.core.metric import Metric
from monitor.core.probes.flips import Expected, FlipDirection
from monitor.core.publish.annotations import Annotation, Behind, Fault, IncidentKind, Share, Stage
from monitor.core.state import State

WITHHELD = "withheld"
"""Name in place of a slice that the guards hide."""


class LimitKind(enum.StrEnum):
    """Kind of a limit: on a gap, on a ratio of two rates, or on the level of one rate."""

    MAX_GAP = "max_gap"
    MIN_RATIO = "min_ratio"
    MIN_LEVEL = "min_level"
    MAX_LEVEL = "max_level"


@dataclass(frozen=True, slots=True)
class ShownLimit:
    """Limit of a slice and metric as published: its kind and number.

    Attributes:
        kind: what it limits.
        value: inclusive; of the contract, or the slice's own.
    """

    kind: LimitKind
    value: float


@dataclass(frozen=True, slots=True)
class ShownRate:
    """Rate of a slice as published: rounded or coded, with bounds and support.

    Attributes:
        value: the rate, rounded; None where it is coded or not identified.
        lower: lower 95 % bound, computed from what is shown and rounded down.
        upper: upper 95 % bound, rounded up.
        support: lower edge of the band that holds n_eff (exact in a synthetic contract).
        at_least: shown instead of the value where too few were not selected.
        at_most: shown instead of the value where too few were selected.
        least: lower bound whatever the missing labels say; None where few are missing.
        most: upper bound whatever they say.
        if_wrong: both bounds, of TPR and FPR, if labels err as often as disagreement implies.
    """

    value: float | None
    lower: float | None
    upper: float | None
    support: int
    at_least: float | None = None
    at_most: float | None = None
    least: float | None = None
    most: float | None = None
    if_wrong: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class ShownGap:
    """Gap of a slice to its reference as published; positive means that the slice is worse off.

    Attributes:
        reference: slice text of the reference, or ``complement``.
        value: the difference of the shown rates; None where one of them is coded.
        lower: lower bound, simultaneous within the group-by.
        upper: upper bound.
        ratio: rate of the slice over rate of the reference; None over zero or where coded.
        ratio_lower: lower bound of the ratio.
        ratio_upper: upper bound of the ratio; None where the reference may be zero.
        verdict: by the bounds of gap and ratio, never by the point: fail if one of them fails, pass
            if all that are limited pass; None where the contract sets no limit.
        least: like that of a rate.
        most: likewise. If the limit is kept by the interval, but not by these bounds, the verdict
            is insufficient_support.
    """

    reference: str
    value: float | None
    lower: float | None
    upper: float | None
    ratio: float | None = None
    ratio_lower: float | None = None
    ratio_upper: float | None = None
    verdict: Verdict | None = None
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class CalibrationCell:
    """Rate P(ready | score band) of a slice; None where fewer than ten (or k) were labelled."""

    band: str
    rate: ShownRate | None


@dataclass(frozen=True, slots=True)
class Noted:
    """Advisory findings of one kind in a slice, as of the end of a day.

    Attributes:
        annotation: what was found.
        metric: of which rate; None where it is of none.
        count: how often, since monitoring began.
        latest: the end of the day that first showed the last of them (microseconds).
    """

    annotation: Annotation
    metric: Metric | None
    count: int
    latest: int


@dataclass(frozen=True, slots=True)
class ShownStage:
    """Stage of the router at which a slice and its reference diverge, and its share.

    Attributes:
        stage: NONE where no stage differs significantly; UNKNOWN where the difference is one of
            decisions without a score.
        share: the share of the difference it accounts for; None with NONE and UNKNOWN.
    """

    stage: Stage
    share: Share | None = None


@dataclass(frozen=True, slots=True)
class ComponentChange:
    """Change of one component of the router to another version that answers a slice.

    Attributes:
        component: ``judge``, ``rubric``, ``policy``, ``router`` or ``threshold``.
        before: the version that lost most of the slice's decisions; ``""`` if none was sent.
        after: the one that gained most. Each of the two has at least k of the slice's decisions.
    """

    component: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ShownAgreement:
    """Agreement of two reviewers of one decision (Cohen's kappa, -1 to 1), as it may be shown.

    Attributes:
        kappa: two decimals, computed from bands; None where it is coded.
        at_least: shown instead of it where fewer than k pairs disagree.
        lower: lower bound of the 95 % interval, rounded down.
        upper: upper bound, rounded up; 1 where kappa is coded.
        wrong: share of wrong labels at most, if both reviewers err alike; None where coded.
    """

    kappa: float | None
    at_least: float | None
    lower: float
    upper: float
    wrong: float | None = None


@dataclass(frozen=True, slots=True)
class SliceRow:
    """Published row of one slice in a window: states, rates, gaps and findings by metric.

    Attributes:
        slice: slice text; ``""`` is the total.
        states: always one for every metric of the contract, also when every number is withheld.
        rates: the metrics that may be shown.
        gaps: the gaps that may be shown.
        as_labelled: the rate over labelled rows alone, for comparison only: it is wrong
            where labels are a biased sample.
        calibration: by score band.
        completeness: labels received / labels requested, the minimum over route x audit rate,
            rounded like a rate; None when withheld or when nothing was requested.
        evidence: progress of the sequential tests towards a page, in five steps: below 25, 50, 75
            and 100 % of what a crossing needs (0 to 3), and 4 while a crossing is unresolved. Of
            the contract's window alone, and only of what is shown.
        breach_since: of the metrics in breach, the end of the day that first showed it
            (microseconds).
        detectable_gaps: the smallest gap beyond the limit that four weeks of labels would find at
            their present rate; absent where none would be found.
        label_needs: weeks of labels, at their present rate, until a gap of the limit + 0.05 would
            be found: 0 (less than one), 1 (one to four) or 4 (more than four). Of the contract's
            window alone, and absent where it or its reference is hidden.
        noted: its advisory findings, sorted. Of the contract's window alone.
        stages: where it and its reference diverge, for selection and TPR. Of the contract's
            window alone, and only where that rate is shown of both.
        agreement: of its reviewers; None where too few decisions have two labels. Of the
            contract's window alone, and of closed weeks.
        versions_changed: which versions changed at the last ``version_change`` that is noted,
            sorted by component; empty where too few decisions of either are released yet, or none
            are any more. With the contract's window alone, but also of a change before it.
        breach_limits: of the metrics in breach, which limit the sequential test found broken.
    """

    slice: str
    states: Mapping[Metric, State]
    rates: Mapping[Metric, ShownRate] = field(default_factory=dict)
    gaps: Mapping[Metric, ShownGap] = field(default_factory=dict)
    as_labelled: Mapping[Metric, float] = field(default_factory=dict)
    calibration: tuple[CalibrationCell, ...] = ()
    completeness: float | None = None
    evidence: Mapping[Metric, int] = field(default_factory=dict)
    breach_since: Mapping[Metric, int] = field(default_factory=dict)
    detectable_gaps: Mapping[Metric, float] = field(default_factory=dict)
    label_needs: Mapping[Metric, int] = field(default_factory=dict)
    noted: tuple[Noted, ...] = ()
    stages: Mapping[Metric, ShownStage] = field(default_factory=dict)
    agreement: ShownAgreement | None = None
    versions_changed: tuple[ComponentChange, ...] = ()
    breach_limits: Mapping[Metric, LimitKind] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spread:
    """Difference of one metric between the worst and best slice of a group-by; never tested."""

    metric: Metric
    worst: str
    best: str
    difference: float


@dataclass(frozen=True, slots=True)
class Period:
    """Event time that shown numbers cover: whole calendar spans.

    Attributes:
        start: first instant (microseconds).
        end: the instant it runs to, exclusive.
        data_lost: events of it were lost before they could be read, or may have been.
        excluded: tables in it are left out, because somebody declared their data to be bad.
    """

    start: int
    end: int
    data_lost: bool = False
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class GroupTable:
    """Table of a group-by in a window: one row per slice; rows of hidden slices have no numbers.

    Attributes:
        group_by: attribute names joined by ``+``.
        rows: sorted by slice.
        spreads: worst to best, by metric.
        decisions: what selection and blocked rates are about; None before the first table.
        labelled: what labelled rates are about; None before the first table, and in windows
            without labels.
    """

    group_by: str
    rows: tuple[SliceRow, ...]
    spreads: tuple[Spread, ...] = ()
    decisions: Period | None = None
    labelled: Period | None = None


@dataclass(frozen=True, slots=True)
class WindowTable:
    """Table of a contract's window: a row of all decisions, and a table per group-by.

    The calendar spans are chosen for each group-by, by the sizes of its rows, so two group-bys may
    cover different periods. All rows of a group-by cover the same one.

    Attributes:
        window: name of the window.
        total: all decisions of the use case.
        groups: the group-bys, in the order of the contract.
        decisions: the period of the total's selection and blocked rates.
        labelled: the period of its labelled rates.
    """

    group_by: ClassVar[str] = ""
    """The table of all decisions has no group-by."""

    window: str
    total: SliceRow
    groups: tuple[GroupTable, ...]
    decisions: Period | None = None
    labelled: Period | None = None

    @property
    def data_lost(self) -> bool:
        """Return True when events of the window were lost, or may have been, before being read."""
        return any(period.data_lost for period in self._periods())

    @property
    def excluded(self) -> bool:
        """True when tables of the window are left out because their data are bad."""
        return any(period.excluded for period in self._periods())

    def _periods(self) -> Iterator[Period]:
        return (period for table in tables_of(self) for period in periods(table))


def tables_of(window: WindowTable) -> tuple[WindowTable | GroupTable, ...]:
    """Return the window itself, which holds the total, and the tables of its group-bys."""
    return (window, *window.groups)


def periods(table: WindowTable | GroupTable) -> tuple[Period, ...]:
    """Return the periods of decisions and of labels that a table has."""
    return tuple(p for p in (table.decisions, table.labelled) if p is not None)


@dataclass(frozen=True, slots=True)
class RequestsAtFault:
    """Fault of a stratum: labels are requested less or more often than its decisions say.

    Attributes:
        route: of the stratum.
        audit_rate: of the stratum, as in the settings.
        fault: too few or too many.
        count: how often it was found, since monitoring began.
        latest: the end of the day that first showed the last of them.
    """

    route: Route
    audit_rate: float
    fault: Fault
    count: int
    latest: int


@dataclass(frozen=True, slots=True)
class LabelsAtFault:
    """Lasting fault in the labels of one slice and route.

    Attributes:
        group_by: of the slice.
        slice: slice text; ``withheld`` where the guards hide the slice.
        route: of the decisions.
        fault: missing, or requested too rarely or too often.
        since: the end of the day that first showed it (microseconds).
        share: of the labels due that are missing, or that are requested, in whole tenths; None
            where the slice is withheld.
    """

    group_by: str
    slice: str
    route: Route
    fault: Fault
    since: int
    share: float | None = None


@dataclass(frozen=True, slots=True)
class PublishedValue:
    """Gap, or rate with a limited level, as a page showed it at some time.

    Attributes:
        value: as shown; None where it is coded. A gap is positive where the slice is worse off.
        lower: lower bound.
        upper: upper bound.
        at: end of the tables that it is of (microseconds).
    """

    value: float | None
    lower: float | None
    upper: float | None
    at: int


@dataclass(frozen=True, slots=True)
class ShownIncident:
    """Incident as published: the cause of one or more crossings.

    The identity of an incident never changes: not when its slice becomes visible or is hidden, and
    not when more slices are found to inherit the incident.

    Attributes:
        id: of the incident.
        kind: a breach, or on the weekly list.
        severity: page or ticket: what its alert is sent as.
        metric: of its streams.
        since: event time (microseconds) of the end of the cohort that first crossed; of a ticket,
            the end of its first week.
        group_by: of the smallest slice that explains it; empty where that is withheld.
        slice: that slice; ``withheld`` where the guards hide it.
        share: the share of the excess it accounts for, in words; None where that is not known.
        inherited: shown slices that are only worse since they contain that slice, or lie in it.
        further: the other slices of the same fault, which share a value with it or another of
            these; ``withheld`` stands for those that the guards hide.
        acknowledged: whether somebody has said to look after it.
        accepted_until: end of the time for which it is accepted (microseconds); None where it is
            not. It does not page until then.
        first: what was shown of the slice when it first crossed; None where that is withheld.
        latest: what is shown of it now.
        began: start of the day on which the change probably began: an estimate; None where the
            slice is withheld, or for a ticket.
        stage: the stage of the router at which the slice and its reference diverge.
        versions_changed_at: when other versions began to answer the slice, from two days before
            it began until it crossed; None without.
        versions_changed: which they were before and after, sorted by component; empty where that is
            not known yet, or not any more.
        settings_changed_at: the same of settings.
        sampling: how its labels were sampled, in words.
        resolvable_at: the earliest moment at which it can be resolved if it were repaired now, at
            the present rate of labels; None where that is not known.
        snapshot: number of the stored Snapshot that first reported it, for links; 0 in that one.
        behind: who is worse off; None where the slice is withheld, or what is shown does not say.
        limit: the one that is broken; None where the slice is withheld.
    """

    id: int
    kind: IncidentKind
    severity: Severity
    metric: Metric
    since: int
    group_by: str
    slice: str
    share: Share | None = None
    inherited: tuple[str, ...] = ()
    acknowledged: bool = False
    accepted_until: int | None = None
    first: PublishedValue | None = None
    latest: PublishedValue | None = None
    stage: ShownStage | None = None
    versions_changed_at: int | None = None
    settings_changed_at: int | None = None
    sampling: str = ""
    resolvable_at: int | None = None
    snapshot: int = 0
    behind: Behind | None = None
    limit: ShownLimit | None = None
    versions_changed: tuple[ComponentChange, ...] = ()
    began: int | None = None
    further: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnLimit:
    """Limit that overrides the contract's for a group-by or one of its slices.

    Attributes:
        group_by: name.
        slice: slice text; empty for all slices of the group-by.
        metric: of the limit.
        kind: of the limit.
        value: inclusive.
    """

    group_by: str
    slice: str
    metric: Metric
    kind: LimitKind
    value: float


@dataclass(frozen=True, slots=True)
class ContractTable:
    """Published table of a contract: identity, limits, windows, faults and incidents.

    ``requests_at_fault`` is sorted by route, audit rate and fault, ``labels_at_fault`` by
    group-by, slice, route and fault; both are empty while all is well.
    ``incidents`` are those not over, by id. ``primary`` is the metric that leads, the other limited
    ones are guardrails. ``review_due`` is the instant (microseconds) at which
    people are to look at the contract again; None where nobody has said so. What ended longer than
    ``max_age`` (microseconds) before the watermark is never ``within_contract``; None: no limit.
    ``min_ratios`` are limits on the ratio of the lower to the higher of two rates. ``own_limits``
    are those of group-bys and slices, which take the place of the others. A slice of which more
    than ``max_blocked`` is blocked, or may be, is never ``within_contract``; None: no limit.
    """

    contract: str
    version: str
    owner: str
    synthetic: bool
    k: int
    window: str
    max_gaps: Mapping[Metric, float]
    min_levels: Mapping[Metric, float]
    max_levels: Mapping[Metric, float]
    min_supports: Mapping[Metric, int]
    windows: tuple[WindowTable, ...]
    requests_at_fault: tuple[RequestsAtFault, ...] = ()
    labels_at_fault: tuple[LabelsAtFault, ...] = ()
    incidents: tuple[ShownIncident, ...] = ()
    review_due: int | None = None
    primary: Metric = Metric.TPR
    max_age: int | None = None
    min_ratios: Mapping[Metric, float] = field(default_factory=dict)
    own_limits: tuple[OwnLimit, ...] = ()
    max_blocked: float | None = None

    @property
    def exact(self) -> bool:
        """True if numbers are shown as counted: invented test conditions, and nothing is small."""
        return self.synthetic and self.k == 1

    def support_text(self, support: int) -> str:
        """Return a support as text; one of people is the lower edge of a band, ``120+``."""
        return f"{support:,}" if self.exact else f"{support:,}+"

    def limits_of(self, group_by: str, slice_: str, metric: Metric) -> dict[LimitKind, float]:
        """Return the limits on a metric of a slice, by kind; own limits replace the contract's."""
        limits = {
            LimitKind.MAX_GAP: self.max_gaps,
            LimitKind.MIN_RATIO: self.min_ratios,
            LimitKind.MIN_LEVEL: self.min_levels,
            LimitKind.MAX_LEVEL: self.max_levels,
        }
        usual = {kind: numbers[metric] for kind, numbers in limits.items() if metric in numbers}
        return usual | self.own_limits_of(group_by, slice_, metric)

    def limit_kinds(self, metric: Metric) -> set[LimitKind]:
        """Return the kinds of limits that any slice has on a metric."""
        own_kinds = (own_limit.kind for own_limit in self.own_limits if own_limit.metric is metric)
        return {*self.limits_of("", "", metric), *own_kinds}

    def own_limits_of(self, group_by: str, slice_: str, metric: Metric) -> dict[LimitKind, float]:
        """Return the limits on a metric that a slice or its group-by sets itself, by kind."""
        limits: dict[LimitKind, float] = {}
        for name in ("", slice_):
            limits |= {
                own_limit.kind: own_limit.value
                for own_limit in self.own_limits
                if (own_limit.group_by, own_limit.slice, own_limit.metric)
                == (group_by, name, metric)
            }
        return limits


@dataclass(frozen=True, slots=True)
class ShownFlips:
    """Number of a probe set's flips with one variant, direction, stage and expectation.

    Attributes:
        variant: variant that was compared with the set's reference.
        stage: stage at which they diverge: ``evidence_gate``, or the cause behind it
            (``judge_score``, ...).
        count: number of flips.
        expected: readiness that the set expects.
    """

    variant: str
    direction: FlipDirection
    stage: str
    count: int
    expected: Expected = Expected.UNKNOWN


@dataclass(frozen=True, slots=True)
class ShownProbeSet:
    """Declared probe set in production: synthetic, signed, and in no production rate.

    Attributes:
        digest: content hash.
        variants: variants that are compared with the reference, sorted; each has counts from the
            beginning, so that readers also see the first flip.
        compared: number of comparisons of a variant with the reference, since the declaration.
        flips: flips since the declaration, sorted by variant, direction, stage and expectation;
            zeros are absent.
        incomplete: number of rounds whose other variants did not come in time, and of decisions
            without a round.
        every: interval of sending (microseconds).
        max_flip_ratio: largest share of flips within a day.
        covered: event time (microseconds) since which every pair was compared, rounded down to
            five minutes; before that, the time of the declaration.
        pages: directions whose sequential test has crossed and whose excess persists, with
            the event time (microseconds) of the crossing.
        standing: present flips, over the newest comparison of each pair and variant, like
            ``flips``.
    """

    name: str
    digest: str
    variants: tuple[str, ...]
    compared: int
    flips: tuple[ShownFlips, ...]
    incomplete: int
    every: int
    max_flip_ratio: float
    covered: int
    pages: Mapping[FlipDirection, int] = field(default_factory=dict)
    standing: tuple[ShownFlips, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that is published live: contracts, probe sets, and the time they cover.

    Attributes:
        watermark: event time (microseconds) up to which decisions are complete, rounded to five
            minutes because the exact time is that of one decision. None at first.
        frontier: event time up to which label cohorts are mature; None at first.
        contracts: one table per contract.
        probes: declared probe sets, by name.
    """

    watermark: int | None
    frontier: int | None
    contracts: tuple[ContractTable, ...]
    probes: tuple[ShownProbeSet, ...] = ()


def encode(snapshot: Snapshot) -> bytes:
    """Return the canonical JSON of a Snapshot; equal Snapshots have equal bytes."""
    return canonical(snapshot)


def canonical(part: Snapshot | SliceRow) -> bytes:
    """Return the canonical JSON of a Snapshot or of a row; equal values have equal bytes."""
    return msgspec.json.encode(part, order="deterministic")


def decode(data: bytes) -> Snapshot:
    """Return the Snapshot of the JSON that :func:`encode` returned."""
    return msgspec.json.decode(data, type=Snapshot)


def numbered(snapshot: Snapshot, number: int) -> Snapshot:
    """Return a stored Snapshot in which new incidents carry its ``number``, for links.

    The bytes of a stored Snapshot cannot contain its number, but the first notification must.

    Args:
        snapshot: stored Snapshot.
        number: number of the stored Snapshot.
    """
    contracts = []
    for table in snapshot.contracts:
        incidents = (
            incident if incident.snapshot else replace(incident, snapshot=number)
            for incident in table.incidents
        )
        contracts.append(replace(table, incidents=tuple(incidents)))
    return replace(snapshot, contracts=tuple(contracts))
