"""The manual's section on pages and tickets: its commands, options, words and limits exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from monitor.commands.incident import command as incident
from monitor.core.plain_text import LONGEST_NAME, LONGEST_NOTE
from monitor.core.publish.annotations import Outcome

MANUAL = (Path(__file__).parents[3] / "deploy" / "docs" / "operations.md").read_text()
SECTION = MANUAL.partition("\n## Pages and tickets\n")[2].partition("\n## ")[0]


def test_every_command_is_shown_with_options_that_it_has() -> None:
    (block,) = re.findall(r"^```bash\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
    lines = [shlex.split(line)[2:] for line in block.splitlines()]
    assert {words[0] for words in lines} == {*incident.commands}
    for name, *words in lines:
        found = incident.commands[name]
        options = {text for one in found.get_params(click.Context(found)) for text in one.opts}
        assert {word for word in words if word.startswith("--")} <= options, name
    for name, one in incident.commands.items():
        assert f"Example: slicewatch incident {name}" in (one.help or "")


def test_every_outcome_has_a_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", SECTION, re.MULTILINE)
    assert sorted(rows) == sorted(Outcome)


def test_the_limits_are_those_of_the_command() -> None:
    assert f"Name ({LONGEST_NAME} characters) and note ({LONGEST_NOTE})" in SECTION
