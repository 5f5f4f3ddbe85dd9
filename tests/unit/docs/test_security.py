"""The page on security: its settings load, and its line is what is logged."""

from __future__ import annotations

import json
import logging
import re
import tomllib
from http import HTTPStatus
from pathlib import Path

import pytest

from alerts.http.access_log import AccessLog
from monitor.core.time import SECOND
from monitor.logs import JsonFormatter
from monitor.settings.build import build
from monitor.settings.sections import AttributeSettings, Server, StreamSettings

MANUAL = (Path(__file__).parents[3] / "deploy" / "docs" / "security.md").read_text()


def blocks(heading: str, kind: str) -> list[str]:
    """Return the blocks of a kind between a heading and the next of its level."""
    section = MANUAL.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{kind}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def test_the_connection_shown_is_settings() -> None:
    (shown,) = blocks("Kafka", "toml")
    stream = tomllib.loads(shown.replace("password_file", "password"))["stream"]
    security = build(StreamSettings, stream, "stream").security
    assert (security.protocol, security.username) == ("SASL_SSL", "slicewatch")


def test_the_ports_shown_are_settings() -> None:
    (ports,) = blocks("Ports and readers", "toml")
    server = build(Server, tomllib.loads(ports.replace("token_file", "token"))["server"], "server")

    assert [one.name for one in server.tokens] == ["prometheus", "privacy-office"]
    assert (server.port, server.operations.port) == (9095, 9096)


def test_the_attribute_shown_has_all_that_is_needed() -> None:
    (text,) = blocks("Attributes of a special category", "toml")
    (table,) = tomllib.loads(text)["attribute"]
    attribute = build(AttributeSettings, table, "attribute[0]")

    assert attribute.special_category
    assert attribute.purpose
    assert attribute.owner
    assert attribute.purpose
    assert attribute.retention


class HourLater:
    """The clock of the line shown: it begins at nine, and an hour passes when told."""

    seconds = 1_780_304_400.0  # 2026-06-01T09:00:00Z

    def now(self) -> int:
        return int(self.seconds * SECOND)

    def monotonic(self) -> float:
        return self.seconds


def test_the_line_shown_is_what_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    (shown,) = blocks("Ports and readers", "json")
    caplog.set_level(logging.INFO)
    clock = HourLater()
    access = AccessLog(clock)
    for _ in range(241):
        access.record("prometheus", "/metrics", HTTPStatus.OK)
    clock.seconds += 3_600
    access.sweep()

    *_, last = (one for one in caplog.records if one.name == "slicewatch.access")
    line = json.loads(JsonFormatter().format(last))
    assert line | {"at": ""} == json.loads(shown) | {"at": ""}
    assert list(line) == list(json.loads(shown))
