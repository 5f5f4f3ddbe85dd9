"""Files about alerts and the dashboards of their panels, as ``slicewatch render`` writes them.

Runbooks are one Markdown page per alert, from the templates in ``runbooks``.
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
    """Return the runbook of one alert, in Markdown."""
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
    r"""Return Markdown with each paragraph and each list item on a line of its own.

    Example:
        >>> unwrapped("Two\nlines.\n\n- one\n  item\n- another")
        'Two lines.\n\n- one item\n- another'
    """
    return re.sub(r"(?<!\n)\n *(?!\n|- |\d\. |#)(?=.)", " ", text)


_HEADER = "# Made by: slicewatch render. Do not edit: change the settings, and render again.\n"


def rendered(settings: Settings) -> dict[str, str]:
    """Return the texts of all files about alerts, by path below the output folder.

    Runbooks are next to the rules, not among the manuals: an installation renders both with its own
    settings, and alerts link to its runbooks.
    """
    return {
        "prometheus/prometheus.yml": to_yaml(example(settings)),
        "prometheus/rules.yml": to_yaml(rules(settings)),
        "kubernetes/base/prometheus-rule.yaml": to_yaml(_as_resource(rules(settings))),
        "alertmanager/alertmanager.yml": to_yaml(configuration(settings)),
        "alertmanager/templates/slicewatch.tmpl": notifications(),
        **{f"runbooks/{alert.name}.md": runbook(alert) for alert in alerts(settings)},
        **dashboards.rendered(settings, _runbook_links(settings), to_yaml),
    }


def _as_resource(document: dict[str, Any]) -> dict[str, Any]:
    """Return a rules file as a resource of the Prometheus Operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "slicewatch"},
        "spec": document,
    }


def _runbook_links(settings: Settings) -> dict[str, list[tuple[str, str]]]:
    """Return alerts' names with their runbooks' addresses, by the alert's panel."""
    links: dict[str, list[tuple[str, str]]] = {}
    for alert in alerts(settings):
        links.setdefault(alert.panel, []).append((alert.name, runbook_url(alert, settings)))
    return links


class _Dumper(yaml.SafeDumper):
    """YAML writer that writes texts of several lines as blocks, and no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True, so that repeated data is written out in full."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(document: Any) -> str:
    """Return a document as YAML with keys in its order, below a line that names its origin."""
    body = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    return _HEADER + str(body)
