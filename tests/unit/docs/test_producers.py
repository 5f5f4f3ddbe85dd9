"""The page for producers: every metric, alert, command, setting, link and recipe in it exists."""

from __future__ import annotations

import re
import tomllib
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

import msgspec
import yaml

from alerts.http.app import MAX_BATCH
from consumers.events import Decision
from consumers.mapping import mapping_of
from consumers.producing import AuditSampler
from consumers.producing.producer import BUFFER
from consumers.receiving.batches import MAX_EVENT, MAX_EVENTS
from monitor.settings.build import declared_kinds
from monitor.settings.sections import DecisionMappingSettings, Server

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "docs"
PAGE = (FOLDER / "producers.md").read_text()
RULES = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules.yml").read_text())


def test_every_alert_is_declared() -> None:
    named = set(re.findall(r"`(Slicewatch\w+)`", PAGE))
    assert named
    assert named <= {rule.get("alert") for group in RULES["groups"] for rule in group["rules"]}


def test_the_recipe_of_the_draw_for_other_languages_is_that_of_the_sampler() -> None:
    assert "BLAKE2b with 8 bytes of digest, the secret as key and `slicewatch-audit` as" in PAGE
    sampler = AuditSampler(auto_serve=0.5, secret="salt")
    for name in ("d-1", "\u00e9", "7"):
        hashed = blake2b(name.encode(), digest_size=8, key=b"salt", person=b"slicewatch-audit")
        assert sampler.uniform(name) == (int(hashed.hexdigest(), 16) >> 11) / 2**53


def test_the_size_of_the_buffer_is_that_of_the_module() -> None:
    assert f"`buffer={BUFFER:_}` events" in PAGE


def test_the_log_shown_becomes_a_decision_by_the_mapping_shown() -> None:
    (logged,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (shown,) = (
        text for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "mapping" in text
    )
    section = tomllib.loads(shown)["mapping"]["decisions"]
    mapping = mapping_of("decisions", msgspec.convert(section, DecisionMappingSettings))
    assert mapping is not None
    event = msgspec.json.decode(mapping(logged.encode()), type=Decision)
    assert (event.decision_id, event.route, event.judge_score) == ("r-81", "auto_serve", 0.92)
    assert (event.audit_p, event.label_requested, event.evidence_passed) == (0.05, False, True)
    assert event.attributes == {"channel": "chat"}
    assert event.decided_at == datetime(2026, 6, 1, 10, 5, 0, 250_000, tzinfo=UTC)


def test_the_ports_shown_are_settings() -> None:
    (shown,) = (
        text for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "server" in text
    )
    server = tomllib.loads(shown)["server"]
    assert server.keys() <= declared_kinds(Server).keys()
    assert set(server["producers"]) == {one["name"] for one in server["tokens"]}


def test_the_limits_of_a_batch_are_those_of_the_service() -> None:
    assert (MAX_BATCH, MAX_EVENT) == (1 << 20, 64 << 10)
    assert f"more than 1 MiB or {MAX_EVENTS:,} events" in PAGE
    assert "event has at most 64 KiB" in re.sub(r"\s+", " ", PAGE)
