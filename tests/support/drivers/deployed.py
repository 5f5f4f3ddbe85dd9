"""What ``deploy`` says of processes, taken out of its files: commands, environment, files, probes.

Nothing here knows what slicewatch is: a command is run as it is written, after the names that only
containers have (hosts, mount points) were replaced by those of this machine.
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from programs import program

DEPLOY = Path(__file__).parents[3] / "deploy"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
SLICEWATCH = "slicewatch:0.1.0"
"""The image's name in compose.yaml."""
QUICK = {"SLICEWATCH__EVALUATE__CYCLE": "1s"}
"""The one thing that is changed: tests wait for the ends of cycles, which are 10 s apart."""
Document = dict[str, Any]


@dataclass(frozen=True)
class Probe:
    """A health check: a command to run, or an address to read.

    Attributes:
        name: of the probe, for messages.
        command: exits with 0; empty for an address.
        path: of a port of the process.
        port: number.
    """

    name: str
    command: tuple[str, ...] = ()
    path: str = ""
    port: int = 0


@dataclass(frozen=True)
class Container:
    """One container as a file describes it.

    Attributes:
        name: of the service or pod.
        command: with its entry point, as the container would run it.
        environment: names and values, those of the image too.
        mounts: path in the container -> file or folder of this machine.
        probes: all that are declared.
        grace: seconds between SIGTERM and SIGKILL.
        needs: names of containers that must have succeeded or be healthy before.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: Mapping[str, Path]
    probes: tuple[Probe, ...]
    grace: float
    needs: Mapping[str, str] = field(default_factory=dict)


# The Dockerfile


def instructions(name: str) -> list[str]:
    """Arguments of every such instruction of the last stage."""
    text = re.sub(r"\\\n\s*", " ", DOCKERFILE.read_text())
    last = re.split(r"^FROM .*$", text, flags=re.MULTILINE)[-1]
    return re.findall(rf"^{name} (.*)$", last, re.MULTILINE)


def image_environment() -> dict[str, str]:
    (text,) = instructions("ENV")
    pairs = (one.partition("=") for one in shlex.split(text))
    return {name: value for name, _, value in pairs}


def entry_point() -> tuple[str, ...]:
    (text,) = instructions("ENTRYPOINT")
    return tuple(yaml.safe_load(text))


def image_health_check() -> tuple[str, ...]:
    (text,) = instructions("HEALTHCHECK")
    return tuple(yaml.safe_load(text.partition("CMD ")[2]))


# compose.yaml


class Compose:
    """``compose.yaml`` with the variables of an ``.env`` file put in."""

    folder = DEPLOY / "compose"

    def __init__(self, variables: Mapping[str, str], secrets: Path) -> None:
        text = (self.folder / "compose.yaml").read_text()
        self._variables = variables
        self._secrets = secrets
        self.document: Document = yaml.safe_load(text)

    @property
    def services(self) -> dict[str, Document]:
        found: dict[str, Document] = self.document["services"]
        return found

    def container(self, name: str) -> Container:
        """A service as a container."""
        service = self.services[name]
        ours = service["image"] == SLICEWATCH
        entry = service.get("entrypoint") or (entry_point() if ours else ())
        environment = {**(image_environment() if ours else {}), **service.get("environment", {})}
        return Container(
            name,
            tuple(self._filled(word) for word in [*entry, *service.get("command", ())]),
            {key: self._filled(value) for key, value in environment.items()},
            dict(self._mounts(service)),
            tuple(self._probes(service)),
            float(str(service.get("stop_grace_period", "10s")).removesuffix("s")),
            {key: one["condition"] for key, one in service.get("depends_on", {}).items()},
        )

    def _filled(self, text: str) -> str:
        """A value with ``${NAME:?message}`` and ``$$`` as Compose reads them."""

        def value(found: re.Match[str]) -> str:
            return "$" if found[0] == "$$" else self._variables[found[1]]

        return re.sub(r"\$\$|\$\{(\w+)(?::\?[^}]*)?\}", value, text)

    def _mounts(self, service: Document) -> Iterator[tuple[str, Path]]:
        for one in service.get("configs", ()):
            file = self.document["configs"][one["source"]]["file"]
            yield one["target"], (self.folder / file).resolve()
        for one in service.get("secrets", ()):
            file = self.document["secrets"][one]["file"]
            yield f"/run/secrets/{one}", self._secrets / Path(file).name
        for one in service.get("volumes", ()):
            source, target, *_ = one.split(":")
            if source.startswith("."):
                yield target, (self.folder / source).resolve()

    def _probes(self, service: Document) -> Iterator[Probe]:
        test = service.get("healthcheck", {}).get("test")
        if test:
            assert test[0] == "CMD", test
            yield Probe("healthcheck", tuple(self._filled(word) for word in test[1:]))


# Kubernetes


def kustomized(folder: Path) -> list[Document]:
    """The manifests of an overlay, as ``kubectl kustomize`` puts them together."""
    done = subprocess.run(
        [program("kubectl"), "kustomize", str(folder)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def pod_template(manifest: Document) -> Document:
    """The pod that a manifest of any kind makes."""
    spec = manifest["spec"]
    spec = spec["jobTemplate"]["spec"] if manifest["kind"] == "CronJob" else spec
    found: Document = spec["template"]
    return found


class Manifests:
    """Manifests of one namespace, with the Secrets they refer to.

    Args:
        documents: all manifests.
        secrets: name -> key -> value.
        folder: what pods mount is written here.
    """

    def __init__(
        self, documents: Sequence[Document], secrets: Mapping[str, Mapping[str, str]], folder: Path
    ) -> None:
        self._documents = documents
        self._secrets = secrets
        self._folder = folder

    def one(self, kind: str, name: str) -> Document:
        (found,) = [
            one for one in self._documents if (one["kind"], one["metadata"]["name"]) == (kind, name)
        ]
        return found

    def container(self, kind: str, name: str, pod: str) -> Container:
        """The only container of a workload's pod of this name."""
        spec = pod_template(self.one(kind, name))["spec"]
        (container,) = spec["containers"]
        grace = float(spec.get("terminationGracePeriodSeconds", 30))
        return Container(
            pod,
            (*container.get("command", entry_point()), *container["args"]),
            {**image_environment(), **dict(self._environment(container, pod))},
            dict(self._mounts(spec, container, pod)),
            tuple(_http_probes(container)),
            grace,
        )

    def _environment(self, container: Document, pod: str) -> Iterator[tuple[str, str]]:
        for one in container["env"]:
            source = one.get("valueFrom")
            if source is None:
                yield one["name"], one["value"]
            elif "fieldRef" in source:
                assert source["fieldRef"]["fieldPath"] == "metadata.name"
                yield one["name"], pod
            else:
                reference = source["secretKeyRef"]
                yield one["name"], self._secrets[reference["name"]][reference["key"]]

    def _mounts(self, spec: Document, container: Document, pod: str) -> Iterator[tuple[str, Path]]:
        volumes = {one["name"]: one for one in spec["volumes"]}
        for mount in container["volumeMounts"]:
            volume, folder = volumes[mount["name"]], self._folder / pod / mount["name"]
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in self._files(volume).items():
                (folder / name).write_text(text)
            yield mount["mountPath"], folder

    def _files(self, volume: Document) -> dict[str, str]:
        if "configMap" in volume:
            data: dict[str, str] = self.one("ConfigMap", volume["configMap"]["name"])["data"]
            return data
        if "secret" not in volume:
            return {}  # empty
        found = self._secrets[volume["secret"]["secretName"]]
        chosen = volume["secret"].get("items") or [{"key": key, "path": key} for key in found]
        return {one["path"]: found[one["key"]] for one in chosen}


def _http_probes(container: Document) -> Iterator[Probe]:
    ports = {one["name"]: one["containerPort"] for one in container.get("ports", ())}
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        if name in container:
            asked = container[name]["httpGet"]
            yield Probe(name, path=asked["path"], port=ports[asked["port"]])


# Running them here


class Local:
    """A container as a process of this machine.

    Args:
        container: what runs.
        folder: its files are put here.
        address: of the loopback network, its own: ports stay as they are.
        names: what containers call something -> what it is called here.
    """

    def __init__(
        self, container: Container, folder: Path, address: str, names: Mapping[str, str]
    ) -> None:
        self.container = container
        self.address = address
        self._folder = folder / container.name
        self._folder.mkdir(parents=True)
        roots = {path: str(self._root / path.lstrip("/")) for path in container.mounts}
        own = {"0.0.0.0": address, "//127.0.0.1:": f"//{address}:"}
        self._names = {**own, **names, **roots}
        for path, source in container.mounts.items():
            self._put(source, self._root / path.lstrip("/"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def _root(self) -> Path:
        return self._folder / "root"

    @property
    def log(self) -> str:
        return (self._folder / "output.log").read_text()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def here(self, text: str) -> str:
        """A text of the container in this machine's names, the longest name first."""
        names = sorted(self._names, key=len, reverse=True)
        pattern = "|".join(re.escape(name) for name in names)
        return re.sub(pattern, lambda found: self._names[found[0]], text)

    def start(self, *more: str) -> None:
        """Run the command; ``more`` are arguments that only this machine needs."""
        with (self._folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                [*self._words(self.container.command), *more],
                cwd=self._folder, env=self._environment(), stdout=output, stderr=output,
            )  # fmt: skip

    def finish(self, seconds: float = 120.0) -> int:
        """The exit code of a command that ends by itself."""
        assert self._process is not None
        return self._process.wait(seconds)

    def stop(self) -> tuple[int, float]:
        """SIGTERM; the exit code, and the seconds until it ended.

        Raises:
            TimeoutExpired: not within its grace period.
        """
        assert self._process is not None
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(self.container.grace)
        return code, time.monotonic() - began

    def kill(self) -> None:
        if self.running:
            assert self._process is not None
            self._process.kill()
            self._process.wait()

    def failing_probes(self) -> list[str]:
        """Names of probes that do not pass now, with what they say."""
        answers = {one.name: self._ask(one) for one in self.container.probes}
        return [f"{self.container.name} {name}: {said}" for name, said in answers.items() if said]

    def _ask(self, probe: Probe) -> str:
        if probe.command:
            done = subprocess.run(
                self._words(probe.command), env=self._environment(), cwd=self._folder,
                capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
            return "" if done.returncode == 0 else done.stdout + done.stderr or "no"
        try:
            address = f"http://{self.address}:{probe.port}{probe.path}"
            with urllib.request.urlopen(address, timeout=5) as answer:
                return "" if answer.status == 200 else str(answer.status)
        except urllib.error.HTTPError as refused:
            with refused:
                return f"{refused.code}: {refused.read(200).decode()}"
        except OSError as error:
            return str(error)

    def _words(self, command: Sequence[str]) -> list[str]:
        """The command with its program as this machine has it."""
        program, *rest = (self.here(word) for word in command)
        found = shutil.which(program, path=self._path())
        return [found or program, *rest]

    def _path(self) -> str:
        """Where programs are: first those that were installed with the tests."""
        return f"{Path(sys.executable).parent}:{self._names.get('PATH', '')}:/usr/bin:/bin"

    def _environment(self) -> dict[str, str]:
        """The container's own, and nothing of ours but where programs are."""
        own = {key: self.here(value) for key, value in self.container.environment.items()}
        return {**own, **QUICK, "PATH": self._path()}

    def _put(self, source: Path, target: Path) -> None:
        """Copy a file or folder, with the names in it replaced."""
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            for one in source.iterdir():
                self._put(one, target / one.name)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.here(source.read_text()))
