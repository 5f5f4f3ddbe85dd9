"""Contradictions in declared probe sets are errors that name the key and the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor import settings as api
from monitor.errors import SettingsError
from monitor.settings.check_probes import MAX_SETS, MAX_VARIANTS

KEY = "0123456789abcdef"
USE_CASE = """
[[attribute]]
name = "variety"
values = ["formal", "conversational"]
[[use_case]]
name = "replies"
owner = "team"
group_bys = [{ attributes = ["variety"] }]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "first"
"""


def declared(number: int = 1, **changed: object) -> str:
    fields: dict[str, object] = {
        "name": f"tone-{number}",
        "digest": f"{number:064x}",
        "pairs": 60,
        "variants": ["formal", "conversational"],
        "reference": "formal",
        **changed,
    }
    lines = (f"{name} = {value!r}" for name, value in fields.items())
    return "\n".join(["[[probes.sets]]", *lines])


def load(folder: Path, *sets: str, key: str | None = KEY) -> api.Settings:
    path = folder / "slicewatch.toml"
    head = ["[privacy]", f'id_key = "{KEY}"', "[probes]", *([f'key = "{key}"'] if key else [])]
    path.write_text("\n".join([*head, *sets, USE_CASE]))
    return api.load(path, {})


def test_a_set_is_declared(tmp_path: Path) -> None:
    (one, _) = load(tmp_path, declared(), declared(2)).probes.sets
    assert (one.name, one.pairs, one.reference) == ("tone-1", 60, "formal")


def test_without_sets_no_key_is_needed(tmp_path: Path) -> None:
    assert load(tmp_path, key=None).probes.sets == ()


@pytest.mark.parametrize(
    ("sets", "key", "said"),
    [
        ([declared()], None, r"probes\.key: is missing; .*new-key FILE"),
        ([], "short", r"probes\.key: must have at least \d+ bytes"),
        (
            [declared(i) for i in range(MAX_SETS + 1)],
            KEY,
            rf"probes\.sets: has {MAX_SETS + 1} sets; declare at most {MAX_SETS}",
        ),
        ([declared(), declared(2, name="tone-1")], KEY, r"probes\.sets\[1\]\.name: repeats"),
        ([declared(), declared(2, digest=f"{1:064x}")], KEY, r"probes\.sets\[1\]\.digest: repeats"),
        ([declared(variants=["formal"])], KEY, r"sets\[0\]\.variants: needs two variants"),
        (
            [declared(variants=["formal", "formal"])],
            KEY,
            r"sets\[0\]\.variants: repeats a variant",
        ),
        (
            [declared(variants=["formal", *(f"v{i}" for i in range(MAX_VARIANTS))])],
            KEY,
            rf"variants: has {MAX_VARIANTS + 1} variants; name at most {MAX_VARIANTS}",
        ),
        ([declared(reference="plain")], KEY, r"sets\[0\]\.reference: 'plain' is not one"),
    ],
)
def test_a_contradiction_names_its_key_and_the_fix(
    sets: list[str], key: str | None, said: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        load(tmp_path, *sets, key=key)
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_as_many_as_there_may_be(tmp_path: Path) -> None:
    variants = ["formal", *(f"v{i}" for i in range(MAX_VARIANTS - 1))]
    sets = [declared(i, variants=variants) for i in range(MAX_SETS)]
    assert len(load(tmp_path, *sets).probes.sets) == MAX_SETS
