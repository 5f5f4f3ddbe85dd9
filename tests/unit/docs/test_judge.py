"""The page on the judge: its examples are valid, and it names every category, kind and setting."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import msgspec

from monitor.judging.categories import CATEGORIES, KINDS
from monitor.judging.findings import PENALTY
from monitor.judging.judgements import ATTEMPTS
from monitor.judging.output_events import Judgement, read_output
from monitor.settings.build import build
from monitor.settings.sections import JudgeSettings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "deploy" / "docs" / "judge.md").read_text()


def test_its_events_are_events() -> None:
    output, judgement = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    read = read_output(json.dumps(json.loads(output)).encode())
    assert read.context is None
    shown = msgspec.json.decode(json.dumps(json.loads(judgement)).encode(), type=Judgement)
    assert shown.findings[0].category in CATEGORIES
    assert set(json.loads(judgement)) <= set(Judgement.__struct_fields__)


def test_its_settings_are_settings() -> None:
    text = "".join(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
    table = tomllib.loads(text)["judge"]
    table["api_key"] = table.pop("api_key_file")
    judge: JudgeSettings = build(JudgeSettings, table, "judge")
    assert judge.url
    for name in re.findall(r"`judge\.([a-z_]+)", PAGE):
        assert name in JudgeSettings.__struct_fields__, name


def test_it_names_all_categories_and_kinds_and_the_rule() -> None:
    for name in (*CATEGORIES, *KINDS):
        assert f"`{name}`" in PAGE
    assert f"less {PENALTY} for each finding" in PAGE
    assert ATTEMPTS == 3
    assert "three times in all" in PAGE
