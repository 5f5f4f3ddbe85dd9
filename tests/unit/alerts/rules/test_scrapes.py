"""The rendered prometheus.yml reads the service as its settings have it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from alerts.rules.prometheus import (
    CLIENT_CERTIFICATE,
    CLIENT_KEY,
    TOKEN_FILE,
    example,
    needed_files,
)
from monitor.settings import Alerting, Secret, Server, Settings
from monitor.settings.sections import JudgeSettings, Operations, Token

OURS = Secret("a-token-of-the-test")


def scrapes(**server: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = example(settings(**server))["scrape_configs"]
    return found


def settings(external_url: str = "http://localhost:9095", **server: Any) -> Settings:
    return Settings(server=Server(**server), alerting=Alerting(external_url=external_url))


def targets(job: dict[str, Any]) -> list[str]:
    (static,) = job["static_configs"]
    found: list[str] = static["targets"]
    return found


def test_one_plain_port_on_this_host() -> None:
    (job,) = scrapes()

    assert job["job_name"] == "slicewatch"
    assert targets(job) == ["localhost:9095"]
    assert not {"scheme", "tls_config", "authorization", "relabel_configs"} & job.keys()
    assert needed_files(settings()) == ()


def test_tls_trusts_the_certificate_of_the_port() -> None:
    (job,) = scrapes(tls_cert_file="/etc/s.pem", tls_key_file="/etc/s.key")

    assert (job["scheme"], job["tls_config"]) == ("https", {"ca_file": "/etc/s.pem"})


def test_client_certificates_are_files_that_somebody_must_make() -> None:
    given = {"tls_cert_file": "/etc/s.pem", "client_ca_file": "/etc/clients.pem"}
    (job,) = scrapes(**given)

    assert job["tls_config"]["cert_file"] == CLIENT_CERTIFICATE
    assert job["tls_config"]["key_file"] == CLIENT_KEY
    assert needed_files(settings(**given)) == (CLIENT_CERTIFICATE, CLIENT_KEY)


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ({"token": Secret("", "/run/token")}, "/run/token"),
        ({"token": OURS}, TOKEN_FILE),
        ({"tokens": (Token(name="grafana", token=OURS),)}, TOKEN_FILE),
        ({"tokens": (Token(name="grafana", token=Secret("", "/run/g")),)}, "/run/g"),
        (
            {  # a router's token opens nothing to be read
                "producers": ("router", "prometheus"),
                "tokens": (
                    Token(name="router", token=Secret("", "/run/r")),
                    Token(name="prometheus", token=Secret("", "/run/p")),
                    Token(name="grafana", token=Secret("", "/run/g")),
                ),
            },
            "/run/g",
        ),
        (
            {
                "token": Secret("", "/run/token"),
                "tokens": (Token(name="prometheus", token=Secret("", "/run/p")),),
            },
            "/run/p",
        ),
    ],
)
def test_a_token_is_a_file_and_never_written(given: dict[str, Any], file: str) -> None:
    (job,) = scrapes(**given)

    assert job["authorization"] == {"credentials_file": file}
    assert OURS.reveal() not in str(example(settings(**given)))
    assert needed_files(settings(**given)) == ((file,) if file == TOKEN_FILE else ())


def test_a_second_port_is_a_second_target_of_the_same_job() -> None:
    operations = Operations(listen="127.0.0.1:9096")
    fairness, own = scrapes(token=Secret("", "/run/token"), operations=operations)

    assert targets(own) == ["localhost:9096"]
    assert own["job_name"] != fairness["job_name"]
    assert own["relabel_configs"] == [{"target_label": "job", "replacement": "slicewatch"}]
    assert not {"scheme", "authorization"} & own.keys()


def test_a_declared_judge_is_a_job_of_its_own() -> None:
    declared = msgspec.structs.replace(settings(), judge=JudgeSettings(model="judge-model"))
    _, judge = example(declared)["scrape_configs"]

    assert (judge["job_name"], targets(judge)) == ("slicewatch-judge", ["localhost:9096"])
    assert "relabel_configs" not in judge  # or a judge that is down would be a service that is down


@pytest.mark.parametrize(
    ("host", "target"),
    [
        ("127.0.0.1", "localhost:9095"),
        ("[::1]", "localhost:9095"),
        ("0.0.0.0", "fairness.example:9095"),
        ("[::]", "fairness.example:9095"),
        ("10.0.0.7", "10.0.0.7:9095"),
        ("[fd00::7]", "[fd00::7]:9095"),
    ],
)
def test_the_target_is_where_the_port_is_reached(host: str, target: str) -> None:
    (job,) = scrapes(external_url="https://fairness.example:443", listen=f"{host}:9095")

    assert targets(job) == [target]
