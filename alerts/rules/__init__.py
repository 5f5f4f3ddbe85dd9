"""Rules, routes and runbooks, rendered for Prometheus, Alertmanager and people.

``alerts.yaml`` declares every alert, ``runbooks/`` has a page for each alert, and
``notifications/`` has the messages. All of them are data; the modules insert the settings of an
installation.
"""

from alerts.rules.alertmanager import GROUP_BY
from alerts.rules.declarations import (
    About,
    Alert,
    Inhibition,
    Severity,
    alerts,
    breach_runbooks,
    declarations,
)
from alerts.rules.prometheus import needed_files
from alerts.rules.promql import AlertSubject, held_name
from alerts.rules.rendering import rendered, runbooks
from alerts.rules.standing import Conditions

__all__ = [
    "GROUP_BY", "About", "Alert", "AlertSubject", "Conditions", "Inhibition", "Severity",
    "alerts", "breach_runbooks", "declarations", "held_name", "needed_files", "rendered",
    "runbooks",
]  # fmt: skip
