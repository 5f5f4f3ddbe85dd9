"""The resolved text loads again; a contract's numbers change exactly when a number changes."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from id_keys import KEY_FILE, WITH_KEY

from monitor import settings as api
from monitor.errors import SettingsError
from monitor.settings.sections import UseCase

DEPLOY = Path(__file__).parents[3] / "deploy"
QUICKSTART = DEPLOY / "examples" / "quickstart.toml"
FILES = [DEPLOY / "slicewatch.reference.toml", QUICKSTART, DEPLOY / "examples" / "ten_pairs.toml"]
CONTRACT = "SLICEWATCH__USE_CASE__0__CONTRACT__"


def load(path: Path, **env: str) -> api.Settings:
    return api.load(path, WITH_KEY | env)


def use_case(**env: str) -> UseCase:
    return load(QUICKSTART, **env).use_case[0]


def resolved(settings: api.Settings) -> str:
    """The resolved text without the key, which is masked there, but with its file; and with the
    key of the probes, which may stand in the settings themselves."""
    text = api.resolved(settings)
    assert f'id_key_file = "{KEY_FILE}"\n' in text
    if settings.probes.key is None:
        return text
    return text.replace(
        '\nkey = "********"\n', f"\nkey = {json.dumps(settings.probes.key.reveal())}\n"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_resolved_text_loads_to_equal_settings(path: Path, tmp_path: Path) -> None:
    first = load(path)
    again = tmp_path / "again.toml"
    again.write_text(resolved(first))
    second = api.load(again, {})
    assert second == first
    assert api.resolved(second) == api.resolved(first)


@settings(max_examples=examples(60), deadline=None)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"])),
    gap=st.decimals(0, 1, places=6),
    micros=st.integers(0, 10**6).map(lambda n: f"{n}ms"),
)
def test_any_text_number_and_duration_survives(
    tmp_path_factory: pytest.TempPathFactory, text: str, gap: object, micros: str
) -> None:
    quoted = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    env = {"SLICEWATCH__USE_CASE__0__CONTEXT": quoted, f"{CONTRACT}MAX_FPR_GAP": f"{gap:f}"}
    first = load(QUICKSTART, SLICEWATCH__STREAM__LATENESS=micros, **env)
    assert first.use_case[0].context == text
    path = tmp_path_factory.mktemp("resolved") / "x.toml"
    path.write_bytes(resolved(first).encode())
    assert api.load(path, {}) == first


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("MAX_TPR_GAP", "0.11"),
        ("MAX_FPR_GAP", "0"),
        ("MAX_BLOCKED_GAP", "0.06"),
        ("MIN_TPR", "0.7"),
        ("MAX_FPR", "0.2"),
        ("MIN_POSITIVES", "51"),
        ("MIN_NEGATIVES", "31"),
        ("WINDOW", "28d"),
        ("PAGE_ON", '["max_fpr_gap"]'),
    ],
)
def test_a_changed_number_changes_the_numbers(key: str, value: str) -> None:
    before, after = use_case(), use_case(**{CONTRACT + key: value})
    assert api.contract_numbers(before) != api.contract_numbers(after)
    assert api.contract_record(before) != api.contract_record(after)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("K", "12"),
        ("SYNTHETIC", "true"),
        ("WHERE__CHANNEL", "chat"),
        ("GROUP_BYS__0__REFERENCE", "channel=chat"),
    ],
)
def test_a_changed_comparison_changes_the_numbers(key: str, value: str) -> None:
    env = {f"SLICEWATCH__USE_CASE__0__{key}": value}
    if key.startswith("WHERE"):
        env["SLICEWATCH__USE_CASE__0__GROUP_BYS"] = '[{ attributes = ["language"] }]'
    assert api.contract_numbers(use_case()) != api.contract_numbers(use_case(**env))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("CONTRACT__REASON", "other words"),
        ("CONTRACT__VERSION", "2"),
        ("CONTRACT__EFFECTIVE", "2026-03-01"),
        ("OWNER", "someone else"),
        ("REVIEW_CADENCE", "30d"),
    ],
)
def test_changed_texts_change_the_record_only(key: str, value: str) -> None:
    before, after = use_case(), use_case(**{f"SLICEWATCH__USE_CASE__0__{key}": value})
    assert api.contract_numbers(before) == api.contract_numbers(after)
    assert api.contract_record(before) != api.contract_record(after)


def test_a_later_limit_is_in_the_numbers_only_where_it_is_set() -> None:
    limited = api.contract_numbers(use_case(**{f"{CONTRACT}MIN_SELECTION_RATIO": "0.80"}))
    assert "min_selection_ratio" not in api.contract_numbers(use_case())
    assert "min_selection_ratio" in limited


@pytest.mark.parametrize("ratio", ["0", "1", "1.25", "-0.8"])
def test_a_ratio_is_above_0_and_below_1(ratio: str) -> None:
    with pytest.raises(SettingsError, match=r"min_selection_ratio.* above 0 and below 1"):
        use_case(**{f"{CONTRACT}MIN_SELECTION_RATIO": ratio})


OWN = (
    '[{ group_by = ["channel"], max_tpr_gap = 0.05 },'
    ' { group_by = ["channel"], slice = "channel=chat", min_tpr = 0.20 }]'
)


def test_limits_of_slices_are_numbers_of_the_contract() -> None:
    name = "SLICEWATCH__USE_CASE__0__LIMIT"
    one = use_case(**{name: OWN})
    assert "own_limits" not in api.contract_numbers(use_case())
    assert "own_limits" in api.contract_numbers(one)
    other = use_case(**{name: OWN.replace("0.20", "0.15")})
    assert api.contract_numbers(one) != api.contract_numbers(other)
    assert one.to_core().limits_of("channel", "channel=chat").min_tpr == Fraction("0.20")


def test_limits_of_slices_are_printed_so_that_they_load_again(tmp_path: Path) -> None:
    one = load(QUICKSTART, SLICEWATCH__USE_CASE__0__LIMIT=OWN)
    text = resolved(one)
    assert "[[use_case.limit]]" in text
    (tmp_path / "again.toml").write_text(text)
    assert load(tmp_path / "again.toml").use_case == one.use_case


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ('{ group_by = ["tone"], max_tpr_gap = 0.05 }', r"limit\[0\]\.group_by: .*no group-by"),
        ('{ group_by = ["channel"] }', r"limit\[0\]: sets no limit; add one such as"),
        (
            '{ group_by = ["channel"], slice = "chat", max_tpr_gap = 0.1 }',
            r"limit\[0\]\.slice: .*is not a slice",
        ),
        (
            '{ group_by = ["channel"], slice = "channel=fax", max_tpr_gap = 0.1 }',
            r"limit\[0\]\.slice: .*not allow-listed",
        ),
        (
            '{ group_by = ["channel"], max_fpr = 0.1 }, { group_by = ["channel"], min_tpr = 0.5 }',
            r"limit\[1\].*channel",
        ),
        (
            '{ group_by = ["language"], slice = "language=en", max_tpr_gap = 0.1 }',
            r"limit\[0\]\.slice: .*is the reference of its group-by, which has no gap",
        ),
        (
            '{ group_by = ["channel"], slice = "channel=chat", min_tpr = 0.5, max_tpr_gap = 0.3 }',
            r"limit\[0\]\.slice: the two slices of channel .*one gap, one limit; leave slice out",
        ),
    ],
)
def test_a_limit_of_nothing_is_refused(own: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        use_case(**{"SLICEWATCH__USE_CASE__0__LIMIT": f"[{own}]"})


def test_ways_of_writing_do_not_matter() -> None:
    env = {
        f"{CONTRACT}MAX_TPR_GAP": "1e-1",
        "SLICEWATCH__USE_CASE__0__GROUP_BYS": (
            '[{ attributes = ["language"], reference = "language=en" },'
            ' { attributes = ["channel"] }]'
        ),
    }
    assert api.contract_numbers(use_case(**env)) == api.contract_numbers(use_case())


def test_records_are_canonical_json() -> None:
    for text in (api.contract_numbers(use_case()), api.contract_record(use_case())):
        canonical = json.dumps(
            json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        assert text == canonical
    record = json.loads(api.contract_record(use_case()))
    assert record["contract"]["max_tpr_gap"] == "0.1"
    assert record["group_bys"][0]["attributes"] == ["channel"]
