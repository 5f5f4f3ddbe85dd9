"""Configuration of Alertmanager: routes to receivers, and muting of alerts by others."""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml

from alerts.rules.declarations import Inhibition, declarations, matcher
from monitor.core.quiet_times import WEEKDAYS
from monitor.settings import Receiver, Settings

Document = dict[str, Any]

_CONSTANT: Document = yaml.safe_load(
    (resources.files(__package__) / "alertmanager.yaml").read_text(encoding="utf-8")
)
GROUP_BY: tuple[str, ...] = tuple(_CONSTANT["route"]["group_by"])
OFFICE_HOURS = "office-hours"


def notifications() -> str:
    """Return the Go templates of Alertmanager's own messages: chat, or mail."""
    file = resources.files(__package__) / "notifications" / "slicewatch.tmpl"
    return file.read_text(encoding="utf-8")


def configuration(settings: Settings) -> Document:
    """Return Alertmanager's configuration for these settings."""
    return {
        "templates": _CONSTANT["templates"],
        "route": _CONSTANT["route"],
        "inhibit_rules": [_inhibit_rule(inhibition) for inhibition in declarations().inhibitions],
        "time_intervals": [_office(settings)],
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


def _office(settings: Settings) -> Document:
    zone = settings.report.timezone
    intervals = [_office_interval(text, zone) for text in settings.alerting.office_hours]
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
        chat = {"api_url_file": receiver.chat_url_file, "send_resolved": resolved}
        configured["slack_configs"] = [chat | _CONSTANT["chat"]]
    return configured


def _webhook(receiver: Receiver, resolved: bool) -> Document:
    webhook: Document = {"url": receiver.webhook_url, "send_resolved": resolved}
    if receiver.webhook_token_file is not None:
        login = {"credentials_file": receiver.webhook_token_file}
        webhook["http_config"] = {"authorization": login}
    return webhook
