"""Types of ``alerts.yaml`` (``alerts.schema.json`` is generated from them), and its alerts.

Values of an installation's settings are inserted when an alert is read for it.
"""

from __future__ import annotations

import enum
import functools
from importlib import resources
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta, Struct, field

from alerts.declared import Name, PanelName, Part, Text, filled, is_declared
from alerts.rules.conditions import When
from alerts.rules.metric_texts import metric_texts
from alerts.rules.promql import PREFIX, AlertSubject, held_name
from monitor.core.metric import LIMITED, Metric
from monitor.core.time import SECOND
from monitor.settings import Settings

Duration = Annotated[str, Meta(pattern=r"^[1-9]\d*[mhd]$", description="As Prometheus: 15m.")]
AlertName = Annotated[str, Meta(pattern=r"^Slicewatch([A-Z][a-z]+)+$")]
Key = Annotated[
    str,
    Meta(pattern=r"^(Slicewatch([A-Z][a-z]+)+|[a-z][a-z_]*)$", description="A name or condition."),
]
Placeholder = Annotated[str, Meta(pattern=r"^[A-Z_]+$", description="To be filled in by people.")]


class Severity(enum.StrEnum):
    """Urgency of an alert; Alertmanager routes by it."""

    PAGE = "page"  # somebody is woken
    TICKET = "ticket"  # somebody looks at it in office hours
    INFO = "info"  # shown, nobody must act; its end is not sent
    NONE = "none"  # the dead man's switch


class About(enum.StrEnum):
    """Subject of an alert; inhibition goes by it."""

    FAIRNESS = "fairness"  # contracts, by the published Snapshot
    LABELS = "labels"  # the data behind the rates
    PROBES = "probes"  # matched pairs of synthetic requests, by the published Snapshot
    PIPELINE = "pipeline"  # from the topics to the store
    MONITOR = "monitor"  # the service itself, and the duties of those who run it


class Alert(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A case of an alert: its rule, texts, panel and runbook; cases of one name share a runbook.

    Attributes:
        name: CamelCase, with the common prefix.
        condition: its label ``condition``, which tells cases of one name apart.
        only_with: what the settings must have, or the rule is left out.
        by_metric: whether each metric of a contract has a runbook of its own.
        severity: how urgent.
        by_severity: whether its expression has the label severity, so that each of its alerts has
            its own urgency: ``severity``, or less.
        about: subject.
        when: condition that the status page can tell, too.
        expr: PromQL, where there is no such condition. Its labels identify the alert: never a
            slice, a number or a version.
        for_: how long it must be true before the alert fires.
        keep_firing_for: how long the alert goes on firing after it has ceased to be true.
        hold_while_absent: the published series without which the alert keeps its last verdict:
            what cannot be observed has not been repaired.
        latched: whether only an evaluation can start it, never missing data.
        summary: one line; a Go template that sees the labels of ``expr`` alone.
        description: the same in sentences.
        details: names of texts that follow the description, each on its own line if it applies.
        page: address of the page that it is about: its incident, or the weekly report.
        panel: the panel that shows what it is about; it links to the alert's runbook.
        choices: names of texts that choose further variables of that panel's dashboard.
        silence: matchers of the ready-made silence in the runbook, in addition to its key.
    """

    name: AlertName
    condition: Name | None = None
    only_with: Part | None = None
    by_metric: bool = False
    severity: Severity
    by_severity: bool = False
    about: About
    panel: PanelName
    choices: tuple[Name, ...] = ()
    when: When | None = None
    expr: str = ""
    for_: Duration | None = field(default=None, name="for")
    keep_firing_for: Duration | None = None
    hold_while_absent: AlertSubject | None = None
    latched: bool = False
    summary: Text
    description: Text
    details: tuple[Name, ...] = ()
    page: Text | None = None
    silence: dict[Name, Placeholder] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return the name by which inhibitions and silences know it: its condition, or its own."""
        return self.condition or self.name

    @property
    def rule_expr(self) -> str:
        """Return the PromQL of the alert's rule: its own, or the record of its last verdict."""
        return held_name(self.key) if self.hold_while_absent else self.expr

    @property
    def runbooks(self) -> tuple[str, ...]:
        """Return the names of its runbooks: one, or one for each metric."""
        if not self.by_metric:
            return (self.name,)
        return tuple(breach_runbooks().values())


def breach_runbook(metric: str) -> str:
    """Return the name of the runbook for breaches of a metric, which may be a template."""
    return f"SlicewatchBreach-{metric}"


def breach_runbooks() -> dict[Metric, str]:
    """Return the names of the runbooks for breaches, by the metric that a contract limits."""
    return {metric: breach_runbook(metric) for metric in LIMITED}


def matcher(keys: tuple[str, ...]) -> str:
    """Return Alertmanager's matcher of alerts by name, or of cases by condition.

    Example:
        >>> matcher(("labels_stale", "drift"))
        'condition=~"labels_stale|drift"'
    """
    label = "alertname" if keys[0].startswith(PREFIX) else "condition"
    return f'{label}=~"{"|".join(keys)}"'


class Muted(Struct, frozen=True, forbid_unknown_fields=True):
    """Alerts that are not sent: those about some subjects, or those of some keys."""

    about: tuple[About, ...] = ()
    alerts: tuple[Key, ...] = ()

    @property
    def matcher(self) -> str:
        """Return the matcher of the muted alerts, in Alertmanager's syntax."""
        if self.about:
            return f'about=~"{"|".join(self.about)}"'
        return matcher(self.alerts)


class Inhibition(Struct, frozen=True, forbid_unknown_fields=True):
    """Alerts that are not sent while something else fires.

    Attributes:
        while_: names, or conditions, of the alerts that mute.
        mute: what they mute. It must wait longer than them, or it is sent before.
        equal: labels that must have the same values.
    """

    while_: tuple[Key, ...] = field(name="while")
    mute: Muted
    equal: tuple[Name, ...]


class Declarations(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of alerts.yaml: selectors, texts, alerts by group, and inhibitions.

    Attributes:
        selectors: the labels by which the queries of a text select, by the name of their variable.
        texts: pieces of texts: inserted for ``<< name >>``, or appended where in ``details``.
        groups: the alerts, by the group of rules that evaluates them; the most urgent come first.
        inhibitions: which alerts mute which.
    """

    selectors: dict[Name, tuple[Name, ...]]
    texts: dict[Name, Text]
    groups: dict[str, tuple[Alert, ...]]
    inhibitions: tuple[Inhibition, ...]


def schema() -> dict[str, Any]:
    """Return the JSON Schema of alerts.yaml, for editors and other tools."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return dialect | msgspec.json.schema(Declarations)


FILE = "alerts.yaml"
_STALE_SECONDS = 300
_STALE_CYCLES = 3
"""Missed evaluator cycles that count as an outage; one slow cycle does not."""


@functools.cache
def declarations() -> Declarations:
    """Return the content of alerts.yaml; raise an error that names the place of a mistake."""
    text = (resources.files(__package__) / FILE).read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), Declarations)


def groups(settings: Settings) -> dict[str, tuple[Alert, ...]]:
    """Return the alerts for what is declared, by the group of rules that evaluates them."""
    return {
        name: tuple(
            msgspec.structs.replace(
                alert, expr=filled(alert.when.query if alert.when else alert.expr, values(settings))
            )
            for alert in group
            if is_declared(settings, alert.only_with)
        )
        for name, group in declarations().groups.items()
    }


def alerts(settings: Settings) -> tuple[Alert, ...]:
    """Return the alerts for what is declared, with filled expressions, in the order of the file."""
    return tuple(alert for group in groups(settings).values() for alert in group)


def values(settings: Settings) -> dict[str, str]:
    """Return the values of placeholders, by placeholder."""
    stale = max(_STALE_SECONDS, settings.evaluate.cycle * _STALE_CYCLES // SECOND)
    return (
        declarations().texts
        | metric_texts()
        | {
            "job": settings.stream.group_id,
            "external_url": settings.alerting.external_url,
            "labels_topic": settings.stream.labels_topic,
            "completeness": f"{float(settings.evaluate.completeness):g}",
            "evaluation_stale_seconds": str(stale),
        }
    )
