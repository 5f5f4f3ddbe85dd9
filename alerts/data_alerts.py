"""Alerts about labels, and about the way from the topics to the store."""

from __future__ import annotations

from alerts import catalogue, runbook_texts, texts
from alerts.alert import About, Alert, Severity
from alerts.promql import CONTRACT, found_lately
from monitor.core.time import SECOND
from monitor.ports import ConsumerState
from monitor.settings import Settings

_LAG_SECONDS = 900
"""A quarter of an hour: ninety evaluator cycles, and far below what any window notices."""
_DUPLICATES = 0.001
"""Review is de-duplicated by what is pending, most of auto_serve is not: more distorts rates."""
_COPIES_RANGE = "1d"
"""None are to be counted again: one day's silence is needed before it is taken as repaired."""
_AHEAD_SECONDS = 60
"""Clocks that are kept differ by far less; shown in whole minutes, so that one is no more."""
_DEAD_LETTERS = 0.01
_JOINED_RANGE = "14d"
"""The age of the last label must survive restarts, after which no label has met its decision."""


def labels(settings: Settings) -> tuple[Alert, ...]:
    """What the rates rest on."""
    return (
        *(_sampling(), _stale(settings), _completeness(settings)),
        *(_duplicates(), _counted_again()),
    )


def _sampling() -> Alert:
    return Alert(
        name="SlicewatchSamplingBroken",
        severity=Severity.TICKET,
        about=About.LABELS,
        expr=found_lately(
            "job, contract, route, audit_rate, fault", catalogue.REQUEST_FAULT_AT.name
        ),
        summary="Labels are not asked for as the router says: contract {{ $labels.contract }}",
        description='Of decisions with route {{ $labels.route }} and audit_p'
        ' {{ $labels.audit_rate }}, {{ if eq $labels.fault "too_few" }}too few{{ else }}too many'
        "{{ end }} have label_requested. The labelled rates of contract {{ $labels.contract }}"
        f" rest on a sample that is not what it claims to be.{texts.OWNER}{texts.SYNTHETIC}",
        runbook=runbook_texts.SAMPLING_BROKEN,
        wait=15,
        keep=15,
        held=CONTRACT,
    )  # fmt: skip


def _stale(settings: Settings) -> Alert:
    joined = f"max_over_time({catalogue.LABEL_JOINED.name}[{_JOINED_RANGE}])"
    seconds = settings.alerting.labels_stale // SECOND
    return Alert(
        name="SlicewatchLabelsStale",
        severity=Severity.TICKET,
        about=About.LABELS,
        expr=f"time() - max by (job) ({joined}) > {seconds}",
        summary="No label has met its decision for {{ $value | humanizeDuration }}",
        description="Labels do not come, or do not find their decisions. The windows of TPR and"
        " FPR stand still, and no breach of them can be found.",
        runbook=runbook_texts.LABELS_STALE,
        wait=15,
        keep=15,
    )


def _completeness(settings: Settings) -> Alert:
    total = f'{catalogue.COMPLETENESS.name}{{group_by="", slice=""}}'
    return Alert(
        name="SlicewatchCompletenessLow",
        severity=Severity.TICKET,
        about=About.LABELS,
        expr=f"min by (job, contract) (\n"
        f"  {total} and on (job, contract, window) {catalogue.STATE.name}\n"
        f") < {float(settings.evaluate.completeness):g}",
        summary="Labels that were asked for are missing: contract {{ $labels.contract }}",
        description="{{ $value | humanizePercentage }} of the labels that were asked for have come,"
        " in the worst route and audit rate. Below the share at which a cohort counts as complete"
        f" the labelled rates are maturing, and nothing is decided on them.{texts.OWNER}"
        f"{texts.SYNTHETIC}",
        runbook=runbook_texts.COMPLETENESS_LOW,
        wait=60,
        keep=15,
        held=CONTRACT,
    )


def _duplicates() -> Alert:
    return Alert(
        name="SlicewatchDuplicates",
        severity=Severity.TICKET,
        about=About.LABELS,
        expr=f"max by (job, route) ({catalogue.DUPLICATES.name}) > {_DUPLICATES:g}",
        summary="Decisions come more than once: route {{ $labels.route }}",
        description="{{ $value | humanizePercentage }} of the decisions with a label requested"
        " repeat an id. Copies in the same partition within dedupe.window are left out of the"
        " counts; SlicewatchDuplicatesCounted fires for the others.",
        runbook=runbook_texts.DUPLICATES,
        wait=60,
        keep=15,
    )


def _counted_again() -> Alert:
    total = f"increase({catalogue.COUNTED_AGAIN.name}[{_COPIES_RANGE}])"
    return Alert(
        name="SlicewatchDuplicatesCounted",
        severity=Severity.TICKET,
        about=About.LABELS,
        expr=f"sum by (job, topic, kind) ({total}) > 0",
        summary="Copies of decisions were counted again: {{ $labels.topic }}, {{ $labels.kind }}",
        description='{{ if eq $labels.kind "cross_partition" }}Copies came in another partition'
        " than the decision itself: the producer does not key its messages by decision_id."
        "{{ else }}Copies came in the partition of the decision itself, later than dedupe.window"
        " or with another decided_at: something was replayed.{{ end }} Each of them counts as one"
        " more decision and distorts the rates of its slices. Only copies of"
        " decisions that labels can find are seen; of all others as large a share is counted again"
        " unseen.",
        runbook=runbook_texts.DUPLICATES_COUNTED,
        wait=15,
        keep=15,
    )


def pipeline() -> tuple[Alert, ...]:
    """From the topics to the store."""
    return (
        *(*_consumer(), _ahead(), *_losses()),
        *(_dead_letters(), _cardinality(), _conservation()),
    )


def _consumer() -> tuple[Alert, ...]:
    stuck = f'{catalogue.CONSUMER_STATE.name}{{state="{ConsumerState.STUCK.value}"}}'
    return (
        Alert(
            name="SlicewatchConsumerStuck",
            severity=Severity.PAGE,
            about=About.PIPELINE,
            expr=f"max by (job, instance) ({stuck}) == 1",
            summary="{{ $labels.instance }} makes no progress",
            description="The consumer of {{ $labels.instance }} has no broker, or reads nothing"
            " although there is something to read. What it owns is not counted.",
            runbook=runbook_texts.CONSUMER_STUCK,
            wait=5,
            keep=5,
        ),
        Alert(
            name="SlicewatchConsumerLag",
            severity=Severity.TICKET,
            about=About.PIPELINE,
            expr=f"max by (job, topic, partition) ({catalogue.LAG_SECONDS.name}) > {_LAG_SECONDS}",
            summary="{{ $labels.topic }} partition {{ $labels.partition }} is read late",
            description="The oldest unread message is {{ $value | humanizeDuration }} old. The"
            " watermark waits for the slowest partition, and all windows with it.",
            runbook=runbook_texts.CONSUMER_LAG,
            wait=15,
            keep=15,
        ),
    )


def _ahead() -> Alert:
    return Alert(
        name="SlicewatchEventsAhead",
        severity=Severity.TICKET,
        about=About.PIPELINE,
        expr=f"max by (job, topic, partition) ({catalogue.EVENTS_AHEAD.name}) > {_AHEAD_SECONDS}",
        summary="Events of {{ $labels.topic }} partition {{ $labels.partition }} are dated ahead",
        description="They are dated up to {{ $value | humanizeDuration }} ahead of the clock of the"
        " worker that reads them: the clock of a producer is fast, or that of the worker is slow."
        " They are counted, each in the hour it names, and no window is moved by them.",
        runbook=runbook_texts.EVENTS_AHEAD,
        wait=5,
        keep=15,
    )


def _losses() -> tuple[Alert, ...]:
    return (
        Alert(
            name="SlicewatchDataLoss",
            severity=Severity.PAGE,
            about=About.PIPELINE,
            expr=f"max by (job, topic, partition) ({catalogue.PARKED.name}) == 1",
            summary="Data is gone: {{ $labels.topic }} partition {{ $labels.partition }} is parked",
            description="The broker has not the offset that comes next: the topic was cut off,"
            " wiped or made again. The partition waits for a person, and the watermark with it.",
            runbook=runbook_texts.DATA_LOSS,
            wait=5,
            keep=15,
        ),
        Alert(
            name="SlicewatchWindowDataLost",
            severity=Severity.INFO,
            about=About.PIPELINE,
            expr=f"max by (job, contract, window) ({catalogue.DATA_LOST.name}) == 1",
            summary="The {{ $labels.window }} window of contract {{ $labels.contract }} lacks data",
            description="Events of this window were lost before they could be read, or may have"
            " been. Its rates are of what is left.",
            runbook=runbook_texts.WINDOW_DATA_LOST,
            wait=15,
        ),
    )


def _dead_letters() -> Alert:
    def grown(which: str) -> str:
        return f"sum by (job, topic) (increase({catalogue.EVENTS.name}{which}[1h]))"

    return Alert(
        name="SlicewatchDeadLetters",
        severity=Severity.TICKET,
        about=About.PIPELINE,
        expr="{dead}\n/\n({all} > 0)\n> {share:g}".format(
            dead=grown('{outcome="dead_letter"}'), all=grown(""), share=_DEAD_LETTERS
        ),
        summary="Events of {{ $labels.topic }} cannot be read",
        description="{{ $value | humanizePercentage }} of the events of the last hour are dead"
        " letters: not counted anywhere.",
        runbook=runbook_texts.DEAD_LETTERS,
        wait=15,
        keep=15,
    )


def _cardinality() -> Alert:
    return Alert(
        name="SlicewatchCardinalityLimited",
        severity=Severity.TICKET,
        about=About.PIPELINE,
        expr=f"max by (job, limit) ({catalogue.LIMITED.name}) == 1",
        summary="A limit on what is distinct is reached: {{ $labels.limit }}",
        description='{{ if eq $labels.limit "series" }}The page would have more series than'
        ' max_series, and whole families are left out.{{ else if eq $labels.limit "versions" }}'
        "There are more version tuples than max_versions; the others are counted as __other__."
        "{{ else }}An attribute has had very many values today that are not on its allow-list;"
        " they are counted as __other__.{{ end }}",
        runbook=runbook_texts.CARDINALITY_LIMITED,
        wait=10,
        keep=15,
    )


def _conservation() -> Alert:
    return Alert(
        name="SlicewatchConservationBroken",
        severity=Severity.TICKET,
        about=About.PIPELINE,
        expr=f"max by (job, topic, partition, equation) (abs({catalogue.IMBALANCE.name})) > 0",
        summary="Counting does not add up: {{ $labels.topic }} partition {{ $labels.partition }}",
        description='{{ if eq $labels.equation "offsets" }}Messages{{ else }}Events{{ end }} that'
        " were read ended nowhere. That is a bug of slicewatch: the counts of this partition are"
        " not to be relied on.",
        runbook=runbook_texts.CONSERVATION_BROKEN,
        wait=15,
        keep=15,
    )
