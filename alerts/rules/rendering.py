"""Files about alerts and the dashboards of their panels, as ``slicewatch render`` writes them.

Runbooks are one Markdown page per name of an alert, or per metric of a breach, from the templates
in ``runbooks``.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import yaml

from alerts import dashboards
from alerts.rules.alertmanager import configuration, notifications
from alerts.rules.declarations import Alert, alerts
from alerts.rules.prometheus import example, rules, runbook_url
from monitor.settings import Settings

if TYPE_CHECKING:
    import jinja2


def runbooks(settings: Settings) -> dict[str, str]:
    """Return the runbooks in Markdown, by the name of their file."""
    cases_by_name: dict[str, list[Alert]] = {}
    for alert in alerts(settings):
        for name in alert.runbooks:
            cases_by_name.setdefault(name, []).append(alert)
    return {f"{name}.md": _runbook(name, cases) for name, cases in cases_by_name.items()}


def _runbook(name: str, cases: list[Alert]) -> str:
    """Return the runbook of an alert's cases; that of a breach is named after its metric."""
    alert, _, metric = name.partition("-")
    template = _environment().get_template(f"{alert}.md.j2")
    return template.render(name=name, cases=cases, metric=metric).strip() + "\n"


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
    r"""Return Markdown with each paragraph and each list item on a line of its own; code as it is.

    Example:
        >>> unwrapped("Two\nlines.\n\n- one\n  item\n- another")
        'Two lines.\n\n- one item\n- another'
    """
    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    prose = [re.sub(r"(?<!\n)\n *(?!\n|- |\d\. |#)(?=.)", " ", part) for part in parts[::2]]
    parts[::2] = [re.sub(r"\n{3,}", "\n\n", part) for part in prose]
    return "".join(parts)


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
        **{f"runbooks/{name}": text for name, text in runbooks(settings).items()},
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
    """Return names of alerts (or their conditions) with addresses of runbooks, by the panel."""
    links: dict[str, list[tuple[str, str]]] = {}
    for alert in alerts(settings):
        for name in alert.runbooks:
            address = runbook_url(alert, settings.alerting.runbooks_url, name)
            links.setdefault(alert.panel, []).append((alert.condition or name, address))
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
