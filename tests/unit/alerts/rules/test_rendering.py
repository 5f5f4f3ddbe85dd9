"""Rules, texts and runbooks: every name exists, and no known trap is in them.

What fires when is in deploy/prometheus/*_test.yml, which promtool runs here; rules about what must
be declared are in rules_declared_test.yml.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from declaring import DECLARING
from monitoring import run

from alerts.exposition.catalogue import CATALOGUE
from alerts.rules import (
    About,
    Alert,
    AlertSubject,
    Inhibition,
    Severity,
    alerts,
    breach_runbooks,
    declarations,
    held_name,
    rendered,
)
from monitor.cli import cli
from monitor.core.blindness import Blind
from monitor.core.contract import LIMITED_METRICS
from monitor.settings import Settings

DEPLOY = Path(__file__).parents[4] / "deploy"
PLAIN = rendered(Settings())
FILES = rendered(DECLARING)
SHOWN = {shown.record for shown in AlertSubject}
ALERTS = {alert.key: alert for alert in alerts(DECLARING)}
INHIBITIONS = declarations().inhibitions
RULES = yaml.safe_load(FILES["prometheus/rules.yml"])
EVERY_RULE = [rule for group in RULES["groups"] for rule in group["rules"]]
TESTS = sorted(DEPLOY.glob("prometheus/*_test.yml"))
DECLARED_TEST = Path(__file__).with_name("rules_declared_test.yml")
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


def rules_of(alert: Alert) -> list[dict[str, Any]]:
    named = (rule for rule in EVERY_RULE if rule.get("alert") == alert.name)
    return [rule for rule in named if rule["labels"].get("condition") == alert.condition]


def pages(alert: Alert) -> list[str]:
    """Its runbooks: one, or one for each metric."""
    return [FILES[f"runbooks/{name}.md"] for name in alert.runbooks]


def texts(alert: Alert) -> list[str]:
    """What it says."""
    (rule,) = rules_of(alert)
    return list(rule["annotations"].values())


# Severity


def test_a_breach_is_sent_as_what_its_series_says() -> None:
    (rule,) = rules_of(ALERTS["SlicewatchBreach"])
    assert "severity" not in rule["labels"]
    assert {"severity"} < identity(ALERTS["SlicewatchBreach"])
    assert {*breach_runbooks()} == {*LIMITED_METRICS.values()}


def test_what_is_on_the_weekly_list_is_a_ticket() -> None:
    (rule,) = rules_of(ALERTS["SlicewatchGapTicket"])
    assert rule["labels"]["severity"] == Severity.TICKET


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
    assert recorded == SHOWN | {held_name(a.key) for a in ALERTS.values() if a.hold_while_absent}
    read = {n for r in EVERY_RULE for n in re.findall(r"\w+:\w+:\w+", r["expr"])}
    assert read == recorded


def test_what_is_held_asks_for_states_that_are_shown_in_its_own_query() -> None:
    """A record of them may be of another moment: series can end between two rules."""
    assert {alert.hold_while_absent for alert in ALERTS.values()} == {*AlertSubject, None}
    for alert in ALERTS.values():
        shown = alert.hold_while_absent
        if shown is None:
            continue
        (rule,) = [r for r in EVERY_RULE if r.get("record") == held_name(alert.key)]
        own = shown.record
        assert rule["expr"].count(own) == rule["expr"].count(f"last_over_time({own}[") == 1
        assert f"unless on (job, {shown}) {shown.family})" in rule["expr"]
        assert {"job", shown} <= identity(alert)
        assert [one for one in SHOWN if one in rule["expr"]] == [own]


def test_every_alert_that_is_named_is_there() -> None:
    known = {alert.name for alert in ALERTS.values()} | {"SlicewatchMessage"}
    for path, text in FILES.items():
        for name in re.findall(r"\bSlicewatch[A-Z]\w+", text):
            assert name in known, f"{path}: {name}"


def test_rules_and_runbooks_about_what_is_not_declared_are_left_out() -> None:
    for declared in ("probes.sets", "bias_dimension"):
        mine = {alert.key for alert in ALERTS.values() if alert.only_with == declared}
        assert mine
        assert not mine & {alert.key for alert in alerts(Settings())}
    rules = PLAIN["prometheus/rules.yml"]
    assert "slicewatch_probe" not in rules
    assert "slicewatch_bias" not in rules
    assert set(FILES) - set(PLAIN) == {"runbooks/SlicewatchProbeFlips.md"}
    assert "probes_overdue" not in PLAIN["runbooks/SlicewatchNeedsAttention.md"]


def test_nothing_else_is_beside_the_rendered_files() -> None:
    kept = {
        str(path.relative_to(DEPLOY))
        for folder in ("prometheus", "alertmanager", "runbooks", "grafana")
        for path in (DEPLOY / folder).rglob("*")
        if path.is_file()
    }
    beside = {name for name in PLAIN if name.startswith("kubernetes/")}  # of written manifests
    assert beside == {"kubernetes/base/prometheus-rule.yaml"}
    assert kept - {str(path.relative_to(DEPLOY)) for path in TESTS} == set(PLAIN) - beside


@named
def test_an_alert_links_to_its_runbook(alert: Alert) -> None:
    base = "http://localhost:9095/runbooks"
    (url,) = (text for text in texts(alert) if text.startswith(base))
    file, _, anchor = url.replace("{{ $labels.metric }}", "tpr").partition("#")
    assert file.removeprefix(f"{base}/").removesuffix(".md") in alert.runbooks
    assert anchor == (alert.condition or "")
    for page in pages(alert):
        assert alert.expr in page
        assert not alert.condition or f"\n## {alert.condition}\n\nFirst: " in page


PROSE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
MOST_WORDS, MOST_OF_A_SECTION = 300, 75


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("runbooks/")])
def test_a_runbook_is_short_and_begins_with_what_to_do_first(name: str) -> None:
    page = FILES[name]
    first = page.split("\n\n")[1]
    assert first.startswith("First: ")
    assert "\nOwner: " in page
    prose = PROSE.sub("", page)
    if "NeedsAttention" in name:  # who reads it, reads the section of the condition
        assert max(len(section.split()) for section in prose.split("\n## ")) <= MOST_OF_A_SECTION
    else:
        assert len(prose.split()) <= MOST_WORDS
        assert "Do not " in page


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("runbooks/")])
def test_commands_in_a_runbook_exist(name: str) -> None:
    for line in re.findall(r"`slicewatch ([^`]+)`", FILES[name]):
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
    page = FILES["runbooks/SlicewatchNeedsAttention.md"].partition("## decisions_late")[2]
    page = page.partition("\n## ")[0]
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
    for alert in ALERTS.values():
        for rule in rules_of(alert):
            severity = {} if alert.by_severity else {"severity": alert.severity}
            condition = {"condition": alert.condition} if alert.condition else {}
            assert rule["labels"] == {**severity, "about": alert.about.value, **condition}


def test_an_incident_is_its_contract_metric_and_number_whatever_is_shown_of_it() -> None:
    of_incidents = [alert for alert in ALERTS.values() if "incident" in identity(alert)]
    assert len(of_incidents) == 3
    for alert in of_incidents:
        severity = {"severity"} if alert.by_severity else set()  # declared by the contract
        assert identity(alert) == {"job", "contract", "metric", "incident", *severity}
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
            assert alert.severity is Severity.PAGE
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
        assert not {alert.name, alert.condition} & {*one.while_}
        assert set(one.equal) <= identity(alert) | {"job"}


def minutes(alert: Alert) -> int:
    """How long an alert waits before it fires."""
    number, unit = re.fullmatch(r"(\d+)([mhd])", alert.for_ or "0m").groups()  # type: ignore[union-attr]
    return int(number) * {"m": 1, "h": 60, "d": 24 * 60}[unit]


def matches(alert: Alert, inhibition: Inhibition) -> bool:
    """Whether the matcher that is rendered takes an alert."""
    labels = {"alertname": alert.name, "about": alert.about, "condition": alert.condition or ""}
    (name, value) = re.fullmatch(r'(\w+)=~"(.*)"', inhibition.mute.matcher).groups()  # type: ignore[union-attr]
    return re.fullmatch(value, labels[name]) is not None


def test_a_runbook_of_a_breach_says_that_the_contract_decides_who_is_woken() -> None:
    breach = ALERTS["SlicewatchBreach"]
    assert len(pages(breach)) == 5
    for runbook in pages(breach):
        assert "Severity **page** (somebody is woken), or **ticket** " in runbook
        assert "as the contract says of the broken limit" in " ".join(runbook.split())


def test_a_disparity_is_never_said_of_people() -> None:
    for alert in ALERTS.values():
        if "incident" in identity(alert) or alert.condition == "drift":
            assert any("not a statement about people" in text for text in texts(alert))
    words = re.compile(r"\b(un)?fair(ly|ness)?\b|\bbias\b|\bdiscriminat|\bprivileged\b", re.I)
    for path, text in FILES.items():
        said = text.replace("about: fairness", "").replace('about="fairness"', "")
        said = said.replace("fairness|probes", "").replace("slicewatch-fairness", "")
        assert not words.search(said), path
    assert "Slicewatch" not in FILES["alertmanager/templates/slicewatch.tmpl"]


def test_flips_are_said_to_be_cases_of_synthetic_requests() -> None:
    for name in ("SlicewatchProbeFlips", "pair_flip_rate"):
        (description,) = [text for text in texts(ALERTS[name]) if "Synthetic" in text]
        assert "A flip is a case to investigate, not a population disparity." in description
        (page,) = pages(ALERTS[name])
        assert "flip is a case to investigate, not a population disparity" in page


def test_probes_and_production_mute_each_other_in_nothing() -> None:
    of_probes = {alert.key for alert in ALERTS.values() if alert.about is About.PROBES}
    of_slices = {alert.key for alert in ALERTS.values() if alert.about is About.FAIRNESS}
    assert "SlicewatchProbeFlips" in of_probes
    for one in INHIBITIONS:
        muted = {alert.key for alert in ALERTS.values() if matches(alert, one)}
        assert not of_probes & {*one.while_}
        assert not (of_slices & {*one.while_} and of_probes & muted)
    blind = {"SlicewatchDown", "SlicewatchEvaluationStale"}
    for source in blind:
        muted = {
            alert.key
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


def test_promtool_finds_that_alerts_about_what_is_declared_do_so_too(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(FILES["prometheus/rules.yml"])
    done = run("promtool", "test", "rules", str(shutil.copy(DECLARED_TEST, tmp_path)))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_message_has_six_lines_at_most_and_no_precise_durations() -> None:
    for path in (*TESTS, DECLARED_TEST):
        for test in yaml.safe_load(path.read_text())["tests"]:
            for rule in test.get("alert_rule_test", []):
                for shown in rule["exp_alerts"]:
                    said = shown["exp_annotations"]
                    assert len(said["description"].splitlines()) <= 3
                    assert said["runbook_url"].startswith("http")
    for alert in ALERTS.values():
        for text in texts(alert):
            assert "\n" not in text or text.count("\n") <= 2
            assert text.count("humanizeDuration") == text.count("humanizeDuration | reReplaceAll")


def test_every_alert_is_seen_to_fire_and_to_be_silent() -> None:
    fires, silent = set[str](), set[str]()
    for path in (*TESTS, DECLARED_TEST):
        document = yaml.safe_load(path.read_text())
        kept = RULES if path == DECLARED_TEST else yaml.safe_load(PLAIN["prometheus/rules.yml"])
        assert document["group_eval_order"] == [group["name"] for group in kept["groups"]]
        for test in document["tests"]:
            for one in test.get("promql_expr_test", []):
                if meant := selected(one["expr"]):
                    if not one["exp_samples"]:
                        silent |= meant
                    elif len(meant) == 1:
                        fires |= meant
                    else:
                        labels = " ".join(sample["labels"] for sample in one["exp_samples"])
                        fires |= {key for key in meant if f'"{key}"' in labels}
    assert fires == set(ALERTS)
    assert silent == set(ALERTS) - WITHOUT_SILENCE


def selected(expr: str) -> set[str]:
    """The keys of the alerts that a test asks for."""
    name = re.search(r'alertname=~?"([^"]+)"', expr)
    if name is None:
        return set()
    condition = re.search(r'condition=~?"([^"]*)"', expr)
    meant = {
        alert.key
        for alert in ALERTS.values()
        if re.fullmatch(name[1], alert.name)
        and (condition is None or re.fullmatch(condition[1], alert.condition or ""))
    }
    assert meant, expr
    return meant
