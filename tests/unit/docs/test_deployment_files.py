"""The files of ``deploy`` that run it: right by their schemas, and in keeping with the program."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from deployed import (
    DEPLOY,
    SLICEWATCH,
    Document,
    entry_point,
    image_environment,
    image_health_check,
    instructions,
    kustomized,
    pod_template,
)
from monitoring import binary, run
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from programs import program

from alerts.exposition.catalogue import CATALOGUE
from monitor.cli import cli
from monitor.service import STOP_SECONDS
from monitor.settings import load

ROOT = DEPLOY.parent
COMPOSE: Document = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
OURS = {name: one for name, one in COMPOSE["services"].items() if one["image"] == SLICEWATCH}
FOLDERS = ("base", "overlays/example")
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
WORKLOADS = {"StatefulSet", "Deployment", "Job", "CronJob"}
PROGRAM_ENDS = STOP_SECONDS + 2  # seconds after SIGTERM, as the service promises
OPERATIONS = {"/livez", "/readyz", "/startupz"}


@pytest.fixture(scope="module", params=FOLDERS)
def manifests(request: pytest.FixtureRequest) -> list[Document]:
    return kustomized(DEPLOY / "kubernetes" / request.param)


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program(name), *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def command_of(words: list[str]) -> click.Command:
    """The command of these arguments, all of whose options it has."""
    found: click.Command = cli
    context = click.Context(cli)
    while isinstance(found, click.Group) and words and not words[0].startswith("-"):
        deeper = found.get_command(context, words[0])
        assert deeper is not None, words
        found, words = deeper, words[1:]
    found.make_parser(click.Context(found)).parse_args([*words])
    return found


# The image


def test_the_dockerfile_is_good_by_its_linter() -> None:
    found = tool("hadolint", str(DEPLOY / "docker" / "Dockerfile"))
    assert (found.returncode, found.stdout) == (0, "")


def test_the_image_starts_what_it_checks() -> None:
    assert entry_point() == ("slicewatch",)
    (default,) = instructions("CMD")
    assert command_of(yaml.safe_load(default)).name == "run"
    assert command_of([*image_health_check()[1:]]).name == "health"
    assert instructions("USER") == ["10001:10001"]
    assert image_environment()["SLICEWATCH_SETTINGS"] == "/etc/slicewatch/slicewatch.toml"


def test_its_python_is_one_that_is_tested() -> None:
    bases = re.findall(r"^FROM python:(\d\.\d+)\.\d+-slim-\w+", text_of("docker/Dockerfile"), re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert len(bases) == 2
    for base in bases:
        assert f"Programming Language :: Python :: {base}" in project["classifiers"]


def test_the_image_installs_what_the_project_requires_and_by_hash() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pins = re.findall(
        r"^([a-z0-9-]+)(?:\[\w+\])?==(\S+).*\\\n    --hash=sha256:", lock, re.MULTILINE
    )
    locked = {name: Version(version) for name, version in pins}
    assert len(pins) == len(re.findall(r"^\w", lock, re.MULTILINE)), "each pin has a hash"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *extras["avro"], *extras["postgresql"]]
    for requirement in map(Requirement, [*required, *extras["librdkafka"]]):
        version = locked[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, f"{requirement}: run make lock"


def test_the_wheel_is_built_of_what_is_copied(tmp_path: Path) -> None:
    """Nothing that the build needs is left out, nor kept out by the ignore file."""
    text = text_of("docker/Dockerfile")
    copied = [one.split()[:-1] for one in re.findall(r"^COPY (?!--)(.*)$", text, re.M)]
    allowed = set(re.findall(r"^!(.*)$", text_of("docker/Dockerfile.dockerignore"), re.M))
    names = {name for one in copied for name in one}
    assert names == allowed
    for name in names:
        source, target = ROOT / name, tmp_path / "source" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), "."],
        cwd=tmp_path / "source", capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert len([*tmp_path.glob("slicewatch-*.whl")]) == 1


def text_of(name: str) -> str:
    return (DEPLOY / name).read_text()


def test_every_file_names_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"slicewatch:{version}" == SLICEWATCH
    assert f"--tag slicewatch:{version}" in text_of("docker/Dockerfile")
    assert f"newTag: {version}" in text_of("kubernetes/overlays/example/kustomization.yaml")


# compose.yaml


def test_compose_is_valid_by_the_published_schema() -> None:
    file = str(DEPLOY / "compose" / "compose.yaml")
    found = tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", file)
    assert found.returncode == 0, found.stdout


def test_its_services_are_locked_down_and_given_their_time() -> None:
    assert {"ingest-1", "ingest-2", "serve-1", "serve-2", "migrate", "traffic"} == {*OURS}
    for name, service in OURS.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert float(service["stop_grace_period"].removesuffix("s")) > PROGRAM_ENDS, name


def test_its_commands_exist() -> None:
    for service in OURS.values():
        if "entrypoint" not in service:
            command_of([*service["command"]])


def test_whatever_is_waited_for_is_there_and_can_be() -> None:
    for service in COMPOSE["services"].values():
        for name, need in service.get("depends_on", {}).items():
            other = COMPOSE["services"][name]
            healthy = need["condition"] == "service_healthy"
            assert healthy == ("test" in other.get("healthcheck", {})), name


def test_ports_are_published_on_this_machine_alone() -> None:
    ports = [one for service in COMPOSE["services"].values() for one in service.get("ports", ())]
    assert len(ports) == 5
    assert all(one.startswith("127.0.0.1:") for one in ports)
    assert len({one.rsplit(":", 1)[0] for one in ports}) == len(ports)


def test_every_mounted_file_is_there() -> None:
    for name, service in COMPOSE["services"].items():
        for one in service.get("volumes", ()):
            source = one.split(":")[0]
            assert (DEPLOY / "compose" / source).exists() or source in COMPOSE["volumes"], name
    for one in COMPOSE["configs"].values():
        assert (DEPLOY / "compose" / one["file"]).exists()


def test_secrets_are_made_once_and_kept(tmp_path: Path) -> None:
    script = str(DEPLOY / "compose" / "make-secrets.sh")
    texts = []
    for _ in range(2):
        subprocess.run([script, str(tmp_path)], check=True, capture_output=True)
        files = [one for one in tmp_path.rglob("*") if one.is_file()]
        texts.append({one.name: one.read_text() for one in files})
    assert texts[0] == texts[1]
    values = {*re.findall(r"^\w+=([0-9a-f]{48})$", texts[0].pop(".env"), re.M)}
    wanted = set(re.findall(r"\$\{(\w+):\?", text_of("compose/compose.yaml")))
    assert len(values) == len(wanted)
    assert {*texts[0]} == {*COMPOSE["secrets"]}
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0


def test_its_prometheus_scrapes_every_process_under_the_job_of_the_alerts(tmp_path: Path) -> None:
    text = text_of("compose/prometheus.yml")
    file = tmp_path / "prometheus.yml"
    file.write_text(text.replace("rules.yml", str(DEPLOY / "prometheus" / "rules.yml")))
    checked = run("promtool", "check", "config", "--syntax-only", str(file))
    assert checked.returncode == 0, checked.stderr
    jobs = yaml.safe_load(text)["scrape_configs"]
    targets = {one for job in jobs for config in job["static_configs"] for one in config["targets"]}
    running = {name for name in OURS if name.startswith(("ingest", "serve"))}
    assert targets == {f"{name}:{port}" for name in running for port in (9095, 9096)}
    assert jobs[0]["job_name"] == jobs[1]["relabel_configs"][0]["replacement"] == "slicewatch"


def test_its_grafana_knows_where_the_data_source_is() -> None:
    needed = set(
        re.findall(r"\$(\w+)", text_of("grafana/provisioning/datasources/slicewatch.yaml"))
    )
    assert needed <= set(COMPOSE["services"]["grafana"]["environment"])


# Kubernetes


def test_manifests_are_valid_by_the_schemas_of_kubernetes(
    manifests: list[Document], tmp_path: Path
) -> None:
    file = tmp_path / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    found = tool("kubernetes-validate", "--strict", "-k", "1.33", str(file))
    said = found.stdout + found.stderr
    assert found.returncode == 0, said
    unknown = re.findall(r"Couldn't find schema for kind (\w+)", said)
    assert sorted(unknown) == ["PodMonitor", "PrometheusRule"]  # resources of an operator
    assert said.count(" passed ") == len(manifests) - len(unknown)


def pods(manifests: list[Document]) -> dict[str, Document]:
    chosen = [one for one in manifests if one["kind"] in WORKLOADS]
    return {one["metadata"]["name"]: pod_template(one)["spec"] for one in chosen}


def test_every_pod_runs_a_command_of_the_program(manifests: list[Document]) -> None:
    commands = {
        name: command_of([*pod["containers"][0]["args"]]).name
        for name, pod in pods(manifests).items()
    }
    assert commands == {
        "slicewatch-ingest": "ingest",
        "slicewatch-serve": "serve",
        "slicewatch-migrate": "migrate",
        "slicewatch-report": "report",
    }


def test_every_pod_is_locked_down(manifests: list[Document]) -> None:
    for pod in pods(manifests).values():
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


def test_services_have_all_three_probes_and_time_to_end(manifests: list[Document]) -> None:
    for name in ("slicewatch-ingest", "slicewatch-serve"):
        pod = pods(manifests)[name]
        probes = [
            pod["containers"][0][f"{kind}Probe"]["httpGet"]
            for kind in ("startup", "liveness", "readiness")
        ]
        assert {one["path"] for one in probes} == OPERATIONS
        assert {one["port"] for one in probes} == {"operations"}
        assert pod["terminationGracePeriodSeconds"] > PROGRAM_ENDS


def test_secrets_are_referred_to_and_never_here(manifests: list[Document]) -> None:
    assert not [one for one in manifests if one["kind"] == "Secret"]
    text = yaml.safe_dump_all(manifests)
    header = text_of("kubernetes/overlays/example/kustomization.yaml")
    named = set(re.findall(r"secretName: ([\w-]+)", text)) | {"slicewatch-database"}
    assert named == set(re.findall(r"^#   (slicewatch[\w-]*) ", header, re.M))
    assert set(re.findall(r"key: ([\w-]+-url)", text)) == {"service-url", "deploy-url"}


def test_the_ports_are_those_of_the_settings(manifests: list[Document], tmp_path: Path) -> None:
    (settings,) = [one for one in manifests if one["kind"] == "ConfigMap"]
    file = tmp_path / "slicewatch.toml"
    file.write_text(settings["data"]["slicewatch.toml"])
    server = load(file, {}, with_secrets=False).server
    for name in ("slicewatch-ingest", "slicewatch-serve"):
        ports = pods(manifests)[name]["containers"][0]["ports"]
        numbers = {one["name"]: one["containerPort"] for one in ports}
        assert numbers == {"fairness": server.port, "operations": server.operations.port}


def test_the_resource_of_the_rules_has_the_rendered_rules() -> None:
    resource = yaml.safe_load(text_of("kubernetes/base/prometheus-rule.yaml"))
    assert resource["kind"] == "PrometheusRule"
    assert resource["spec"] == yaml.safe_load(text_of("prometheus/rules.yml"))


def test_the_pod_monitor_reads_both_ports_of_workers_and_servers(manifests: list[Document]) -> None:
    (found,) = [one for one in manifests if one["kind"] == "PodMonitor"]
    endpoints = {one["port"]: one for one in found["spec"]["podMetricsEndpoints"]}
    assert set(endpoints) == {"fairness", "operations"}
    assert endpoints["fairness"]["scheme"] == "https"
    assert all(one["relabelings"][0]["replacement"] == "slicewatch" for one in endpoints.values())
    (chosen,) = found["spec"]["selector"]["matchExpressions"]
    assert chosen["values"] == ["ingest", "serve"]


def test_the_scaler_goes_by_a_metric_that_there_is(manifests: list[Document]) -> None:
    (found,) = [one for one in manifests if one["kind"] == "HorizontalPodAutoscaler"]
    name = found["spec"]["metrics"][0]["pods"]["metric"]["name"]
    assert name in {family.name for family in CATALOGUE}
    target: Any = found["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("StatefulSet", "slicewatch-ingest")


# systemd


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_right_by_systemd(unit: Path, tmp_path: Path) -> None:
    for one in (DEPLOY / "systemd").iterdir():
        text = one.read_text().replace("/opt/slicewatch/bin/slicewatch", program("slicewatch"))
        (tmp_path / one.name).write_text(text)
    name = unit.name.replace("@", "@1")
    analyze = binary("systemd-analyze")
    found = run(analyze, "verify", "--man=no", str(tmp_path / name))
    assert (found.returncode, found.stderr) == (0, "")
    hard = run(analyze, "security", "--offline=true", "--threshold=20", str(tmp_path / unit.name))
    assert hard.returncode == 0, hard.stdout  # of 100, the lower the better


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_runs_a_command_and_gives_it_time(unit: Path) -> None:
    text = unit.read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.M)
    name = command_of(line.split()[1:]).name or ""
    assert name in unit.name or name == "run"
    if name != "report":
        (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.M)
        assert int(seconds) > PROGRAM_ENDS


def test_the_timer_starts_the_report() -> None:
    assert (DEPLOY / "systemd" / "slicewatch-report.timer").with_suffix(".service") in UNITS


def test_provisioned_dashboards_are_where_grafana_looks() -> None:
    mounts = COMPOSE["services"]["grafana"]["volumes"]
    text = (DEPLOY / "grafana" / "provisioning/dashboards/slicewatch.yaml").read_text()
    path = yaml.safe_load(text)["providers"][0]["options"]["path"]
    assert f"../grafana/dashboards:{path}:ro" in mounts
    for name in ("dashboards", "datasources"):
        folder = f"grafana/provisioning/{name}"
        assert f"../{folder}:/etc/{folder}:ro" in mounts
