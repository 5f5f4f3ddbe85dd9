"""Alertmanager's configuration: amtool takes it, routes as meant, and no secret is in it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from id_keys import KEY, WITH_KEY
from monitoring import run

from alerts.rules import Severity, alerts, rendered
from monitor import settings as api
from monitor.errors import SettingsError

REFERENCE = Path(__file__).parents[4] / "deploy" / "slicewatch.reference.toml"
SECRETS = "/run/secrets/slicewatch"
ADDRESSED = {
    "SLICEWATCH__REPORT__TIMEZONE": "Europe/Berlin",
    "SLICEWATCH__ALERTING__OFFICE_HOURS": "saturday-monday 09:00-24:00,friday 09:00-15:00",
    **{
        f"SLICEWATCH__ALERTING__{name}__{key}": value
        for name in ("PAGE", "TICKET", "VISIBLE", "DEADMAN")
        for key, value in (
            ("WEBHOOK_URL", f"https://{name.lower()}.example/hook"),
            ("WEBHOOK_TOKEN_FILE", f"{SECRETS}/{name.lower()}"),
            ("CHAT_URL_FILE", f"{SECRETS}/{name.lower()}_chat"),
        )
    },
}


def files(**env: str) -> dict[str, str]:
    return _files(frozenset(env.items()))


@cache
def _files(env: frozenset[tuple[str, str]]) -> dict[str, str]:
    return rendered(api.load(REFERENCE, WITH_KEY | dict(env)))


def configuration(**env: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(files(**env)["alertmanager/alertmanager.yml"])
    return found


@pytest.fixture(params=["defaults", "addressed"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A rendered configuration with its templates beside it."""
    chosen = files(**(ADDRESSED if request.param == "addressed" else {}))
    for name, text in chosen.items():
        if name.startswith("alertmanager/"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return tmp_path / "alertmanager" / "alertmanager.yml"


def test_amtool_takes_configuration_and_templates(config: Path) -> None:
    done = run("amtool", "check-config", str(config))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 templates" in done.stdout


def test_a_broken_template_would_be_found(config: Path) -> None:
    (config.parent / "templates" / "slicewatch.tmpl").write_text('{{ define "x" }}')
    assert run("amtool", "check-config", str(config)).returncode != 0


@pytest.mark.parametrize("alert", alerts(api.Settings()), ids=lambda alert: alert.key)
def test_every_alert_goes_where_its_severity_says(alert: Any, config: Path) -> None:
    receivers = {
        Severity.PAGE: "page",
        Severity.TICKET: "ticket",
        Severity.INFO: "visible",
        Severity.NONE: "deadman",
    }
    routed = ("amtool", "config", "routes", "test", f"--config.file={config}")
    for severity in {alert.severity, Severity.TICKET if alert.by_severity else alert.severity}:
        labels = [f"alertname={alert.name}", f"severity={severity}", f"about={alert.about}"]
        right = f"--verify.receivers={receivers[severity]}"
        for contract in ("reply-routing", "other"):
            done = run(*routed, right, *labels, f"contract={contract}")
            assert done.returncode == 0, done.stdout + done.stderr
        wrong = run(*routed, "--verify.receivers=nobody", *labels)
        assert wrong.returncode == 1


def test_what_is_of_nobody_is_a_ticket(config: Path) -> None:
    done = run(
        *("amtool", "config", "routes", "test", f"--config.file={config}"),
        *("--verify.receivers=ticket", "alertname=SomethingElse"),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def routes(severity: str, **env: str) -> list[dict[str, Any]]:
    found = configuration(**env)["route"]["routes"]
    return [route for route in found if f'severity="{severity}"' in route["matchers"]]


def test_tickets_are_sent_in_office_hours_and_pages_always() -> None:
    (ticket,), (page,) = routes("ticket"), routes("page")
    assert ticket["active_time_intervals"] == ["office-hours"]
    assert "active_time_intervals" not in page
    (office,) = configuration(**ADDRESSED)["time_intervals"]
    long, short = office["time_intervals"]
    assert office["name"] == "office-hours"
    assert long == {
        "weekdays": ["saturday", "sunday", "monday"],
        "times": [{"start_time": "09:00", "end_time": "24:00"}],
        "location": "Europe/Berlin",
    }
    assert short["weekdays"] == ["friday"]


def test_an_end_is_said_of_what_somebody_has_to_do_alone() -> None:
    for receiver in configuration(**ADDRESSED)["receivers"]:
        (webhook,), (chat,) = receiver["webhook_configs"], receiver["slack_configs"]
        expected = receiver["name"] in ("page", "ticket")
        assert (webhook["send_resolved"], chat["send_resolved"]) == (expected, expected)


def test_secrets_are_named_by_their_files() -> None:
    (page, *_) = configuration(**ADDRESSED)["receivers"]
    (webhook,), (chat,) = page["webhook_configs"], page["slack_configs"]
    login = {"credentials_file": f"{SECRETS}/page"}
    assert webhook["http_config"] == {"authorization": login}
    assert chat["api_url_file"] == f"{SECRETS}/page_chat"
    told = {**ADDRESSED, "SLICEWATCH__SERVER__TOKEN": "s3cret-token-of-the-server"}
    for text in files(**told).values():
        assert "s3cret" not in text
        assert KEY not in text


def test_one_group_a_metric_of_a_contract_and_one_a_condition() -> None:
    route = configuration()["route"]
    assert route["group_by"] == ["alertname", "condition", "job", "contract", "metric"]
    assert all("group_by" not in one for one in route["routes"])


def test_what_mutes_and_is_muted_is_matched_by_its_name_or_its_condition() -> None:
    muted = {
        (*rule["source_matchers"], *rule["target_matchers"])
        for rule in configuration()["inhibit_rules"]
    }
    assert ('alertname=~"SlicewatchBreach"', 'condition=~"drift"') in muted
    assert ('condition=~"consumer_stuck"', 'condition=~"consumer_lag|labels_stale"') in muted


@pytest.mark.parametrize(
    "address",
    ["https://u:p@host", "https://host/?token=x", "https://host/{{ 1 }}", 'https://host/"', "host"],
)
def test_addresses_hold_neither_secrets_nor_templates(address: str) -> None:
    with pytest.raises(SettingsError, match=r"^alerting\.external_url: "):
        files(SLICEWATCH__ALERTING__EXTERNAL_URL=address)
