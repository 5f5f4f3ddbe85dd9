"""Every file about alerts, as ``slicewatch render`` writes them."""

from __future__ import annotations

from typing import Any

import yaml

from alerts.rules.alertmanager import configuration, notifications
from alerts.rules.load import alerts
from alerts.rules.prometheus import example, rules
from alerts.rules.runbooks import runbook
from monitor.settings import Settings

_HEADER = "# Made by: slicewatch render. Do not edit: change the settings, and render again.\n"


def rendered(settings: Settings) -> dict[str, str]:
    """Path below the output folder -> text.

    Runbooks lie next to the rules, not among the manuals: an installation renders both with its
    own settings, and alerts link to where it puts them.
    """
    return {
        "prometheus/prometheus.yml": to_yaml(example(settings)),
        "prometheus/rules.yml": to_yaml(rules(settings)),
        "alertmanager/alertmanager.yml": to_yaml(configuration(settings)),
        "alertmanager/templates/slicewatch.tmpl": notifications(),
        **{f"runbooks/{alert.name}.md": runbook(alert) for alert in alerts(settings)},
    }


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, and no anchors for what comes twice."""

    def ignore_aliases(self, data: Any) -> bool:
        """Never refer back: people search for what they read."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(document: Any) -> str:
    """A document in the order of its keys, under a line that says where it comes from."""
    body = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    return _HEADER + str(body)
