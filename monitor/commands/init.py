"""``slicewatch init``: a first settings file, from five answers or from a sample of events."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, islice
from math import prod
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from consumers.sources.file_source import LineFile
from monitor.commands.options import load_settings, settings_option, write_key
from monitor.errors import SettingsError, SlicewatchError
from monitor.settings.check_use_cases import MAX_ATOMS, MAX_VALUES
from monitor.settings.kinds import listed_value

SAMPLED_LINES = 100_000
MOST_ROWS = 3
"""Most attributes with a line of their own, so that the file has at most 15 lines."""
KEY_FILE = "slicewatch.key"
_any_json = msgspec.json.Decoder().decode


class Answers(NamedTuple):
    """Answers that a first settings file is made of; no brokers mean an embedded run."""

    attributes: Mapping[str, Sequence[str]]
    name: str = "replies"
    owner: str = os.environ.get("USER") or "the router's owner"
    primary: str = "tpr"
    brokers: str = ""


@click.command("init")
@settings_option
@click.option(
    "--from",
    "sample",
    metavar="FILE",
    help="Take attributes and values from decisions in JSON lines (.gz too); ask nothing.",
)
def command(path: Path, sample: str | None) -> None:
    """Write a first settings file, from five answers or from a sample of decisions.

    The file has at most 15 lines, and slicewatch check accepts it. A key for the ids of decisions
    is made beside it. No file is overwritten.

    From a sample it takes every attribute with text values, at most 50 different ones; the settings
    are those of an embedded run, which needs no Kafka.

    Example: slicewatch init --from events.jsonl
    """
    if path.exists():
        raise SlicewatchError(f"{path} already exists; name a new file with --settings")
    answers = _asked() if sample is None else Answers(_attributes(sample))
    key_file = path.with_name(KEY_FILE)
    if not key_file.exists():
        write_key(key_file)
    path.write_text(settings_text(answers))
    try:
        load_settings(path)
    except SettingsError:
        path.unlink()
        raise
    click.echo(f"{path} and {key_file} are written; next: slicewatch check, then slicewatch run")


def _asked() -> Answers:
    name = click.prompt("What does the router decide? A short name", Answers({}).name)
    owner = click.prompt("Who answers for its fairness?", Answers({}).owner)
    question = "Attributes with their values, such as channel=chat,email language=en,de"
    attributes = click.prompt(question, value_proc=_declared)
    harm = "Worse: a ready reply that waits (tpr), or an unready one that is served (fpr)?"
    primary = click.prompt(harm, "tpr", type=click.Choice(["tpr", "fpr"]))
    brokers = click.prompt("Kafka brokers, such as localhost:9092; empty: run without Kafka", "")
    return Answers(attributes, name, owner, primary, brokers)


def _declared(text: str) -> dict[str, list[str]]:
    """Return the values of each attribute in a text such as ``channel=chat,email``."""
    pairs = [part.partition("=") for part in text.split()]
    attributes = {attribute: values.split(",") for attribute, _, values in pairs}
    if not all(name and all(values) for name, values in attributes.items()):
        raise click.UsageError(f"{text} has no values for some name: write channel=chat,email")
    return attributes


def _attributes(sample: str) -> dict[str, list[str]]:
    """Return the attributes of a sample's decisions with their values, the frequent ones first.

    Raises:
        SlicewatchError: the file cannot be read, or has no decision with an attribute.
    """
    counts: dict[str, Counter[str]] = {}
    file = LineFile(sample)
    lines = chain.from_iterable(iter(file.read, []))
    for line in islice(lines, SAMPLED_LINES):
        for attribute, value in _pairs(line):
            counts.setdefault(attribute, Counter())[value] += 1
    file.close()
    usable = {
        name: [value for value, _ in values.most_common()]
        for name, values in counts.items()
        if len(values) <= MAX_VALUES
    }
    if not usable:
        raise SlicewatchError(
            f"{file.name} has no decisions with attributes of few values; if its lines are no"
            " events, run slicewatch init without --from, and add [mapping]"
            " (deploy/docs/producers.md)"
        )
    left_out = [name for name in sorted(counts) if name not in usable]
    for name in sorted(usable, key=lambda name: len(usable[name]), reverse=True):
        # Besides its values an attribute can be missing, or have another one.
        if prod(len(values) + 2 for values in usable.values()) > MAX_ATOMS:
            left_out.append(name)
            del usable[name]
    if left_out:
        click.echo(f"left out, because of too many values: {', '.join(left_out)}", err=True)
    return usable


def _pairs(line: bytes) -> Iterator[tuple[str, str]]:
    """Yield the pairs (attribute, value) of decisions in a line that may be declared."""
    try:
        content = _any_json(line)
    except (ValueError, RecursionError):
        return
    for event in content if isinstance(content, list) else [content]:
        attributes = event.get("attributes") if isinstance(event, dict) else None
        for name, value in attributes.items() if isinstance(attributes, dict) else ():
            with suppress(ValueError, TypeError):
                yield name, listed_value(value)


def settings_text(answers: Answers) -> str:
    """Return the text of a settings file of at most 15 lines."""
    rows = [
        f"  {{ name = {_toml(name)}, values = {_toml(values)} }},"
        for name, values in answers.attributes.items()
    ]
    rows = rows if len(rows) <= MOST_ROWS else ["".join(rows)]
    group_bys = ", ".join(f"{{ attributes = [{_toml(name)}] }}" for name in answers.attributes)
    brokers = answers.brokers.replace(",", " ").split()
    lines = [
        "attribute = [",
        *rows,
        "]",
        "[stream]",
        f"bootstrap_servers = {_toml(brokers)}" if brokers else 'client = "embedded"',
        "[privacy]",
        f'id_key_file = "{KEY_FILE}"',
        "[[use_case]]",
        f"name = {_toml(answers.name)}",
        f"owner = {_toml(answers.owner)}",
        f"group_bys = [{group_bys}]",
        f'contract = {{ version = "1", effective = {datetime.now(UTC).date()},'
        f' reason = "first contract", primary = "{answers.primary}" }}',
    ]
    return "\n".join([*lines, ""])


def _toml(value: str | Sequence[str]) -> str:
    """Return a text, or a list of texts, as TOML, which JSON's text and lists are."""
    return json.dumps(value, ensure_ascii=False)
