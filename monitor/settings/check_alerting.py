"""Contradictions in how alerts reach people."""

from __future__ import annotations

import zoneinfo

from monitor.settings.alerting import Alerting
from monitor.settings.problems import join, problem, shown


def check_alerting(alerting: Alerting) -> None:
    """Raise SettingsError for the first contradiction."""
    _check_office(alerting)
    for name, receiver in alerting.receivers.items():
        key = join("alerting", name)
        if receiver.webhook_token_file is not None and receiver.webhook_url is None:
            raise problem(f"{key}.webhook_url", "is missing; it goes with webhook_token_file")


def _check_office(alerting: Alerting) -> None:
    known = zoneinfo.available_timezones()
    # A machine without the tables of time zones cannot say: Alertmanager will.
    if known and alerting.timezone not in known:
        fix = 'use a name such as "Europe/Berlin"'
        raise problem("alerting.timezone", f"{shown(alerting.timezone)} is not known here; {fix}")
    if not alerting.office_days:
        raise problem("alerting.office_days", "is empty; tickets would be sent on no day")
    if alerting.office_from >= alerting.office_until:
        fix = "make it later, or swap the two"
        raise problem("alerting.office_until", f"is not after alerting.office_from; {fix}")
