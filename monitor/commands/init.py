"""``slicewatch init``: a first settings file, from five answers or from a sample of events."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import islice
from math import prod
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from consumers.sources.file_source import LineFile
from monitor.commands.mapping_guess import MOST_TEXTS, MappingGuess, places
from monitor.commands.options import load_settings, settings_option, write_key
from monitor.errors import SettingsError, SlicewatchError
from monitor.settings.as_text import toml
from monitor.settings.check_use_cases import MAX_ATOMS, MAX_VALUES
from monitor.settings.kinds import listed_value

SAMPLED_LINES = 100_000
MOST_LINES, OTHER_LINES = 15, 7
"""Maximum lines of the file, and its lines besides attributes and mapping."""
KEY_FILE = "slicewatch.key"
_PAGE_ON = {"tpr": "max_tpr_gap", "fpr": "max_fpr_gap", "selection": "min_selection_ratio"}
_PLAIN = "/attributes/"


class Answers(NamedTuple):
    """Answers that a first settings file is made of; no brokers mean an embedded run."""

    attributes: Mapping[str, Sequence[str]]
    name: str = "replies"
    owner: str = os.environ.get("USER") or "the router's owner"
    page_on: str = "max_tpr_gap"
    brokers: str = ""
    mapping: Sequence[str] = ()


@click.command("init")
@settings_option
@click.option(
    "--from",
    "sample",
    metavar="FILE",
    help="Take attributes and values from decisions, or from rows of any log, in a file.",
)
def command(path: Path, sample: str | None) -> None:
    """Write a first settings file, from five answers or from a sample of decisions.

    The file has at most 15 lines, and slicewatch check accepts it. A key for the ids of decisions
    is made beside it. No file is overwritten.

    From a sample (JSON lines, an array or CSV) it takes every attribute with at most 50 different
    values; the settings are those of an embedded run, which needs no Kafka. Rows that are not
    events are mapped: ids, times and percent scores where they are plain. It asks for the rest,
    such as what the codes of a decision mean.

    Example: slicewatch init --from events.jsonl
    """
    if path.exists():
        raise SlicewatchError(f"{path} already exists; name a new file with --settings")
    answers = _asked() if sample is None else _from_sample(sample)
    key_file = path.with_name(KEY_FILE)
    if not key_file.exists():
        write_key(key_file)
    path.write_text(settings_text(answers), encoding="utf-8")
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
    harm = (
        "Worst: a ready reply that waits (tpr), an unready one that is served (fpr), or fewer"
        " replies served, ready or not (selection)?"
    )
    metric = click.prompt(harm, "tpr", type=click.Choice(list(_PAGE_ON)))
    brokers = click.prompt("Kafka brokers, such as localhost:9092; empty: run without Kafka", "")
    return Answers(attributes, name, owner, _PAGE_ON[metric], brokers)


def _declared(text: str) -> dict[str, list[str]]:
    """Return the values of each attribute in a text such as ``channel=chat,email``."""
    pairs = [part.partition("=") for part in text.split()]
    attributes = {attribute: values.split(",") for attribute, _, values in pairs}
    if not all(name and all(values) for name, values in attributes.items()):
        raise click.UsageError(f"{text} has no values for some name: write channel=chat,email")
    return attributes


def _from_sample(sample: str) -> Answers:
    """Return the attributes of a sample's decisions, and the mapping of other messages to them.

    Raises:
        SlicewatchError: the file cannot be read, or has no attributes; or nobody answers.
    """
    texts: dict[str, Counter[str]] = {}
    with closing(LineFile(sample)) as file:
        for line in islice(file, SAMPLED_LINES):
            with suppress(ValueError, RecursionError):
                content = msgspec.json.decode(line)
                for event in content if isinstance(content, list) else [content]:
                    for place, text in places(event):
                        counts = texts.setdefault(place, Counter())
                        if text in counts or len(counts) < MOST_TEXTS:
                            counts[text] += 1
    events = {at.removeprefix(_PLAIN): texts[at] for at in texts if at.startswith(_PLAIN)}
    guess = None if events or not texts else MappingGuess(texts)
    counts_by_name = guess.attributes() if guess else events
    attributes = _usable(counts_by_name)
    if not attributes:
        raise SlicewatchError(f"{sample} has no decisions with attributes of few values")
    if guess is None:
        return Answers(attributes)
    for name in counts_by_name.keys() - attributes.keys():
        del guess.section["fields"][f"attributes.{name}"]
    has_labels = guess.section["constants"].get("label_requested") != "false"
    page_on = _PAGE_ON["tpr" if has_labels else "selection"]
    return Answers(attributes, page_on=page_on, mapping=[*guess.lines()])


def _usable(counts: Mapping[str, Counter[str]]) -> dict[str, list[str]]:
    """Return attributes with their values, the frequent ones first; name those left out."""
    usable: dict[str, list[str]] = {}
    for name, texts in counts.items():
        for text, _ in texts.most_common() if len(texts) <= MAX_VALUES else ():
            with suppress(ValueError):
                usable.setdefault(name, []).append(listed_value(text))
    for name in sorted(usable, key=lambda name: len(usable[name]), reverse=True):
        # Besides its values an attribute can be missing, or have another one.
        if prod(len(values) + 2 for values in usable.values()) > MAX_ATOMS:
            del usable[name]
    if left_out := sorted(counts.keys() - usable.keys()):
        click.echo(f"left out, because of too many values: {', '.join(left_out)}", err=True)
    return usable


def settings_text(answers: Answers) -> str:
    """Return the text of a settings file of at most MOST_LINES lines."""
    rows = [toml({"name": name, "values": texts}) for name, texts in answers.attributes.items()]
    fits = len(rows) + len(answers.mapping) <= MOST_LINES - OTHER_LINES
    attributes = (",\n  " if fits else ", ").join(rows)
    group_bys = [{"attributes": [name]} for name in answers.attributes]
    brokers = answers.brokers.replace(",", " ").split()
    limit = "min_selection_ratio = 0.80, " if answers.page_on == "min_selection_ratio" else ""
    lines = [
        f"stream.bootstrap_servers = {toml(brokers)}" if brokers else 'stream.client = "embedded"',
        f'privacy.id_key_file = "{KEY_FILE}"',
        f"attribute = [{attributes}]",
        "[[use_case]]",
        f"name = {toml(answers.name)}",
        f"owner = {toml(answers.owner)}",
        f"group_bys = {toml(group_bys)}",
        f'contract = {{ version = "1", effective = {datetime.now(UTC).date()},'
        f' reason = "first contract", {limit}page_on = ["{answers.page_on}"] }}',
    ]
    return "\n".join([*lines, *answers.mapping, ""])
