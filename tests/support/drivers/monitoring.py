"""Prometheus and Alertmanager as processes of a test, and their command-line tools."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port

WAIT_SECONDS = 90.0
ANSWER_SECONDS = 20.0
"""A busy Prometheus takes a while; one that is not there refuses at once."""
ALERTMANAGER = ("prometheus-alertmanager", "alertmanager")


def binary(*names: str) -> str:
    """The first of these programs that is there; none is a failure in CI, a skip elsewhere."""
    for name in names:
        if found := shutil.which(name):
            return found
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true and not installed: {names[0]}", pytrace=False)
    pytest.skip(f"not installed: {names[0]}")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """A tool's answer; it is not checked."""
    # promtool spends a third of its time on garbage collection unless it may use more memory.
    environment = os.environ | {"GOGC": "400"}
    return subprocess.run(
        [binary(command[0]), *command[1:]],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


def eventually(look: Callable[[], bool], what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + 2 * WAIT_SECONDS  # on a busy machine, too
    while not look():
        assert time.monotonic() < end, f"did not happen: {what}"
        time.sleep(0.2)


@contextlib.contextmanager
def process(folder: Path, name: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a log in the folder, ended at the end."""
    with (folder / f"{name}.log").open("ab") as log:
        started = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        yield started
    finally:
        started.terminate()
        started.wait(timeout=WAIT_SECONDS)


@contextlib.contextmanager
def prometheus(folder: Path, config: Path) -> Iterator[str]:
    """The address of a Prometheus."""
    port = free_port()
    command = [
        *(binary("prometheus"), f"--config.file={config}"),
        *(f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"),
        # After a minute: a new text would be that late. Four times as long without a word of
        # Prometheus, on a busy machine, and Alertmanager takes an alert to be over.
        "--rules.alert.resend-delay=3s",
    ]
    with process(folder, "prometheus", *command):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def alertmanager(folder: Path, config: Path, port: int) -> Iterator[str]:
    """The address of an Alertmanager without a cluster."""
    command = [
        *(binary(*ALERTMANAGER), f"--config.file={config}", "--cluster.listen-address="),
        *(f"--storage.path={folder / 'am'}", f"--web.listen-address=127.0.0.1:{port}"),
    ]
    with process(folder, "alertmanager", *command):
        base = f"http://127.0.0.1:{port}"
        eventually(lambda: get(f"{base}/api/v2/status") is not None, "Alertmanager answers")
        yield base


def get(address: str) -> Any:
    """JSON from an address; None while nobody answers."""
    try:
        with urllib.request.urlopen(address, timeout=ANSWER_SECONDS) as response:
            return json.load(response)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def query(base: str, expression: str) -> list[dict[str, Any]]:
    """Samples of an instant query; none while Prometheus does not answer."""
    found = get(f"{base}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
    return found["data"]["result"] if found else []
