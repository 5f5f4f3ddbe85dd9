"""Configuration of Alertmanager: routes to receivers, and muting of alerts by others."""

from __future__ import annotations

from importlib import resources
from typing import Any

from alerts.rules.declarations import Inhibition, Severity, declarations, matcher
from monitor.core.quiet_times import WEEKDAYS
from monitor.settings import Alerting, Receiver, Settings

Document = dict[str, Any]

GROUP_BY = ("alertname", "condition", "job", "contract", "metric")
OFFICE_HOURS = "office-hours"
TEMPLATES = "templates/*.tmpl"
"""Path of the templates below Alertmanager's configuration folder."""


def notifications() -> str:
    """Return the Go templates of Alertmanager's own messages: chat, or mail."""
    file = resources.files(__package__) / "notifications" / "slicewatch.tmpl"
    return file.read_text(encoding="utf-8")


def configuration(settings: Settings) -> Document:
    """Return Alertmanager's configuration for these settings."""
    return {
        "templates": [TEMPLATES],
        "route": _route(),
        "inhibit_rules": [_inhibit_rule(inhibition) for inhibition in declarations().inhibitions],
        "time_intervals": [_office(settings.alerting)],
        "receivers": [
            _receiver(name, receiver) for name, receiver in settings.alerting.receivers.items()
        ],
    }


def _inhibit_rule(inhibition: Inhibition) -> Document:
    return {
        "source_matchers": [matcher(inhibition.while_)],
        "target_matchers": [inhibition.mute.matcher],
        "equal": list(inhibition.equal),
    }


def _route() -> Document:
    """Return the routing tree, by severity."""
    return {
        # Alerts without a severity of ours wake nobody, but are not lost.
        "receiver": "ticket",
        "group_by": list(GROUP_BY),
        "group_wait": "30s",
        "group_interval": "5m",
        "repeat_interval": "4h",
        "routes": [
            _to("deadman", Severity.NONE, ("0s", "1m", "1m")),
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


def _in_office_hours(route: Document) -> Document:
    return {**route, "active_time_intervals": [OFFICE_HOURS]}


def _office(alerting: Alerting) -> Document:
    intervals = [_office_interval(text, alerting.timezone) for text in alerting.office_hours]
    return {"name": OFFICE_HOURS, "time_intervals": intervals}


def _office_interval(office_hours: str, timezone: str) -> Document:
    """Return Alertmanager's interval of a text such as ``monday-friday 09:00-17:00``."""
    days, _, hours = office_hours.partition(" ")
    first, _, last = days.partition("-")
    begin, _, end = hours.partition("-")
    start = WEEKDAYS.index(first)
    length = (WEEKDAYS.index(last or first) - start) % len(WEEKDAYS) + 1
    return {
        "weekdays": [WEEKDAYS[(start + i) % len(WEEKDAYS)] for i in range(length)],
        "times": [{"start_time": begin, "end_time": end}],
        "location": timezone,
    }


def _receiver(name: str, receiver: Receiver) -> Document:
    resolved = name in ("page", "ticket")
    configured: Document = {"name": name}
    if receiver.webhook_url is not None:
        configured["webhook_configs"] = [_webhook(receiver, resolved)]
    if receiver.chat_url_file is not None:
        configured["slack_configs"] = [_chat(receiver.chat_url_file, resolved)]
    return configured


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
