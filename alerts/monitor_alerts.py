"""Alerts about the monitor itself: a monitor that is blind must not look like one that is calm."""

from __future__ import annotations

from alerts import catalogue, runbook_texts, texts
from alerts.alert import About, Alert, Severity
from alerts.promql import CONTRACT
from monitor.core.time import SECOND
from monitor.settings import Settings

_STALE_SECONDS = 300
_STALE_CYCLES = 3
"""One slow cycle is none too few, three missed ones are."""


def monitor(settings: Settings) -> tuple[Alert, ...]:
    """All of them, the loudest first."""
    job = settings.alerting.job
    return (*_gone(job), _evaluation_stale(settings), _target_down(job), _review(), _watchdog())


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
