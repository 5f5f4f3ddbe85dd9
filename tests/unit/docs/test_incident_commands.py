"""The outcomes of an incident on the page for people on call: all of them, with their limits."""

from __future__ import annotations

import re
from pathlib import Path

from monitor.commands.incident import command as incident
from monitor.core.plain_text import LONGEST_NAME, LONGEST_NOTE
from monitor.core.publish.annotations import Outcome

MANUAL = (Path(__file__).parents[3] / "deploy" / "docs" / "on-call.md").read_text()
SECTION = MANUAL.partition("\n## Outcomes\n")[2].partition("\n## ")[0]


def test_every_command_has_an_example() -> None:
    for name, command in incident.commands.items():
        assert f"Example: slicewatch incident {name}" in (command.help or "")


def test_every_outcome_has_a_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", SECTION, re.MULTILINE)
    assert sorted(rows) == sorted(Outcome)


def test_the_limits_are_those_of_the_command() -> None:
    assert f"Name ({LONGEST_NAME} characters) and note ({LONGEST_NOTE})" in SECTION
