"""The reference of commands and of records is made from the code; UPDATE_GOLDEN=1 writes it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import click
import msgspec
import pytest

from consumers.events import BiasResult, Decision, Label
from monitor.audit.audit_report import AuditReport, Check, Comparison, FlipCounts, Part, Run
from monitor.audit.record_files import ResultFields, SetFields, words
from monitor.audit.scorecard.card_file import Benchmark, Dimension, Head
from monitor.audit.scorecard.measures import MEASURES
from monitor.cli import cli
from monitor.judging.findings import Finding
from monitor.judging.output_events import Judgement, ModelOutput
from monitor.store.upkeep.published_ages import PublishedReport
from monitor.store.upkeep.store_status import EvaluatorReport, ShardReport, StoreStatus, TableReport

DOCS = Path(__file__).parents[3] / "deploy" / "docs"
EVENTS: dict[str, type[Any]] = {
    "Decision": Decision,
    "Label": Label,
    "Result of a bias evaluation": BiasResult,
    "Model output": ModelOutput,
    "Judgement": Judgement,
    "Finding of a judgement": Finding,
    "Store status": StoreStatus,
    "Store status: `shards`": ShardReport,
    "Store status: `evaluator`": EvaluatorReport,
    "Store status: `tables`": TableReport,
    "Store status: `published`": PublishedReport,
    "Audit report": AuditReport,
    "Audit report: a run": Run,
    "Audit report: a part of a run": Part,
    "Audit report: a flip count": FlipCounts,
    "Audit report: a check": Check,
    "Audit report: the comparison": Comparison,
}
"""Records whose types are told elsewhere: in JSON Schemas, or by what the command prints."""
FILES: dict[str, type[msgspec.Struct]] = {
    "Row of a probe set": SetFields,
    "Row of results, beside the fields of the set": ResultFields,
    "Scorecard file: `[scorecard]`": Head,
    "Scorecard file: `[[dimension]]`": Dimension,
    "Scorecard file: `[[benchmark]]`": Benchmark,
}


def meanings(kind: type[Any]) -> dict[str, str]:
    """Return the text of each attribute in a type's docstring."""
    (listed,) = re.findall(r"Attributes:\n(.*)", kind.__doc__ or "", re.DOTALL)
    rows = re.findall(r"^ {8}(\w+): (.*?)(?=^ {8}\w|\Z)", listed, re.DOTALL | re.MULTILINE)
    return {name: " ".join(text.split()).replace("``", "`") for name, text in rows}


def records_page() -> str:
    """Return the reference page of all records."""
    return "\n".join(records_lines()) + "\n"


def records_lines() -> Iterator[str]:
    yield "# Records\n\nGenerated from the types in the code; JSON Schemas are in `deploy/schemas`."
    for title, kind in EVENTS.items():
        yield f"\n## {title}\n\n| field | meaning |\n|---|---|"
        yield from (f"| `{name}` | {text} |" for name, text in meanings(kind).items())
    for title, kind in FILES.items():
        hints = get_type_hints(kind, include_extras=True)
        defaults = {field.name: default(field) for field in msgspec.structs.fields(kind)}
        yield f"\n## {title}\n\n| field | meaning | is | left out |\n|---|---|---|---|"
        for name, text in meanings(kind).items():
            yield f"| `{name}` | {text} | {form(hints[name])} | {defaults[name]} |"
    yield "\n## Measures of a scorecard\n"
    yield "| measure | score | range | fields of a record | source |"
    yield "|---|---|---|---|---|"
    for name, measure in MEASURES.items():
        fields = ", ".join(f"`{field}`" for field in get_type_hints(measure.record))
        yield f"| `{name}` | {measure.meaning} | {measure.scale} | {fields} | {measure.source} |"


def default(field: msgspec.structs.FieldInfo) -> str:
    """Return what a field is where a file leaves it out."""
    if field.required:
        return "an error"
    if field.default in (None, (), "", msgspec.NODEFAULT):
        return "nothing"
    return msgspec.json.encode(field.default).decode()


def form(hint: Any) -> str:
    try:
        return words(hint)
    except LookupError:
        return "any JSON"


def commands_page() -> str:
    """Return the reference page of all commands."""
    start = "# Commands\n\nGenerated from the program: the text of `--help`, and every option.\n"
    return start + "\n".join(command_lines(cli, "slicewatch")).rstrip() + "\n"


def command_lines(command: click.Command, name: str) -> Iterator[str]:
    # Click keeps the help option of whoever asked first, so it is left out.
    context = click.Context(command, info_name=name, help_option_names=[])
    context.terminal_width = context.max_content_width = 100
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield f"\n## slicewatch {name.partition(' ')[2]}\n\n```text"
        yield command.get_help(context).partition("\n\n")[2].rstrip() + "\n```"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from command_lines(found, f"{name} {below}")


@pytest.mark.parametrize(("name", "make"), [("records", records_page), ("commands", commands_page)])
def test_a_page_is_the_one_that_is_made(name: str, make: Callable[[], str]) -> None:
    made = make()
    page = DOCS / f"{name}.md"
    if os.environ.get("UPDATE_GOLDEN"):
        page.write_text(made)
    assert page.read_text() == made, "run this test with UPDATE_GOLDEN=1"


@pytest.mark.parametrize("kind", [*EVENTS.values(), *FILES.values()])
def test_every_field_is_explained(kind: type[Any]) -> None:
    fields = set(get_type_hints(kind))
    if kind is ResultFields:
        fields -= set(get_type_hints(SetFields))
    assert set(meanings(kind)) == fields
