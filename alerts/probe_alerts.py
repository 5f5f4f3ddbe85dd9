"""Alerts about probe sets: matched pairs of synthetic requests to the router in production."""

from __future__ import annotations

from alerts import catalogue, probe_runbooks, probe_texts, texts
from alerts.alert import About, Alert, Severity
from alerts.catalogue import Family
from alerts.promql import PROBE_SET
from monitor.settings import Alerting

_BY = "job, probe_set"
_DAY = "1d"
_ENOUGH = 10
"""Comparisons within a day; a share of fewer says nothing, as where a set was sent in part."""
_INCOMPLETE = 0.1
_OVERDUE = 1.5
"""Cadences: one round may be late, or its last answers; a second one would have been due."""
_ROUND_KEEP = 120
"""Minutes: a set that is sent daily has none of its comparisons within the day, between the end of
that day and the next round."""


def probes(alerting: Alerting) -> tuple[Alert, ...]:
    """All of them, the loudest first."""
    return (_flips(alerting), _flip_rate(alerting), _overdue(), _incomplete(), _unsigned())


def _flips(alerting: Alerting) -> Alert:
    return Alert(
        name="SlicewatchProbeFlips",
        severity=Severity.PAGE,
        about=About.PROBES,
        expr=f"max by ({_BY}, direction) ({catalogue.PROBE_PAGING.name}) == 1",
        summary="Matched pairs part: probe set {{ $labels.probe_set }}, variants are"
        f" {probe_texts.WAY} than their reference",
        description="A sequential test has found that variants of one synthetic request take"
        " another route than their reference does: in probe set {{ $labels.probe_set }} they are"
        f" {probe_texts.WAY}, by more pairs than chance explains.{probe_texts.SINCE}"
        f"{probe_texts.NOW}{probe_texts.THIS_WAY}{probe_texts.DIGEST}{probe_texts.A_CASE}",
        runbook=probe_runbooks.FLIPS,
        keep=15,
        held=PROBE_SET,
        latched=True,
        links=_links(alerting, catalogue.PROBE_FLIPPING),
    )


def _flip_rate(alerting: Alerting) -> Alert:
    compared = _within_a_day(catalogue.PROBE_PAIRS)
    flips = _within_a_day(catalogue.PROBE_FLIPS, f"{_BY}, variant, direction, stage")
    limit = f"max by ({_BY}) ({catalogue.PROBE_MAX_FLIP.name})"
    return Alert(
        name="SlicewatchPairFlipRate",
        severity=Severity.TICKET,
        about=About.PROBES,
        expr=f"(\n  sum by ({_BY}) ({flips})\n  /\n  ({compared} >= {_ENOUGH})\n)\n"
        f"> on ({_BY}) {limit}",
        summary="Many matched pairs part: probe set {{ $labels.probe_set }}",
        description="In {{ $value | humanizePercentage }} of the comparisons of the last day a"
        f" variant took another route than its reference.{probe_texts.ALLOWED}"
        f"{probe_texts.NOW}{probe_texts.A_CASE}",
        runbook=probe_runbooks.FLIP_RATE,
        wait=15,
        keep=_ROUND_KEEP,
        held=PROBE_SET,
        links=_links(alerting, catalogue.PROBE_FLIPS),
    )


def _overdue() -> Alert:
    # Event time: a stream that is behind, or simulated, has its own now.
    now = f"max by (job) ({catalogue.WATERMARK.name})"
    return Alert(
        name="SlicewatchProbesOverdue",
        severity=Severity.TICKET,
        about=About.PROBES,
        expr=f"(\n  {now}\n  - on (job) group_right ()\n"
        f"  max by ({_BY}) ({catalogue.PROBE_COVERED.name})\n)\n"
        f"> on ({_BY}) {_OVERDUE:g} * max by ({_BY}) ({catalogue.PROBE_CADENCE.name})",
        summary="Probe set {{ $labels.probe_set }} is overdue",
        description="For {{ $value | humanizeDuration }} not every pair of the set has been"
        " compared. A router that treats matched requests differently since then is not noticed."
        f"{probe_texts.CADENCE}{probe_texts.DIGEST}",
        runbook=probe_runbooks.OVERDUE,
        wait=15,
        keep=15,
        held=PROBE_SET,
    )


def _incomplete() -> Alert:
    left, compared = map(_within_a_day, (catalogue.PROBE_INCOMPLETE, catalogue.PROBE_PAIRS))
    return Alert(
        name="SlicewatchProbesIncomplete",
        severity=Severity.TICKET,
        about=About.PROBES,
        expr=f"(\n  {left}\n  /\n  ({left} + {compared} >= {_ENOUGH})\n) > {_INCOMPLETE:g}",
        summary="Pairs of probe set {{ $labels.probe_set }} come in part",
        description="{{ $value | humanizePercentage }} of what could have been compared within the"
        " last day was not: of a pair some variants came, and others not in time. Nothing is known"
        " of these pairs.",
        runbook=probe_runbooks.INCOMPLETE,
        wait=15,
        keep=_ROUND_KEEP,
        held=PROBE_SET,
    )


def _unsigned() -> Alert:
    return Alert(
        name="SlicewatchProbesUnsigned",
        severity=Severity.TICKET,
        about=About.PIPELINE,
        expr=f"sum by (job) (increase({catalogue.PROBES_UNSIGNED.name}[{_DAY}])) > 0",
        summary="Decisions call themselves probes, and are not signed",
        description="Decisions with traffic `probe` came without a valid signature. They count as"
        " production: test requests distort its rates, or somebody tries to hide requests from"
        " them.",
        runbook=probe_runbooks.UNSIGNED,
        wait=15,
    )


def _within_a_day(family: Family, by: str = _BY) -> str:
    """The increase of a counter, the most of what replicas show."""
    return f"max by ({by}) (increase({family.name}[{_DAY}]))"


def _links(alerting: Alerting, shown: Family) -> dict[str, str]:
    url = texts.dashboard(alerting.dashboard_url, "set", shown)
    return {"dashboard_url": url}
