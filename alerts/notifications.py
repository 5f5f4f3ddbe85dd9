"""Alertmanager's configuration: who is told of what, and what mutes what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from alerts.alert import About, Severity
from monitor.settings import Alerting, Receiver, Settings

Document = dict[str, Any]

GROUP_BY = ("alertname", "job", "contract", "metric")
OFFICE_HOURS = "office-hours"
TEMPLATES = "templates/*.tmpl"
"""Below the folder of the configuration, by which Alertmanager looks for it."""

BREACHES = ("SlicewatchTprBreach", "SlicewatchFprBreach", "SlicewatchBlockedBreach")
_BLIND = ("SlicewatchDown", "SlicewatchAbsent")
_SEEN = (About.FAIRNESS, About.PROBES)
"""Read from the slice page. Neither mutes the other: a regression of the router shows in probes and
in production traffic, and each tells what the other cannot."""


@dataclass(frozen=True, slots=True)
class Inhibition:
    """What is not sent while something else fires.

    A muted alert must wait longer than what mutes it, or it is sent before: a test looks.

    Attributes:
        sources: alerts that mute.
        muted: matchers of what is muted.
        equal: labels that must be the same.
    """

    sources: tuple[str, ...]
    muted: tuple[str, ...]
    equal: tuple[str, ...]

    def to_document(self) -> Document:
        """As Alertmanager has it."""
        return {
            "source_matchers": [_named(self.sources)],
            "target_matchers": list(self.muted),
            "equal": list(self.equal),
        }


def _named(alerts: Sequence[str]) -> str:
    return f'alertname=~"{"|".join(alerts)}"'


def _about(*kinds: About) -> str:
    return f'about=~"{"|".join(kinds)}"'


INHIBITIONS = (
    # Nothing answers: whatever else fires is what was known before, or follows from it.
    Inhibition(_BLIND, (_about(*_SEEN, About.LABELS, About.PIPELINE),), ("job",)),
    Inhibition(_BLIND, (_named(["SlicewatchEvaluationStale"]),), ("job",)),
    # Old numbers: what they say of slices and of probes has been said.
    Inhibition(("SlicewatchEvaluationStale",), (_about(*_SEEN),), ("job",)),
    Inhibition(
        ("SlicewatchConsumerStuck",),
        (_named(["SlicewatchConsumerLag", "SlicewatchLabelsStale"]),),
        ("job",),
    ),
    Inhibition(("SlicewatchLabelsStale",), (_named(["SlicewatchCompletenessLow"]),), ("job",)),
    # Somebody looks at this metric already.
    Inhibition(BREACHES, (_named(["SlicewatchDrift"]),), ("job", "contract", "metric")),
)


def configuration(settings: Settings) -> Document:
    """The whole file."""
    return {
        "templates": [TEMPLATES],
        "route": _route(settings),
        "inhibit_rules": [one.to_document() for one in INHIBITIONS],
        "time_intervals": [_office(settings.alerting)],
        "receivers": [
            _receiver(name, receiver) for name, receiver in settings.alerting.receivers.items()
        ],
    }


def _route(settings: Settings) -> Document:
    awaits_day = [one.name for one in settings.use_case if not one.page_at_night]
    return {
        # What has no severity of ours: nobody is woken by it, and it is not lost.
        "receiver": "ticket",
        "group_by": list(GROUP_BY),
        "group_wait": "30s",
        "group_interval": "5m",
        "repeat_interval": "4h",
        "routes": [
            _to("deadman", Severity.NONE, ("0s", "1m", "1m")),
            *(_by_day(contract) for contract in awaits_day),
            _to("page", Severity.PAGE, ("30s", "5m", "4h")),
            _in_office_hours(_to("ticket", Severity.TICKET, ("5m", "15m", "24h"))),
            _to("visible", Severity.INFO, ("5m", "1h", "168h")),
        ],
    }


def _to(receiver: str, severity: Severity, pace: tuple[str, str, str]) -> Document:
    wait, interval, repeat = pace
    return {
        "receiver": receiver,
        "matchers": [f'severity="{severity.value}"'],
        "group_wait": wait,
        "group_interval": interval,
        "repeat_interval": repeat,
    }


def _by_day(contract: str) -> Document:
    """Breaches of a contract whose owner does not want to be woken."""
    route = _in_office_hours(_to("page", Severity.PAGE, ("30s", "5m", "4h")))
    route["matchers"].append(f'contract="{contract}"')
    return route


def _in_office_hours(route: Document) -> Document:
    return {**route, "active_time_intervals": [OFFICE_HOURS]}


def _office(alerting: Alerting) -> Document:
    hours = {"start_time": alerting.office_from, "end_time": alerting.office_until}
    interval = {
        "weekdays": list(alerting.office_days),
        "times": [hours],
        "location": alerting.timezone,
    }
    return {"name": OFFICE_HOURS, "time_intervals": [interval]}


def _receiver(name: str, receiver: Receiver) -> Document:
    resolved = name in ("page", "ticket")
    found: Document = {"name": name}
    if receiver.webhook_url is not None:
        found["webhook_configs"] = [_webhook(receiver, resolved)]
    if receiver.chat_url_file is not None:
        found["slack_configs"] = [_chat(receiver.chat_url_file, resolved)]
    return found


def _webhook(receiver: Receiver, resolved: bool) -> Document:
    webhook: Document = {"url": receiver.webhook_url, "send_resolved": resolved}
    if receiver.webhook_token_file is not None:
        login = {"credentials_file": receiver.webhook_token_file}
        webhook["http_config"] = {"authorization": login}
    return webhook


def _chat(url_file: str, resolved: bool) -> Document:
    return {
        "api_url_file": url_file,
        "send_resolved": resolved,
        "title": '{{ template "slicewatch.title" . }}',
        "title_link": '{{ template "slicewatch.link" . }}',
        "text": '{{ template "slicewatch.text" . }}',
        "fallback": '{{ template "slicewatch.title" . }}',
        "color": '{{ template "slicewatch.color" . }}',
    }


MESSAGE = """\
{{/* Made by: slicewatch render. Do not edit: change the settings, and render again. */}}

{{ define "slicewatch.title" -}}
[{{ .Status | toUpper }}{{ if eq .Status "firing" }}, {{ .Alerts.Firing | len }}{{ end }}]
{{- with .CommonLabels.severity }} {{ . }}:{{ end }} {{ .GroupLabels.alertname }}
{{- with .GroupLabels.contract }}, contract {{ . }}{{ end }}
{{- with .GroupLabels.metric }}, {{ . }}{{ end }}
{{- end }}

{{ define "slicewatch.link" -}}
{{ with .CommonAnnotations.snapshot_url }}{{ . }}{{ else }}{{ .ExternalURL }}{{ end }}
{{- end }}

{{ define "slicewatch.color" -}}
{{ if ne .Status "firing" }}good{{ else if eq .CommonLabels.severity "page" }}danger\
{{ else }}warning{{ end }}
{{- end }}

{{ define "slicewatch.alert" -}}
*{{ .Annotations.summary }}*
{{ .Annotations.description }}
{{- with .Annotations.snapshot_url }}
Snapshot: {{ . }}{{ end }}
{{- with .Annotations.dashboard_url }}
Dashboard: {{ . }}{{ end }}
{{- with .Annotations.runbook_url }}
Runbook: {{ . }}{{ end }}
{{ end }}

{{ define "slicewatch.text" -}}
{{ range .Alerts.Firing }}{{ template "slicewatch.alert" . }}
{{ end }}
{{- range .Alerts.Resolved }}Over: {{ .Annotations.summary }}
{{ end }}
{{- end }}
"""
"""How a group of alerts is written where Alertmanager writes the text: chat, or mail."""
