"""Alerts about the monitor itself: a monitor that is blind must not look like one that is calm."""

from __future__ import annotations

from alerts import catalogue, runbook_texts, texts
from alerts.alert import About, Alert, Severity
from alerts.promql import CONTRACT
from monitor.core.blindness import Blind
from monitor.core.time import SECOND
from monitor.settings import Settings

_STALE_SECONDS = 300
_EXPIRES_SOON, _EXPIRES_NOW = 14 * 86_400, 86_400
_STALE_CYCLES = 3
"""One slow cycle is none too few, three missed ones are."""


def monitor(settings: Settings) -> tuple[Alert, ...]:
    """All of them, the loudest first."""
    job = settings.alerting.job
    return (
        *(*_gone(job), *_blind(), _evaluation_stale(settings), _store_failing()),
        *(*_certificates(), _retention_refused(), _target_down(job), _review(), _watchdog()),
    )


def _gone(job: str) -> tuple[Alert, ...]:
    return (
        Alert(
            name="SlicewatchDown",
            severity=Severity.PAGE,
            about=About.MONITOR,
            expr=f'max by (job) (up{{job="{job}"}}) == 0',
            summary="No process of {{ $labels.job }} answers",
            description="Prometheus reaches none of the targets of job {{ $labels.job }}. Nothing"
            " is known of any slice; breaches that stood are taken to stand.",
            runbook=runbook_texts.DOWN,
            wait=2,
            keep=5,
        ),
        Alert(
            name="SlicewatchAbsent",
            severity=Severity.PAGE,
            about=About.MONITOR,
            expr=f'absent(up{{job="{job}"}})',
            summary="Prometheus has no target of {{ $labels.job }}",
            description="There is no scrape job, or it finds nothing: not even that the service is"
            " down can be seen. Breaches that stood are taken to stand.",
            runbook=runbook_texts.ABSENT,
            wait=2,
            keep=5,
        ),
    )


def _blind() -> tuple[Alert, ...]:
    blind, silent = catalogue.BLIND.name, Blind.LABELS_SILENT.value
    return (
        Alert(
            name="SlicewatchBlind",
            severity=Severity.PAGE,
            about=About.MONITOR,
            expr=f'max by (job, reason) ({blind}{{reason!="{silent}"}}) == 1',
            summary="{{ $labels.job }} does not see what the router does: {{ $labels.reason }}",
            description='{{ if eq $labels.reason "no_worker" }}There are partitions that no worker'
            " has read for over a minute: their decisions and labels are not counted."
            '{{ else if eq $labels.reason "not_stored" }}For over a minute the database has'
            " not taken what is read."
            '{{ else if eq $labels.reason "behind" }}One partition of decisions is over a quarter'
            " of an hour behind the others, and all windows wait for it.{{ else }}No decision"
            " comes, although many usually do at this time of the week: the router, or what sends"
            " its decisions, has stopped.{{ end }} No breach that begins now is found. The body of"
            " /readyz and `slicewatch db status` say which partitions.",
            runbook=runbook_texts.BLIND,
            wait=5,
            keep=5,
        ),
        Alert(
            name="SlicewatchLabelsSilent",
            severity=Severity.PAGE,
            about=About.MONITOR,
            expr=f'max by (job) ({blind}{{reason="{silent}"}}) == 1',
            summary="Hardly any label has come to {{ $labels.job }} for a day or longer",
            description="In the same hours of the weeks before as many came as on an average day,"
            " or more. The windows of TPR and FPR stand still, and no breach of them can be found."
            " The body of /readyz and `slicewatch db status` say since when.",
            runbook=runbook_texts.LABELS_SILENT,
            wait=15,
            keep=15,
        ),
    )


def _store_failing() -> Alert:
    failures = catalogue.STORE_FAILURES.name
    return Alert(
        name="SlicewatchStoreFailing",
        severity=Severity.PAGE,
        about=About.MONITOR,
        expr=f"max by (job, instance) (increase({failures}[3m])) > 0",
        summary="{{ $labels.instance }} cannot write to its database",
        description="Transactions have failed for minutes, and are tried again. Nothing is lost:"
        " what was read is kept, and no more is read. But nothing new is counted or evaluated.",
        runbook=runbook_texts.STORE_FAILING,
        wait=5,
        keep=5,
    )


def _certificates() -> tuple[Alert, ...]:
    left = f"min by (job, certificate) ({catalogue.CERTIFICATE_EXPIRES.name}) - time()"
    whose = (
        "certificate {{ $labels.certificate }} of {{ $labels.job }}{{ if lt $value 0.0 }} has"
        " expired{{ else }} expires in {{ $value | humanizeDuration }}{{ end }}"
    )
    return (
        Alert(
            name="SlicewatchCertificateExpired",
            severity=Severity.PAGE,
            about=About.MONITOR,
            expr=f"{left} < {_EXPIRES_NOW}",
            summary=f"The {whose}",
            description="From then on nobody connects by it: Prometheus does not reach the service"
            " (server, operations), readers are turned away (client_ca), or no event is read"
            " (kafka_ca, kafka_client).",
            runbook=runbook_texts.CERTIFICATE,
            wait=5,
            keep=15,
        ),
        Alert(
            name="SlicewatchCertificateExpiring",
            severity=Severity.TICKET,
            about=About.MONITOR,
            expr=f"{left} < {_EXPIRES_SOON}",
            summary=f"The {whose}",
            description="It pages a day before. A new file is read at the next start.",
            runbook=runbook_texts.CERTIFICATE,
            wait=15,
            keep=15,
        ),
    )


def _retention_refused() -> Alert:
    return Alert(
        name="SlicewatchRetentionRefused",
        severity=Severity.TICKET,
        about=About.MONITOR,
        expr=f"max by (job) ({catalogue.RETENTION_REFUSED.name}) == 1",
        summary="Retention of {{ $labels.job }} would delete most of what is kept",
        description="It has deleted nothing and waits for a person. Either a clock is wrong, or the"
        " service was away for long.",
        runbook=runbook_texts.RETENTION_REFUSED,
        wait=5,
        keep=15,
    )


def _evaluation_stale(settings: Settings) -> Alert:
    cycles = settings.evaluate.cycle * _STALE_CYCLES // SECOND
    job = f'job="{settings.alerting.job}"'
    return Alert(
        name="SlicewatchEvaluationStale",
        severity=Severity.PAGE,
        about=About.MONITOR,
        expr=f"time() - max by (job) ({catalogue.EVALUATED.name}{{{job}}})"
        f" > {max(_STALE_SECONDS, cycles)}\n"
        "or\n"
        f"absent({catalogue.STATE.name}{{{job}}})",
        summary="Nothing is evaluated in {{ $labels.job }}",
        description="The last evaluation is long ago, or no slice is shown at all. What is shown"
        " is old; breaches that stood are taken to stand, and new ones are not found.",
        runbook=runbook_texts.EVALUATION_STALE,
        wait=10,
        keep=5,
    )


def _target_down(job: str) -> Alert:
    up = f'up{{job="{job}"}}'
    return Alert(
        name="SlicewatchTargetDown",
        severity=Severity.TICKET,
        about=About.MONITOR,
        expr=f"max by (job, instance) ({up}) == 0\nand on (job) max by (job) ({up}) == 1",
        summary="{{ $labels.instance }} does not answer",
        description="Other processes of {{ $labels.job }} do. Its partitions and its part in"
        " evaluating are taken over; a second loss may not be.",
        runbook=runbook_texts.TARGET_DOWN,
        wait=10,
        keep=5,
    )


def _review() -> Alert:
    return Alert(
        name="SlicewatchReviewOverdue",
        severity=Severity.TICKET,
        about=About.MONITOR,
        expr=f"time() - max by (job, contract) ({catalogue.REVIEW_DUE.name}) > 0",
        summary="Contract {{ $labels.contract }} has not been looked at as agreed",
        description="Its review was due {{ $value | humanizeDuration }} ago, by effective and"
        f" review_cadence of the settings.{texts.OWNER}{texts.SYNTHETIC}",
        runbook=runbook_texts.REVIEW_OVERDUE,
        wait=60,
        keep=15,
        held=CONTRACT,
    )


def _watchdog() -> Alert:
    return Alert(
        name="SlicewatchWatchdog",
        severity=Severity.NONE,
        about=About.MONITOR,
        expr="vector(1)",
        summary="A sign of life",
        description="Always firing. Whoever receives it calls for help when it stops: then"
        " Prometheus, Alertmanager or the way from them is gone, and no alert comes through.",
        runbook=runbook_texts.WATCHDOG,
    )
