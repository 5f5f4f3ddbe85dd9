"""Schema registries: a small HTTP server of the tests, and a real one, Apicurio Registry."""

from __future__ import annotations

import base64
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
import urllib.request
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError

from free_ports import free_port

from monitor.demo.broker import port_accepts, start_child, stop_child, wait_until

APICURIO_VERSION = "3.0.9"  # later ones need Java 21
GET = "org.apache.maven.plugins:maven-dependency-plugin:2.8:get"
FETCH_SECONDS = 300
START_SECONDS = 90.0
STOP_SECONDS = 15.0
MEDIA = "application/vnd.schemaregistry.v1+json"


@dataclass
class StubRegistry:
    """Speaks a registry's paths as well or badly as a test wants; stops with the block.

    Attributes:
        schemas: answers by number of the schema.
        subjects: answers by subject and version.
        status: of every answer, in place of what there is, with ``body``.
        login: user name and password, or a token, that is asked for.
        certificate: certificate and key, of a server with TLS.
        asked: paths of all requests.
    """

    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: int | None = None
    body: bytes = b""
    login: str | None = None
    certificate: tuple[Path, Path] | None = None
    asked: list[str] = field(default_factory=list)

    def add(self, number: int, schema: Any, **more: Any) -> None:
        self.schemas[number] = {"schema": json.dumps(schema), **more}

    def __enter__(self) -> Self:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.asked.append(self.path)
                status, body = outer.answer(self.path, self.headers["Authorization"])
                self.send_response(status)
                self.send_header("Content-Type", MEDIA)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        if self.status is not None:
            return self.status, self.body
        if self.login is not None and authorization != self.login:
            return 401, b'{"error_code":40101,"message":"no"}'
        _, kind, *rest = path.split("/")
        found = self.schemas.get(int(rest[1])) if kind == "schemas" else None
        found = found or self.subjects.get("/".join(rest))
        if found is None:
            return 404, b'{"error_code":40403,"message":"not found"}'
        return 200, json.dumps(found).encode()


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class Apicurio:
    """Apicurio Registry, its schemas in memory, with the interface of Confluent's registry."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="slicewatch-registry-"))
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def start(self) -> None:
        jar = next(_unpacked().glob("*-runner.jar"))
        machine = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        options = [f"-Dquarkus.http.port={self._port}", "-Dquarkus.http.host=127.0.0.1"]
        with (self._home / "output.log").open("ab") as output:
            command = ["java", *machine, *options, "-jar", str(jar)]
            self._process = start_child(command, output)
        if not wait_until(self._process, partial(port_accepts, self._port), START_SECONDS):
            words = (self._home / "output.log").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"the registry ended while starting:\n{words}")

    def stop(self) -> None:
        """Everything is forgotten."""
        if self._process is not None:
            stop_child(self._process, STOP_SECONDS)
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def register(
        self, subject: str, schema: Any, references: list[dict[str, Any]] | None = None
    ) -> int:
        """Number of the schema."""
        body = {"schema": json.dumps(schema), "references": references or []}
        request = urllib.request.Request(
            f"{self.url}/subjects/{subject}/versions",
            json.dumps(body).encode(),
            {"Content-Type": MEDIA},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(json.load(answer)["id"])
        except HTTPError as error:
            with error:
                raise AssertionError(error.read()[:500]) from None


def _unpacked() -> Path:
    """Folder of the registry, fetched from Maven Central when not there yet."""
    base = Path(os.environ.get("SLICEWATCH_CACHE") or Path.home() / ".cache" / "slicewatch-tests")
    folder = base / f"apicurio-{APICURIO_VERSION}"
    if not folder.is_dir():
        _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        artifact = f"io.apicurio:apicurio-registry-app:{APICURIO_VERSION}:tar.gz:all"
        # Its parent is not served, and is not needed: this goal does without.
        options = ["-Dtransitive=false", f"-Dmaven.repo.local={scratch}/repository"]
        command = ["mvn", "-q", "-B", "-C", GET, f"-Dartifact={artifact}", *options]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"mvn failed:\n{(done.stdout + done.stderr)[-2000:]}")
        (archive,) = Path(scratch).rglob("*-all.tar.gz")
        # Not by tarfile: its safe way is missing in Python 3.11 before 3.11.4.
        unpacked = Path(scratch, "unpacked")
        unpacked.mkdir()
        subprocess.run(["tar", "-xzf", archive, "-C", unpacked], check=True)
        try:  # all or nothing; another test run may have been faster
            unpacked.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
