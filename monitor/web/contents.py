"""Contents of the pages, and answers of the API: plain values, each said once.

Numbers come from a Snapshot; None is withheld or coded. All times are in UTC. The OpenAPI document
shows the docstrings of these classes as descriptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.core.metric import Metric
from monitor.core.publish.conditions import StandingCondition
from monitor.core.publish.headlines import Headline
from monitor.core.publish.history import HistoryPoint, SliceKey
from monitor.core.publish.incident_reports import IncidentReport
from monitor.core.publish.limitations import Limitation
from monitor.core.publish.lines import SliceLine
from monitor.core.publish.pipeline import Pipeline
from monitor.core.publish.side_by_side import VersionPair
from monitor.core.publish.snapshot import ShownAgreement, ShownRate
from monitor.reports.as_json import SignatureLine


@dataclass(frozen=True, slots=True)
class ContractContent:
    """Contract on the overview: verdict, total and slices, worst first, unknown ones last.

    Attributes:
        contract: name.
        version: of the contract.
        owner: who answers for it.
        synthetic: declared test conditions.
        k: smallest number of decisions or labels that is shown.
        max_age_seconds: age from which on nothing is within the contract any more; None: no limit.
        window: the window that is shown.
        verdict_window: the window that the contract is decided on.
        windows: all that it has.
        metrics: those that it limits, the primary one first.
        verdict: on all of its checks.
        notes: what has to be known to read the numbers.
        total: all decisions together.
        counts: number of slices by class, one of SLICE_CLASSES.
        group_bys: names of its group-bys.
        slices: the ranked slices of all group-bys, or those that the view looks for.
        versions: those of them that are versions of the router, each beside its reference.
    """

    contract: str
    version: str
    owner: str
    synthetic: bool
    k: int
    max_age_seconds: float | None
    window: str
    verdict_window: str
    windows: tuple[str, ...]
    metrics: tuple[Metric, ...]
    verdict: Headline
    notes: tuple[str, ...]
    total: SliceLine
    counts: dict[str, int]
    group_bys: tuple[str, ...]
    slices: tuple[SliceLine, ...]
    versions: tuple[VersionPair, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """Time of a view: number of its Snapshot, watermark, label frontier and age.

    Attributes:
        snapshot: number of the stored Snapshot.
        as_of: its watermark: event time to which decisions are complete; None at first.
        labels_to: event time to which labels are complete; None at first.
        newest: whether it is the newest one.
        age_seconds: seconds from ``as_of`` to now; None at first.
    """

    snapshot: int
    as_of: datetime | None
    labels_to: datetime | None
    newest: bool
    age_seconds: float | None


@dataclass(frozen=True, slots=True)
class StandingIncident:
    """Open incident as a Snapshot shows it, for the overview and slice pages.

    Attributes:
        id: of the incident.
        contract: name.
        metric: of its streams.
        kind: a breach, or on the weekly list.
        severity: page or ticket: what its alert is sent as.
        slice: slice text, or ``withheld``; empty for all decisions.
        since: event time.
        acknowledged: whether somebody has said to look after it.
        accepted_until: wall clock until which it is accepted; None where it is not.
        sentence: what happened, to whom.
    """

    id: int
    contract: str
    metric: Metric
    kind: str
    severity: str
    slice: str
    since: datetime
    acknowledged: bool
    accepted_until: datetime | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Beginning:
    """Content of the overview before anything is published: what arrived, what is waited for.

    Attributes:
        arrived: what has come so far, in words.
        waits_for: what has to come, and until when, in words.
        slices_from: when the first table comes at the earliest.
    """

    arrived: str
    waits_for: str
    slices_from: datetime


@dataclass(frozen=True, slots=True)
class Overview:
    """Content of the overview page: verdict, incidents, contracts, pipeline and limitations.

    Attributes:
        moment: what it is of; None before anything is published.
        beginning: what it waits for; None once something is published.
        verdict: on everything.
        blind: why the service does not see; empty while it does.
        conditions: those that need attention now, as far as this process can tell.
        outdated: what is shown is older than a contract allows, or the service is blind: no state
            says that anything is well now.
        incidents: those that are not over.
        contracts: one each.
        pipeline: the way from the broker.
        limitations: the register of known limitations.
    """

    moment: Moment | None
    beginning: Beginning | None
    verdict: Headline
    blind: tuple[str, ...]
    conditions: tuple[StandingCondition, ...]
    outdated: bool
    incidents: tuple[StandingIncident, ...]
    contracts: tuple[ContractContent, ...]
    pipeline: Pipeline
    limitations: tuple[Limitation, ...]


@dataclass(frozen=True, slots=True)
class BandContent:
    """Score band of a slice with its P(ready); the rate is None if too few were labelled."""

    band: str
    rate: ShownRate | None


@dataclass(frozen=True, slots=True)
class Finding:
    """Advisory finding on a slice, for its page; it never raises an alert.

    Attributes:
        what: in plain words.
        metric: of which rate; None of none.
        count: how often since monitoring began.
        latest: end of the day that first showed the last of them.
    """

    what: str
    metric: Metric | None
    count: int
    latest: datetime


@dataclass(frozen=True, slots=True)
class SliceContent:
    """Content of a slice page: all metrics, reference, calibration, history and incidents.

    Attributes:
        moment: what it is of.
        contract: name.
        version: of the contract.
        synthetic: declared test conditions.
        k: smallest number of decisions or labels that is shown.
        window: the window that is shown.
        windows: all that the contract has.
        metric: the one that the history is of.
        line: its numbers.
        reference: slice text of the reference, or ``complement``; None where there is none.
        calibration: by score band.
        agreement: of two reviewers; None where too few decisions have two labels.
        router_agreement: kappa of the router with its reviewers; None where a rate has no point.
        findings: advisory ones.
        notes: what has to be known to read the numbers.
        history: what was published, by day.
        incidents: those of this slice that are not over.
        past: the incidents of this slice and ``metric`` among the newest ones, over or not.
    """

    moment: Moment
    contract: str
    version: str
    synthetic: bool
    k: int
    window: str
    windows: tuple[str, ...]
    metric: Metric
    line: SliceLine
    reference: str | None
    calibration: tuple[BandContent, ...]
    agreement: ShownAgreement | None
    router_agreement: float | None
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    history: tuple[HistoryPoint, ...]
    incidents: tuple[StandingIncident, ...]
    past: tuple[IncidentReport, ...]


@dataclass(frozen=True, slots=True)
class IncidentList:
    """List of the newest incidents, newest first; ``more`` is True if older ones are left out."""

    incidents: tuple[IncidentReport, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class ReportLine:
    """Weekly report in the list of reports, by the newest revision of its Release.

    Attributes:
        week: ISO week, as in ``2026-W47``.
        revision: number of the newest revision.
        revisions: numbers of all that are kept, ascending.
        as_of: event time up to which decisions were complete when it was made.
        decision: APPROVED, BLOCKED or UNDECIDED.
        verdict: the reason for it.
        digest: SHA-256 of the bytes of the Release, in hexadecimal.
        signatures: of the week, and whether each is of this revision.
    """

    week: str
    revision: int
    revisions: tuple[int, ...]
    as_of: datetime
    decision: str
    verdict: str
    digest: str
    signatures: tuple[SignatureLine, ...]


@dataclass(frozen=True, slots=True)
class ReportList:
    """List of weekly reports, newest first; ``more`` is True if older ones are left out."""

    reports: tuple[ReportLine, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class HistoryContent(SliceKey):
    """Published figures of one slice and metric, a point per day, for the API and CSV."""

    points: tuple[HistoryPoint, ...]
