"""The manual's section on ``slicewatch db``: every command, field and metric it names exists."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import click

from alerts.exposition.catalogue import CATALOGUE
from monitor.commands.db import command as db
from monitor.store.ingest.ingest_store import MAX_DEAD_LETTERS
from monitor.store.upkeep.store_status import ShardReport, StoreStatus, TableReport

MANUAL = (Path(__file__).parents[3] / "deploy" / "docs" / "operations.md").read_text()
SECTION = MANUAL.partition("\n## Looking into the database\n")[2].partition("\n## ")[0]


def shown() -> list[list[str]]:
    """The words of every command line in the section, from the subcommand on."""
    blocks = re.findall(r"^```bash\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    return [words[2:] for words in lines if words[:2] == ["slicewatch", "db"]]


def test_every_command_shown_is_there_with_its_options() -> None:
    for name, *words in shown():
        found = db.commands[name]
        context = click.Context(found)
        options = {text for one in found.get_params(context) for text in one.opts}
        assert {word for word in words if word.startswith("--")} <= options, name


def test_every_command_but_migrate_is_shown_and_has_an_example() -> None:
    assert {words[0] for words in shown()} == {*db.commands} - {"migrate"}
    for name, one in db.commands.items():
        assert "Example: slicewatch db" in (one.help or ""), name


def test_every_field_in_the_table_is_a_field() -> None:
    rows = re.findall(r"^\| [^|]+ \| ([^|]*`[^|]*) \|", SECTION, re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", " ".join(rows)))
    reports = (StoreStatus, ShardReport, TableReport)
    fields = {field.name for report in reports for field in dataclasses.fields(report)}
    assert "deltas_waiting" in named
    assert named <= fields


def test_every_metric_named_is_in_the_catalogue() -> None:
    names = {family.name for family in CATALOGUE}
    named = set(re.findall(r"`(slicewatch_[a-z_]+)", SECTION))
    assert named
    assert named <= names


def test_the_limit_of_dead_letters_is_that_of_the_store() -> None:
    assert f"Of each partition {MAX_DEAD_LETTERS:,} a day are kept" in SECTION
