"""Rules, texts and runbooks: every name exists, and no known trap is in them.

What fires when is in deploy/prometheus/*_test.yml, which promtool runs here.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml
from monitoring import run

from alerts.exposition.catalogue import CATALOGUE
from alerts.rules import (
    About,
    Alert,
    AlertSubject,
    Inhibition,
    Severity,
    alerts,
    declarations,
    held_name,
    rendered,
)
from monitor.cli import cli
from monitor.core.blindness import Blind
from monitor.core.contract import Metric, PrimaryMetric, Role, role_of
from monitor.core.publish.annotations import IncidentKind, severity_of
from monitor.settings import Settings

DEPLOY = Path(__file__).parents[4] / "deploy"
FILES = rendered(Settings())
SHOWN = {shown.record for shown in AlertSubject}
ALERTS = {alert.name: alert for alert in alerts(Settings())}
INHIBITIONS = declarations().inhibitions
RULES = yaml.safe_load(FILES["prometheus/rules.yml"])
EVERY_RULE = [rule for group in RULES["groups"] for rule in group["rules"]]
TESTS = sorted(DEPLOY.glob("prometheus/*_test.yml"))
WITHOUT_SILENCE = {"SlicewatchWatchdog"}
named = pytest.mark.parametrize("alert", ALERTS.values(), ids=ALERTS)


def identity(alert: Alert) -> set[str]:
    """The labels of an alert's expression: those of its outermost aggregation."""
    if alert.expr == "vector(1)":
        return set()
    by = re.search(r"by \(([^)]+)\)", alert.expr)
    if "group_right" in alert.expr:  # the labels of the many
        by = re.search(r"group_right \(\)\n.*?by \(([^)]+)\)", alert.expr)
    return set(by[1].split(", ")) if by else {"job"}


def texts(alert: Alert) -> list[str]:
    """What it says, the same in all of its rules."""
    first, *others = [rule for rule in EVERY_RULE if rule.get("alert") == alert.name]
    assert len(others) == (alert.guardrail is not None)
    assert all(rule["annotations"] == first["annotations"] for rule in others)
    return list(first["annotations"].values())


# Severity


@pytest.mark.parametrize("primary", PrimaryMetric)
@pytest.mark.parametrize("metric", [metric for metric in Metric if metric is not Metric.READY])
def test_a_breach_is_sent_as_what_every_other_surface_calls_it(
    metric: Metric, primary: PrimaryMetric
) -> None:
    role = role_of(metric, Metric(primary))
    alert = next(one for one in ALERTS.values() if one.with_.get("breached") == metric)
    (rule,) = (
        rule
        for rule in EVERY_RULE
        if rule.get("alert") == alert.name
        and ('{role!="guardrail"}' not in rule["expr"] or role is Role.PRIMARY)
        and ('{role="guardrail"}' not in rule["expr"] or role is Role.GUARDRAIL)
    )
    assert rule["labels"]["severity"] == severity_of(IncidentKind.BREACH, role)


def test_what_is_on_the_weekly_list_is_a_ticket() -> None:
    (rule,) = (rule for rule in EVERY_RULE if rule.get("alert") == "SlicewatchGapTicket")
    for role in Role:
        assert rule["labels"]["severity"] == severity_of(IncidentKind.LISTED, role)


# Names


def test_every_metric_that_is_named_is_in_the_catalogue() -> None:
    known = {family.name for family in CATALOGUE}
    # What dashboards name is looked at in a test of theirs.
    for path, text in ((p, t) for p, t in FILES.items() if not p.startswith("grafana/")):
        # Of a record's name only the metric in it is looked at.
        for name in re.findall(r"(?<![/:@.])\bslicewatch_[a-z_]+", text):
            assert name in known, f"{path}: {name}"


def test_every_record_that_is_read_is_recorded() -> None:
    recorded = {rule["record"] for rule in EVERY_RULE if "record" in rule}
    assert recorded == SHOWN | {held_name(a.name) for a in ALERTS.values() if a.hold_while_absent}
    read = {n for r in EVERY_RULE for n in re.findall(r"\w+:\w+:\w+", r["expr"])}
    assert read == recorded


def test_what_is_held_asks_for_states_that_are_shown_in_its_own_query() -> None:
    """A record of them may be of another moment: series can end between two rules."""
    assert {alert.hold_while_absent for alert in ALERTS.values()} == {*AlertSubject, None}
    for alert in ALERTS.values():
        shown = alert.hold_while_absent
        if shown is None:
            continue
        (rule,) = [r for r in EVERY_RULE if r.get("record") == held_name(alert.name)]
        own = shown.record
        assert rule["expr"].count(own) == rule["expr"].count(f"last_over_time({own}[") == 1
        assert f"unless on (job, {shown}) {shown.family})" in rule["expr"]
        assert {"job", shown} <= identity(alert)
        assert [one for one in SHOWN if one in rule["expr"]] == [own]


def test_every_alert_that_is_named_is_there() -> None:
    known = {*ALERTS, "SlicewatchMessage"}
    for path, text in FILES.items():
        for name in re.findall(r"\bSlicewatch[A-Z]\w+", text):
            assert name in known, f"{path}: {name}"


def test_nothing_else_is_beside_the_rendered_files() -> None:
    kept = {
        str(path.relative_to(DEPLOY))
        for folder in ("prometheus", "alertmanager", "runbooks", "grafana")
        for path in (DEPLOY / folder).rglob("*")
        if path.is_file()
    }
    beside = {name for name in FILES if name.startswith("kubernetes/")}  # of written manifests
    assert beside == {"kubernetes/base/prometheus-rule.yaml"}
    assert kept - {str(path.relative_to(DEPLOY)) for path in TESTS} == set(FILES) - beside


@named
def test_an_alert_links_to_its_runbook(alert: Alert) -> None:
    assert f"deploy/runbooks/{alert.name}.md" in texts(alert)
    page = FILES[f"runbooks/{alert.name}.md"]
    for heading in ("The first five minutes", "Who owns it", "Safe actions", "What not to do"):
        assert f"\n## {heading}\n" in page
    assert alert.expr in page


@named
def test_commands_in_a_runbook_exist(alert: Alert) -> None:
    for line in re.findall(r"`slicewatch ([^`]+)`", FILES[f"runbooks/{alert.name}.md"]):
        command: click.Command = cli
        for word in shlex.split(line):
            if not isinstance(command, click.Group) or not re.fullmatch("[a-z][a-z-]*", word):
                break
            found = command.get_command(click.Context(command), word)
            assert found is not None, line
            command = found
        options = {name for one in command.params for name in one.opts}
        assert set(re.findall(r"--[a-z-]+", line)) <= options, line


def test_the_runbook_of_late_decisions_says_nothing_of_a_blind_service() -> None:
    page = FILES["runbooks/SlicewatchDecisionsLate.md"]
    assert [reason for reason in Blind if reason in page] == [Blind.DECISIONS_LATE]
    assert "cannot observe" not in page


@named
def test_the_ready_silence_names_labels_that_the_alert_has(alert: Alert) -> None:
    assert set(alert.silence) <= identity(alert)


# Traps


@named
def test_a_text_uses_labels_of_the_expression_alone(alert: Alert) -> None:
    for text in texts(alert):
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= identity(alert)


@named
def test_look_ups_are_quoted_and_never_depend_on_an_order(alert: Alert) -> None:
    for text in texts(alert):
        queries = re.findall(r"\{\{ with ([^{}]*(?:\{%s[^{}]*\})?[^{}]*?) \| query", text)
        assert len(queries) == text.count("| query")
        assert all(re.fullmatch(r"printf `[^`]*` \$\w+", one) for one in queries)
        for defined in re.findall(r"\{\{ \$\w+ := printf `([^`]*)`", text):
            assert re.fullmatch(r"(\w+=%q,?)+", defined)
        assert text.count("range ") == text.count("sortByLabel ")


def test_labels_of_rules_are_constant() -> None:
    for rule in EVERY_RULE:
        if "alert" in rule:
            alert = ALERTS[rule["alert"]]
            guardrail = 'role="guardrail"' in rule["expr"]
            severity = alert.guardrail if guardrail else alert.severity
            assert rule["labels"] == {"severity": severity, "about": alert.about.value}


def test_an_incident_is_its_contract_metric_and_number_whatever_is_shown_of_it() -> None:
    of_incidents = [alert for alert in ALERTS.values() if "incident" in identity(alert)]
    assert len(of_incidents) == 7
    for alert in of_incidents:
        role = {"role"} if "breached" in alert.with_ else set()  # declared by the contract
        assert identity(alert) == {"job", "contract", "metric", "incident", *role}
    for alert in ALERTS.values():
        assert not identity(alert) & {"slice", "group_by", "version", "reference"}


@named
def test_a_quotient_has_something_below_it(alert: Alert) -> None:
    below = re.findall(r"^ *(?:/)\n *(.*)", alert.expr, re.MULTILINE)
    assert len(below) == alert.expr.count("/")
    assert all(re.search(r"(> 0|>= [1-9]\d*)\)$", one) for one in below)


def test_pages_look_at_latches_and_exported_limits_alone() -> None:
    for alert in ALERTS.values():
        if alert.latched:
            always_guards = alert.with_.get("breached", "tpr") not in {*PrimaryMetric}
            assert alert.severity is (Severity.TICKET if always_guards else Severity.PAGE)
            assert alert.expr.endswith("== 1")
            assert not re.search(r"[<>]", alert.expr)
            assert alert.hold_while_absent


@pytest.mark.parametrize("one", INHIBITIONS, ids=lambda one: "|".join(one.while_))
def test_what_is_muted_waits_longer_than_what_mutes_it(one: Inhibition) -> None:
    """Or it is sent before. What only an evaluation can begin cannot begin while none is made."""
    slowest = max(minutes(ALERTS[name]) for name in one.while_)
    muted = [alert for alert in ALERTS.values() if matches(alert, one)]
    assert muted
    for alert in muted:
        assert minutes(alert) > slowest or alert.latched, alert.name
        assert alert.name not in one.while_
        assert set(one.equal) <= identity(alert) | {"job"}


def minutes(alert: Alert) -> int:
    """How long an alert waits before it fires."""
    number, unit = re.fullmatch(r"(\d+)([mhd])", alert.for_ or "0m").groups()  # type: ignore[union-attr]
    return int(number) * {"m": 1, "h": 60, "d": 24 * 60}[unit]


def matches(alert: Alert, inhibition: Inhibition) -> bool:
    """Whether the matcher that is rendered takes an alert."""
    labels = {"alertname": alert.name, "about": alert.about}
    (name, value) = re.fullmatch(r'(\w+)=~"(.*)"', inhibition.mute.matcher).groups()  # type: ignore[union-attr]
    return re.fullmatch(value, labels[name]) is not None


def test_a_breach_of_a_guardrail_is_less_urgent_than_one_of_the_primary_metric() -> None:
    breaches = [alert for alert in ALERTS.values() if alert.name.endswith("Breach")]
    assert len(breaches) == 5
    for alert in breaches:
        may_be_primary = alert.with_["breached"] in {*PrimaryMetric}
        rules = [rule for rule in EVERY_RULE if rule.get("alert") == alert.name]
        assert [rule["expr"].removeprefix(held_name(alert.name)) for rule in rules] == (
            ['{role!="guardrail"}', '{role="guardrail"}'] if may_be_primary else [""]
        )
        runbook = FILES[f"runbooks/{alert.name}.md"]
        assert "everity **ticket**" in runbook
        assert ("everity **page**" in runbook) is may_be_primary


def test_a_disparity_is_never_said_of_people() -> None:
    for alert in ALERTS.values():
        if "incident" in identity(alert) or alert.name == "SlicewatchDrift":
            assert any("not a statement about people" in text for text in texts(alert))
    words = re.compile(r"\b(un)?fair(ly|ness)?\b|\bbias\b|\bdiscriminat|\bprivileged\b", re.I)
    for path, text in FILES.items():
        said = text.replace("about: fairness", "").replace('about="fairness"', "")
        said = said.replace("fairness|probes", "").replace("slicewatch-fairness", "")
        assert not words.search(said), path
    assert "Slicewatch" not in FILES["alertmanager/templates/slicewatch.tmpl"]


def test_flips_are_said_to_be_cases_of_synthetic_requests() -> None:
    for name in ("SlicewatchProbeFlips", "SlicewatchPairFlipRate"):
        (description,) = [text for text in texts(ALERTS[name]) if "Synthetic" in text]
        assert "A flip is a case to investigate, not a population disparity." in description
        page = FILES[f"runbooks/{name}.md"].replace("\n", " ")
        assert "flip is a case to investigate, not a population disparity" in page


def test_probes_and_production_mute_each_other_in_nothing() -> None:
    of_probes = {alert.name for alert in ALERTS.values() if alert.about is About.PROBES}
    of_slices = {alert.name for alert in ALERTS.values() if alert.about is About.FAIRNESS}
    assert "SlicewatchProbeFlips" in of_probes
    for one in INHIBITIONS:
        muted = {alert.name for alert in ALERTS.values() if matches(alert, one)}
        assert not of_probes & {*one.while_}
        assert not (of_slices & {*one.while_} and of_probes & muted)
    blind = {"SlicewatchDown", "SlicewatchAbsent", "SlicewatchEvaluationStale"}
    for source in blind:
        muted = {
            alert.name
            for one in INHIBITIONS
            if source in one.while_
            for alert in ALERTS.values()
            if matches(alert, one)
        }
        assert of_probes <= muted


# promtool


def test_promtool_takes_the_rules_and_the_example_of_a_configuration() -> None:
    for kind, name in (("rules", "rules.yml"), ("config", "prometheus.yml")):
        done = run("promtool", "check", kind, "--lint-fatal", str(DEPLOY / "prometheus" / name))
        assert done.returncode == 0, done.stdout + done.stderr
    with_lint = run(
        "promtool", "check", "rules", "--lint-fatal", str(DEPLOY / "prometheus/rules.yml")
    )
    assert with_lint.returncode == 0, with_lint.stdout + with_lint.stderr


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_promtool_finds_that_alerts_fire_as_they_should(path: Path) -> None:
    done = run("promtool", "test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_seen_to_fire_and_to_be_silent() -> None:
    fires, silent = set[str](), set[str]()
    for path in TESTS:
        document = yaml.safe_load(path.read_text())
        assert document["group_eval_order"] == [group["name"] for group in RULES["groups"]]
        for test in document["tests"]:
            for one in test.get("promql_expr_test", []):
                if found := re.search(r'alertname=~?"([^"]+)"', one["expr"]):
                    meant = {name for name in ALERTS if re.fullmatch(found[1], name)}
                    assert meant, one["expr"]
                    if not one["exp_samples"]:
                        silent |= meant
                    elif len(meant) == 1:
                        fires |= meant
                    else:
                        labels = " ".join(sample["labels"] for sample in one["exp_samples"])
                        fires |= {name for name in meant if f'"{name}"' in labels}
    assert fires == set(ALERTS)
    assert silent == set(ALERTS) - WITHOUT_SILENCE
