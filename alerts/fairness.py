"""Alerts about contracts, all by the published Snapshot."""

from __future__ import annotations

from alerts import catalogue, runbook_texts, texts
from alerts.alert import About, Alert, Severity
from alerts.catalogue import Family
from alerts.promql import CONTRACT, found_lately
from monitor.core.contract import Metric, State
from monitor.core.publish.annotations import Annotation
from monitor.settings import Alerting

WORDS = {Metric.TPR: "TPR", Metric.FPR: "FPR", Metric.BLOCKED: "blocked rate"}
"""The metrics that a contract can limit, as people read them."""

INCIDENT = "job, contract, metric, incident"
_SLICE = "job, contract, metric, group_by, slice"
_ABOUT_INCIDENT = (
    f"{texts.SINCE}{texts.SHARE}{texts.INHERITED}{texts.FIRST}{texts.LATEST}{texts.ALLOWED}"
    f"{texts.STAGE}{texts.CHANGES}{texts.SAMPLING}{texts.RESOLVABLE}{texts.OWNER}{texts.SYNTHETIC}"
    f"{texts.NOT_ABOUT_PEOPLE}"
)
_WITHOUT_EVIDENCE = "|".join((State.SUPPRESSED, State.INSUFFICIENT_SUPPORT, State.MATURING))
_UNDECIDED = "|".join((State.SUPPRESSED, State.INSUFFICIENT_SUPPORT))


def fairness(alerting: Alerting) -> tuple[Alert, ...]:
    """All of them, the loudest first."""
    breaches = tuple(breach(metric, words, alerting) for metric, words in WORDS.items())
    return (*breaches, _ticket(alerting), _evidence_lost(alerting), *_advice(alerting))


def breach(metric: Metric, words: str, alerting: Alerting) -> Alert:
    """The page of one metric: the latch of the sequential test, whatever it is about."""
    chosen = f'{catalogue.PAGING.name}{{metric="{metric.value}"}}'
    return Alert(
        name=f"Slicewatch{metric.value.title()}Breach",
        severity=Severity.PAGE,
        about=About.FAIRNESS,
        expr=f"max by ({INCIDENT}) ({chosen}) == 1",
        summary=f"Disparity in routing: {words} in contract {{{{ $labels.contract }}}},"
        f" {texts.SLICE}",
        description=f"The {words} is beyond what contract {{{{ $labels.contract }}}} allows"
        f" (incident {{{{ $labels.incident }}}}): {texts.SLICE}.{_ABOUT_INCIDENT}",
        runbook=runbook_texts.BREACH,
        keep=15,
        held=CONTRACT,
        latched=True,
        links=_incident_links(alerting),
    )


def _ticket(alerting: Alerting) -> Alert:
    return Alert(
        name="SlicewatchGapTicket",
        severity=Severity.TICKET,
        about=About.FAIRNESS,
        expr=f"max by ({INCIDENT}) ({catalogue.TICKET.name}) == 1",
        summary="On the weekly list of disparities in routing:"
        f" {texts.METRIC} in contract {{{{ $labels.contract }}}}, {texts.SLICE}",
        description=f"The {texts.METRIC} is on this week's list for contract"
        " {{ $labels.contract }}"
        f" (incident {{{{ $labels.incident }}}}): {texts.SLICE}. Of all that is on such lists,"
        " at most one in ten is expected to be wrong."
        f"{_ABOUT_INCIDENT}",
        runbook=runbook_texts.GAP_TICKET,
        wait=30,
        keep=15,
        held=CONTRACT,
        links=_incident_links(alerting),
    )


def _evidence_lost(alerting: Alerting) -> Alert:
    info = catalogue.INCIDENT_INFO.name
    state = f'{catalogue.STATE.name}{{state=~"{_WITHOUT_EVIDENCE}"}}'
    return Alert(
        name="SlicewatchEvidenceLost",
        severity=Severity.TICKET,
        about=About.FAIRNESS,
        expr=f"max by ({INCIDENT}) ({catalogue.PAGING.name}) == 1\n"
        f"and on ({INCIDENT}) (\n"
        f'  {info}{{slice="withheld"}}\n'
        "  or\n"
        f"  max by ({INCIDENT}, group_by, slice) ({info})\n"
        f"  * on ({_SLICE}) group_left ()\n"
        f"  (max by ({_SLICE}) ({state}) == 1)\n"
        ")",
        summary=f"No evidence on a breach that stands: {texts.METRIC} in contract"
        " {{ $labels.contract }}",
        description=f"Incident {{{{ $labels.incident }}}} stands ({texts.SLICE}), but its slice"
        " has not the support, or not the labels, to say how it fares now. This is not a recovery:"
        f" nothing resolves it until there is evidence.{texts.LATEST}{texts.OWNER}"
        f"{texts.SYNTHETIC}{texts.NOT_ABOUT_PEOPLE}",
        runbook=runbook_texts.EVIDENCE_LOST,
        wait=60,
        keep=15,
        held=CONTRACT,
        links=_incident_links(alerting),
    )


def _advice(alerting: Alerting) -> tuple[Alert, ...]:
    return (_drift(alerting), _insufficient_support(alerting))


def _drift(alerting: Alerting) -> Alert:
    found = f'{catalogue.FOUND_AT.name}{{finding="{Annotation.DRIFT.value}"}}'
    slices = texts.lookup(
        catalogue.FOUND_AT,
        "metric",
        f"\nFound in:{texts.SLICES}, the older findings among them.",
        by="slice",
        more=f',finding="{Annotation.DRIFT.value}"',
    )
    return Alert(
        name="SlicewatchDrift",
        severity=Severity.TICKET,
        about=About.FAIRNESS,
        expr=found_lately("job, contract, metric", found),
        summary=f"Drift: {texts.METRIC} in contract {{{{ $labels.contract }}}}",
        description=f"The weekly list has a slice whose {texts.METRIC} got worse than it used to"
        f" be, its mix of requests taken into account.{slices}{texts.ALLOWED}{texts.OWNER}"
        f"{texts.SYNTHETIC}{texts.NOT_ABOUT_PEOPLE}",
        runbook=runbook_texts.DRIFT,
        wait=60,
        keep=15,
        held=CONTRACT,
        links={"dashboard_url": texts.dashboard(alerting.dashboard_url)},
    )


def _insufficient_support(alerting: Alerting) -> Alert:
    by = "job, contract, metric"

    def slices(states: str) -> str:
        chosen = f'{catalogue.STATE.name}{{group_by!="", state=~"{states}"}}'
        return f"max by ({_SLICE}) ({chosen})"

    limits = (catalogue.MAX_GAP, catalogue.MIN_LEVEL, catalogue.MAX_LEVEL)
    limited = " or ".join(_per_limit(family) for family in limits)
    return Alert(
        name="SlicewatchInsufficientSupport",
        severity=Severity.INFO,
        about=About.FAIRNESS,
        expr=f"(\n  count by ({by}) ({slices(_UNDECIDED)} == 1)\n  /\n"
        f"  (count by ({by}) ({slices(_UNDECIDED)}) > 0)\n)\n"
        f"and on ({by}) ({limited})",
        summary=f"Not decided for lack of support: {texts.METRIC} in contract"
        " {{ $labels.contract }}",
        description="The contract cannot be decided for {{ $value | humanizePercentage }} of the"
        f" slices: their {texts.METRIC} rests on too little. That is an answer, and never a pass."
        f"{texts.OWNER}{texts.SYNTHETIC}",
        runbook=runbook_texts.INSUFFICIENT_SUPPORT,
        wait=24 * 60,
        links={"dashboard_url": texts.dashboard(alerting.dashboard_url)},
    )


def _per_limit(family: Family) -> str:
    return f"max by (job, contract, metric) ({family.name})"


def _incident_links(alerting: Alerting) -> dict[str, str]:
    return {
        "snapshot_url": texts.permalink(alerting.external_url),
        "dashboard_url": texts.dashboard(alerting.dashboard_url),
    }
