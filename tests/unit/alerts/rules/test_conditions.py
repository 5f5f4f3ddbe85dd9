"""Conditions that the status page can tell: each is shown while it holds, as its alert says.

Prometheus judges the same series by the rule, so that page and alert cannot differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from declaring import DECLARING
from monitoring import run
from prometheus_client.samples import Sample
from set_clock import SetClock

from alerts.exposition.catalogue import FAMILIES
from alerts.exposition.exporter import Exporter
from alerts.rules import Alert, Conditions, alerts, declarations, runbooks
from alerts.rules.conditions import WATERMARK, When
from monitor.core.publish.conditions import StandingCondition

NOW = 0.0
"""The time of promtool's first evaluation: instants in the past are negative."""
SEEN, FACTOR = 1_000_000.0, 2.0
"""The watermark, and the value of a metric that a limit is multiplied by."""
TOLD = {alert.key: alert for alert in alerts(DECLARING) if alert.when}
told = pytest.mark.parametrize("alert", TOLD.values(), ids=TOLD)


def condition_of(alert: Alert) -> When:
    assert alert.when is not None
    return alert.when


def value_of(when: When, *, broken: bool) -> float:
    """A value just beyond the limit, or exactly at it."""
    most = when.limit * (FACTOR if when.times else 1)
    step = 1.0 if broken else 0.0
    return {
        "above": most + step,
        "apart": -step,
        "since": step,
        "older": NOW - most - step,
        "due": NOW + most - step,
        "newer": SEEN - most + step,
        "behind": SEEN - most - step,
    }[when.is_]


def series(when: When, value: float, *, matching: bool = True) -> Iterator[Sample]:
    """All series that decide a condition; without ``matching``, its metric has another label."""
    labels = {"metric": "tpr"} if "metric" in when.by else {}
    labels |= {label: f"some {label}" for label in when.by if label not in labels}
    for selector, number in ((when.metric, value), (when.times, FACTOR)):
        if selector is not None:
            name, label, operator, wanted = _parts(selector)
            met = (operator == "=") == (matching or selector is when.times)
            own = {label: wanted if met else "another"} if label else {}
            yield Sample(name, labels | own, number)
    yield Sample(WATERMARK, {}, SEEN)


def _parts(selector: str) -> tuple[str, str, str, str]:
    match = re.fullmatch(r'(\w+)(?:\{(\w+)(!?=)"(\w+)"\})?', selector)
    assert match is not None
    name, label, operator, wanted = match.groups(default="")
    return name, label, operator, wanted


def shown(alert: Alert, samples: Iterator[Sample]) -> list[StandingCondition]:
    exporter = Mock(spec=Exporter, samples=Mock(return_value=list(samples)))
    page = Conditions(DECLARING, "/runbooks", exporter, SetClock(int(NOW)))
    return [condition for condition in page.standing() if condition.condition == alert.key]


def test_an_alert_has_a_condition_or_an_expression_of_its_own() -> None:
    declared = [alert for group in declarations().groups.values() for alert in group]
    assert all(bool(alert.when) != bool(alert.expr) for alert in declared)
    assert len(TOLD) == 25


@told
def test_a_condition_is_shown_while_it_holds(alert: Alert) -> None:
    when = condition_of(alert)
    (condition,) = shown(alert, series(when, value_of(when, broken=True)))
    assert not re.search(r"[{}<>]", condition.sentence), condition.sentence
    for label in set(when.by) - {"metric", "instance"}:
        if f"$labels.{label}" in alert.summary:
            assert f"some {label}" in condition.sentence


@told
def test_a_condition_is_gone_while_it_does_not_hold(alert: Alert) -> None:
    when = condition_of(alert)
    assert shown(alert, series(when, value_of(when, broken=False))) == []
    assert shown(alert, iter(())) == [], "nothing is known"
    if "{" in when.metric:
        others = series(when, value_of(when, broken=True), matching=False)
        assert shown(alert, others) == [], "another series of that metric"


@told
def test_a_condition_names_metrics_that_are_exported_and_a_section_of_a_runbook(
    alert: Alert,
) -> None:
    asked = set(re.findall(r"slicewatch_\w+", alert.expr))
    assert asked <= {family.name for family in FAMILIES.values()}
    when = condition_of(alert)
    (condition,) = shown(alert, series(when, value_of(when, broken=True)))
    file, _, section = condition.runbook.removeprefix("/runbooks/").partition("#")
    text = runbooks(DECLARING)[file]
    assert section == (alert.condition or "")
    assert not section or f"\n## {section}\n" in text


def test_prometheus_judges_the_same_series_alike(tmp_path: Path) -> None:
    """By the expression of the rule, at the same time, as promtool finds."""
    cases = [
        (condition_of(alert), list(series(condition_of(alert), value)))
        for alert in TOLD.values()
        for value in (value_of(condition_of(alert), broken=broken) for broken in (True, False))
    ]
    document = {"rule_files": [], "tests": [_expected(*case) for case in cases]}
    path = tmp_path / "conditions_test.yml"
    path.write_text(yaml.safe_dump(document))
    done = run("promtool", "test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def _expected(when: When, samples: list[Sample]) -> dict[str, object]:
    """A test of promtool: these series, and what the page finds in them."""
    holding = when.holding(samples, NOW)
    return {
        "interval": "1m",
        "input_series": [
            {"series": f"{s.name}{_label_text(s.labels)}", "values": f"{s.value:.9g}"}
            for s in samples
        ],
        "promql_expr_test": [
            {
                "expr": when.query,
                "eval_time": "0m",
                "exp_samples": [
                    {"labels": _label_text(labels), "value": value} for labels, value in holding
                ],
            }
        ],
    }


def _label_text(labels: dict[str, str]) -> str:
    pairs = {"job": "slicewatch", **labels}
    return "{" + ",".join(f'{name}="{value}"' for name, value in pairs.items()) + "}"
