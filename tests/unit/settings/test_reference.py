"""The reference file lists every option with its default and a sentence, and nothing else."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import msgspec
import pytest

from monitor import settings as api
from monitor.settings.build import build, is_section, required
from monitor.settings.environment import exact
from monitor.settings.sections import Privacy, Server

DEPLOY = Path(__file__).parents[3] / "deploy"
REFERENCE = DEPLOY / "slicewatch.reference.toml"


class Option(NamedTuple):
    live: bool
    text: str
    sentence: str
    table_live: bool


SHARED = {
    "mapping.labels": "mapping.decisions",
    "alerting.ticket": "alerting.page",
    "alerting.visible": "alerting.page",
    "alerting.deadman": "alerting.page",
    **{
        f"stream.schema_registry.{name}": f"stream.security.{name}"
        for name in ("username", "password", "ca_file", "cert_file", "key_file")
    },
    "use_case.limit.max": "use_case.contract.max",
    "use_case.limit.min": "use_case.contract.min",
}
"""Beginnings of options that the file describes once, at another table with the same options."""


def declared(section: Any, path: str = "") -> Iterator[tuple[str, msgspec.structs.FieldInfo]]:
    """Every option of the Structs by its full key without indices."""
    for field in msgspec.structs.fields(section):
        key = f"{path}.{field.name}".lstrip(".")
        kind = required(field.type)
        inner = get_args(kind)[0] if get_origin(kind) is tuple else kind
        if is_section(inner):
            yield from declared(inner, key)
        else:
            yield key, field


def written() -> Iterator[tuple[str, Option]]:
    """Every option of the reference file."""
    section, table_live, sentence = "", True, ""
    for line in REFERENCE.read_text().splitlines():
        if header := re.fullmatch(r"(#?)\[+([a-z_.]+)\]+", line):
            section, table_live = header[2], not header[1]
        elif option := re.fullmatch(r"(#?)([a-z_0-9]+) = (.+)", line):
            key = f"{section}.{option[2]}"
            if key.startswith(tuple(SHARED)):
                continue  # an example of a shared one
            yield key, Option(not option[1], option[3], sentence, table_live)
        sentence = line[2:] if line.startswith("# ") else ""


EITHER = {"attribute.values"}
"""Options that need not be set where another one is."""
EVERY = dict(declared(api.Settings))
FIELDS = {key: field for key, field in EVERY.items() if not key.startswith(tuple(SHARED))}
OPTIONS = dict(written())


MOST_OPTIONS = 120
"""An option that is added is one more to read: take another one away, or derive it."""


def test_there_are_no_more_options_than_people_can_read() -> None:
    assert len(OPTIONS) <= MOST_OPTIONS


def test_both_ways() -> None:
    assert sorted(FIELDS) == sorted(OPTIONS)
    assert len(OPTIONS) == len(list(written()))


@pytest.mark.parametrize("key", sorted(FIELDS))
def test_every_option_has_a_sentence_and_its_default(key: str) -> None:
    field, option = FIELDS[key], OPTIONS[key]
    assert re.match(r"[A-Z].{10,}\.$", option.sentence), "a sentence stands above the option"
    value = build(field.type, tomllib.loads(f"x = {option.text}", parse_float=exact)["x"], key)
    if field.required:
        assert option.live == option.table_live
        assert option.sentence.endswith("Required.")
    elif key in EITHER:
        assert option.live == option.table_live
        assert option.sentence.endswith("Required without ranges.")
    elif field.default is None:
        assert not option.live
        assert "not set" in option.sentence
    else:
        factory = field.default_factory
        default = field.default if factory is msgspec.NODEFAULT else factory()
        assert option.live == option.table_live
        assert value == default


KEY = "0123456789abcdef"
WITH_KEY = {"SLICEWATCH__PRIVACY__ID_KEY": KEY}


def test_the_reference_loads_to_the_defaults() -> None:
    settings = api.load(REFERENCE, WITH_KEY)
    assert settings.store.url == f"sqlite:///{DEPLOY}/slicewatch.db"  # beside the file
    for name in ("stream", "evaluate", "retention", "alerting"):
        section = getattr(settings, name)
        assert section == type(section)()
    assert settings.server == Server()
    assert settings.privacy == Privacy(id_key=api.Secret(KEY))


def test_what_is_described_once_is_the_same_everywhere() -> None:
    for beginning, described in SHARED.items():
        own = {key.removeprefix(beginning) for key in EVERY if key.startswith(beginning)}
        elsewhere = {key.removeprefix(described) for key in EVERY if key.startswith(described)}
        assert own
        assert own <= elsewhere


def test_the_numbers_are_called_product_decisions() -> None:
    text = " ".join(REFERENCE.read_text().replace("#", " ").split())
    assert "product decisions that somebody has to own, not definitions of fairness" in text


def test_quickstart(tmp_path: Path) -> None:
    text = (DEPLOY / "examples" / "quickstart.toml").read_text()
    assert "EXAMPLE" in text
    assert len(text.splitlines()) <= 12
    (tmp_path / "slicewatch.toml").write_text(text)
    (tmp_path / "slicewatch.key").write_text(KEY)
    settings = api.load(tmp_path / "slicewatch.toml", {})
    assert settings.contracts[0].k == 11
    (warning,) = api.warnings(settings)
    assert warning.startswith("not set, though readers of reports look for it: attribute[0].")


def test_the_ten_pairs_are_synthetic() -> None:
    path = DEPLOY / "examples" / "ten_pairs.toml"
    assert "not groups" in path.read_text()
    settings = api.load(path, {})
    (contract,) = settings.contracts
    assert contract.synthetic
    assert (contract.k, contract.limits.min_positives, contract.limits.min_negatives) == (1, 1, 1)
    assert contract.group_bys[0].reference == "language_variety=formal"
    assert contract.limits.max_tpr_gap == Fraction(1, 10)
    strict = {
        "SLICEWATCH__USE_CASE__0__K": "11",
        "SLICEWATCH__USE_CASE__0__CONTRACT__MIN_POSITIVES": "50",
        "SLICEWATCH__USE_CASE__0__CONTRACT__MIN_NEGATIVES": "30",
    }
    assert api.load(path, strict).contracts[0].k == 11
