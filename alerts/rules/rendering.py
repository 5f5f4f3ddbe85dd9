"""Every file about alerts and the dashboards of their panels, as ``slicewatch render`` writes them.

Runbooks are one Markdown page for each alert, from the templates in ``runbooks``.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import yaml

from alerts import dashboards
from alerts.rules.alertmanager import configuration, notifications
from alerts.rules.declarations import Alert, Severity, alerts
from alerts.rules.prometheus import example, rules, runbook_url
from monitor.settings import Settings

if TYPE_CHECKING:
    import jinja2

REACTIONS = {
    Severity.PAGE: "somebody is woken",
    Severity.TICKET: "somebody looks at it in office hours",
    Severity.INFO: "shown for information, nobody must act",
    Severity.NONE: "a dead man's switch",
}


def runbook(alert: Alert) -> str:
    """The page of one alert."""
    template = _environment().get_template(f"{alert.runbook or alert.name}.md.j2")
    return template.render(
        alert=alert,
        reaction=REACTIONS[alert.severity],
        guardrail_reaction=REACTIONS[alert.guardrail or alert.severity],
    )


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2  # noqa: PLC0415 - slow to load, and few commands render

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(str(__package__), "runbooks"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Markdown, from our own files alone
    )
    environment.filters["unwrapped"] = unwrapped
    return environment


def unwrapped(text: str) -> str:
    r"""Markdown with each paragraph and each item of a list on a line of its own.

    Example:
        >>> unwrapped("Two\nlines.\n\n- one\n  item\n- another")
        'Two lines.\n\n- one item\n- another'
    """
    return re.sub(r"(?<!\n)\n *(?!\n|- |\d\. |#)(?=.)", " ", text)


_HEADER = "# Made by: slicewatch render. Do not edit: change the settings, and render again.\n"


def rendered(settings: Settings) -> dict[str, str]:
    """Path below the output folder -> text.

    Runbooks lie next to the rules, not among the manuals: an installation renders both with its
    own settings, and alerts link to where it puts them.
    """
    return {
        "prometheus/prometheus.yml": to_yaml(example(settings)),
        "prometheus/rules.yml": to_yaml(rules(settings)),
        "kubernetes/base/prometheus-rule.yaml": to_yaml(_as_resource(rules(settings))),
        "alertmanager/alertmanager.yml": to_yaml(configuration(settings)),
        "alertmanager/templates/slicewatch.tmpl": notifications(),
        **{f"runbooks/{alert.name}.md": runbook(alert) for alert in alerts(settings)},
        **dashboards.rendered(settings, _runbooks(settings), to_yaml),
    }


def _as_resource(document: dict[str, Any]) -> dict[str, Any]:
    """Rules as the Prometheus Operator takes them."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "slicewatch"},
        "spec": document,
    }


def _runbooks(settings: Settings) -> dict[str, list[tuple[str, str]]]:
    """Alerts and the addresses of their runbooks, by the panel that shows what they are about."""
    found: dict[str, list[tuple[str, str]]] = {}
    for alert in alerts(settings):
        found.setdefault(alert.panel, []).append((alert.name, runbook_url(alert, settings)))
    return found


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
