"""Every alert has a panel that shows it and leads to its runbook, and leads to that panel."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from declaring import DECLARING
from eventful import settings_text
from grafana import panels, variables

from alerts.dashboards import places
from alerts.exposition.catalogue import CATALOGUE
from alerts.rules import Alert, alerts, declarations, rendered
from monitor.cli import cli
from monitor.settings import Settings
from monitor.settings.sections import Alerting, Evaluate, Links

FILES = rendered(DECLARING)
DOCUMENTS = {
    path.rpartition("/")[2].removesuffix(".json"): json.loads(text)
    for path, text in FILES.items()
    if path.startswith("grafana/dashboards/")
}
ALERTS = alerts(DECLARING)
PLACES = places(DECLARING)
GRAFANA = "https://grafana.example/sub"
named = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.key)


def panel_of(alert: Alert) -> dict[str, Any]:
    place = PLACES[alert.panel]
    every = panels(DOCUMENTS[place.dashboard.uid])
    return next(one for one in every if one["id"] == place.panel.id)


def said_by(settings: Settings) -> dict[str, dict[str, str]]:
    document = yaml.safe_load(rendered(settings)["prometheus/rules.yml"])
    rules = [rule for group in document["groups"] for rule in group["rules"] if "alert" in rule]
    return {rule["labels"].get("condition", rule["alert"]): rule["annotations"] for rule in rules}


@cache
def said_with(grafana: str) -> dict[str, dict[str, str]]:
    """Return the annotations by alert or condition, with Grafana at this URL; rendered once."""
    return said_by(msgspec.structs.replace(DECLARING, links=Links(grafana=grafana or None)))


@named
def test_the_panel_shows_what_the_alert_asks(alert: Alert) -> None:
    """A metric of its expression, or of a number that its text tells, at least one."""
    if alert.expr == "vector(1)":
        assert "ALERTS" in str(panel_of(alert)["targets"])
        return
    known = {family.name for family in CATALOGUE} | {"up"}
    told = " ".join(declarations().texts[name] for name in alert.details)
    asked = set(re.findall(r"\w+", f"{alert.expr} {told}")) & known
    if {"slicewatch_page", "slicewatch_ticket"} & asked:  # a latch: what it is about is the gap
        asked = {"slicewatch_slice_gap_ratio", "slicewatch_slice_support_band"}
    shown = set(re.findall(r"\w+", str(panel_of(alert)["targets"]))) & known
    assert asked & shown, (asked, shown)


@named
def test_the_panel_leads_to_the_runbook(alert: Alert) -> None:
    links = {link["title"]: link["url"] for link in panel_of(alert)["links"]}
    url = said_with("")[alert.key]["runbook_url"]
    for name in titles(alert):
        assert links[f"Runbook: {name}"] == url.replace(
            "{{ $labels.metric }}", name.rpartition("-")[2]
        )


def titles(alert: Alert) -> tuple[str, ...]:
    return (alert.condition,) if alert.condition else alert.runbooks


def test_panels_lead_to_no_other_runbook() -> None:
    linked = [
        (link["title"], document["uid"], panel["id"])
        for document in DOCUMENTS.values()
        for panel in panels(document)
        for link in panel["links"]
    ]
    expected = [
        (f"Runbook: {title}", PLACES[one.panel].dashboard.uid, PLACES[one.panel].panel.id)
        for one in ALERTS
        for title in titles(one)
    ]
    assert sorted(linked) == sorted(expected)


def test_runbooks_are_where_the_settings_have_them() -> None:
    settings = Settings(alerting=Alerting(runbooks="https://wiki.example/runbooks/"))
    text = rendered(settings)["grafana/dashboards/slicewatch-operations.json"]
    assert '"https://wiki.example/runbooks/SlicewatchDown.md"' in text


def test_the_line_of_completeness_is_that_of_cohorts() -> None:
    document = DOCUMENTS["slicewatch-health"]
    drawn = [p["fieldConfig"]["defaults"]["thresholds"]["steps"] for p in panels(document)]
    wanted = float(Evaluate.completeness)
    assert [steps[1]["value"] for steps in drawn if len(steps) > 1] == [wanted]


def test_a_folder_of_ones_own_gets_them_too(tmp_path: Path) -> None:
    """As somebody with settings renders them."""
    file = tmp_path / "settings.toml"
    links = '[alerting]\nrunbooks = "https://wiki.example/r"\n[links]\ngrafana = "https://g"\n'
    file.write_text(settings_text() + links)
    out = tmp_path / "out"
    done = CliRunner().invoke(cli, ["render", "--settings", str(file), "--out", str(out)])
    assert done.exit_code == 0, done.output
    written = {path.name for path in (out / "grafana").rglob("*") if path.is_file()}
    assert written == {"slicewatch.yaml", *(f"{uid}.json" for uid in DOCUMENTS)}
    assert "https://g/d/slicewatch-slice/" in (out / "prometheus" / "rules.yml").read_text()
    fleet = (out / "grafana" / "dashboards" / "slicewatch-fleet.json").read_text()
    assert "https://wiki.example/r/SlicewatchNeedsAttention.md#window_old" in fleet


# To the panel


def test_without_a_grafana_nothing_changes() -> None:
    assert "/d/slicewatch-" not in rendered(Settings())["prometheus/rules.yml"]


@named
def test_with_one_every_alert_leads_to_its_panel(alert: Alert) -> None:
    url = said_with(f"{GRAFANA}/")[alert.key]["dashboard_url"]
    address, _, query = re.sub(r"\{\{.*?\}\}", "", url).partition("?")
    place = PLACES[alert.panel]
    assert address == f"{GRAFANA}/d/{place.dashboard.uid}/{place.dashboard.uid}"
    assert parse_qs(query)["viewPanel"] == [str(place.panel.id)]
    assert urlsplit(address).scheme == "https"
    chosen = set(re.findall(r"&var-(\w+)=", url))
    assert chosen <= set(variables(DOCUMENTS[place.dashboard.uid]))
    assert "job" in chosen


def test_an_incident_leads_to_its_slice() -> None:
    said = said_with(GRAFANA)
    for name in ("SlicewatchBreach", "SlicewatchGapTicket", "evidence_lost"):
        chosen = set(re.findall(r"&var-(\w+)=", said[name]["dashboard_url"]))
        assert chosen == {"job", "contract", "window", "group_by", "slice", "metric"}
        assert 'slice!="withheld"' in said[name]["dashboard_url"]
