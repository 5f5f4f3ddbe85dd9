"""The declarations of alerts: their schema, and that whatever they name exists and is used."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

import alerts.rules
from alerts.declared import filled
from alerts.rules import declarations
from alerts.rules.declarations import Alert, Declarations, Severity, schema, values
from alerts.rules.metric_texts import metric_texts
from monitor.core.blindness import Blind
from monitor.core.metric import Metric
from monitor.core.probes.flips import FlipDirection
from monitor.core.publish.annotations import Annotation, Fault
from monitor.core.publish.incidents import Stand
from monitor.core.state import State
from monitor.settings import Settings
from monitor.shard_status import ConsumerState

FOLDER = Path(str(resources.files(alerts.rules)))
DOCUMENT = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
SCHEMA = json.loads((FOLDER / "alerts.schema.json").read_text())
ALERTS = [alert for group in declarations().groups.values() for alert in group]
EXPORTED = {
    "state": {*State, *ConsumerState, *Stand},
    "finding": {*Annotation},
    "direction": {*FlipDirection},
    "metric": {*Metric},
    "fault": {*Fault},
    "reason": {*Blind},
}
"""The values of labels that have a closed list of them."""

named = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.key)


def everything(alert: Alert) -> str:
    """Its texts and its expression, filled in."""
    texts = (alert.expr, alert.summary, alert.description, *(f"<< {d} >>" for d in alert.details))
    return filled("\n".join(texts), values(Settings()))


# Schema


def test_the_schema_is_that_of_the_types() -> None:
    generated = json.dumps(schema(), indent=2) + "\n"
    assert (FOLDER / "alerts.schema.json").read_text() == generated, "write schema() to the file"


def test_the_file_keeps_to_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    # Tuples are arrays, as in JSON.
    jsonschema.validate(json.loads(json.dumps(DOCUMENT)), SCHEMA)


@pytest.mark.parametrize(
    ("mistake", "place"),
    [
        ({"severity": "loud"}, "severity"),
        ({"about": "people"}, "about"),
        ({"for": "15 minutes"}, "for"),
        ({"keep_firing_for": "0m"}, "keep_firing_for"),
        ({"hold_while_absent": "slice"}, "hold_while_absent"),
        ({"name": "TprBreach"}, "name"),
        ({"silence": {"contract": "any"}}, "silence"),
        ({"summary": ""}, "summary"),
        ({"sumary": "x"}, "sumary"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_is_refused_with_its_place(mistake: dict[str, Any], place: str) -> None:
    broken = json.loads(json.dumps(DOCUMENT))
    broken["groups"]["slicewatch-fairness"][3] |= mistake
    with pytest.raises(msgspec.ValidationError, match=rf"{place}|\$\.groups\[\.\.\.\]\[3\]"):
        msgspec.convert(broken, Declarations)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, SCHEMA)


# Names


def test_a_team_has_few_alerts_to_know_and_every_case_has_a_key_of_its_own() -> None:
    plain = {alert.name for alert in ALERTS if alert.only_with is None}
    assert len(plain) == 15
    assert {alert.name for alert in ALERTS} - plain == {"SlicewatchProbeFlips"}
    assert len({alert.key for alert in ALERTS}) == len(ALERTS) == 47


def test_what_needs_attention_wakes_nobody_and_says_its_condition() -> None:
    attention = [alert for alert in ALERTS if alert.name == "SlicewatchNeedsAttention"]
    assert len(attention) == 24
    assert all(alert.condition for alert in attention)
    assert {alert.severity for alert in attention} == {Severity.TICKET, Severity.INFO}


@named
def test_every_placeholder_is_known_and_filled(alert: Alert) -> None:
    assert set(alert.details) <= set(declarations().texts)
    assert "<<" not in everything(alert)


def test_every_text_and_every_selector_is_used() -> None:
    document = declarations()
    declared = (FOLDER / "alerts.yaml").read_text() + " ".join(metric_texts().values())
    placed = set(re.findall(r"<< (\w+) >>", declared))
    placed |= {name for alert in ALERTS for name in alert.details}
    placed |= {name for alert in ALERTS for name in alert.choices}
    assert set(document.texts) <= placed
    used = set(re.findall(r"\$(\w+) \| query", "".join(map(everything, ALERTS))))
    assert used == set(document.selectors)


@named
def test_values_of_labels_are_exported(alert: Alert) -> None:
    text = everything(alert)
    for label, known in EXPORTED.items():
        matchers = re.findall(rf'\b{label}=~?"([^"]+)"', text)
        compared = re.findall(rf'eq \$labels\.{label} "([^"]+)"', text)
        assert {one for found in matchers + compared for one in found.split("|")} <= known


def test_every_template_of_a_runbook_and_every_section_belongs_to_an_alert() -> None:
    pages = {path.name.removesuffix(".md.j2"): path for path in FOLDER.glob("runbooks/[!_]*")}
    assert set(pages) == {alert.name for alert in ALERTS}
    for name, path in pages.items():
        sections = set(re.findall(r"\{% block (\w+) %\}", path.read_text())) - {"text"}
        assert sections == {a.condition for a in ALERTS if a.name == name and a.condition}


def test_alerts_that_mute_or_are_muted_are_declared() -> None:
    known = {alert.name for alert in ALERTS} | {alert.condition for alert in ALERTS}
    for one in declarations().inhibitions:
        assert bool(one.mute.about) != bool(one.mute.alerts)
        assert {*one.while_, *one.mute.alerts} <= known
