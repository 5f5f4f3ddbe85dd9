"""What ``slicewatch check`` says about privacy before anything runs: which group-by would wait."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from monitor.commands.check import command
from monitor.commands.check_guard import guard_lines
from monitor.commands.check_labels import Assumed
from monitor.settings import Settings, load

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"
HEAD = "contract reply-routing: "


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two attributes, and both together, guarded by k = 11."""
    (tmp_path / "slicewatch.key").write_text("a key for tests that is long enough")
    return Path(shutil.copy(EXAMPLES / "quickstart.toml", tmp_path))


@pytest.fixture
def guarded(path: Path) -> Settings:
    return load(path, {})


def said(settings: Settings, daily: int, audit: float = 0.05) -> list[str]:
    return list(guard_lines(settings, Assumed(daily, audit, 0.5)))


def test_it_says_how_long_labels_take(guarded: Settings) -> None:
    every = f"ok: {HEAD}channel, language, channel+language: labelled rates are published once each"
    assert said(guarded, 500) == [
        f"{every} slice has 11 new labels of auto_serve, which takes a day at most"
    ]
    assert said(guarded, 50) == [
        f"{every} slice has 11 new labels of auto_serve, which takes 10 days"
    ]


def test_of_labels_that_nobody_waits_for_it_says_what_helps(guarded: Settings) -> None:
    one, both = said(guarded, 30)
    assert one == (
        f"warning: {HEAD}channel, language: 11 labels of auto_serve of a slice take about 2.3"
        " weeks, and 10 days are waited for, so such values have no labelled rates: audit 9% or"
        " more, or pool 2 values into one"
    )
    assert both.startswith(f"warning: {HEAD}channel+language: 11 labels of auto_serve of a slice")
    assert "14 days are waited for" in both
    assert all(line.startswith("ok") for line in said(guarded, 30, audit=0.09))


def test_values_that_are_pooled_are_named_first(guarded: Settings) -> None:
    one, both = said(guarded, 5)
    assert one == (
        f"warning: {HEAD}channel, language: fewer than 11 decisions of a slice come in a day, so"
        " such values are pooled: list fewer values, or compare by fewer attributes"
    )
    assert "channel+language: fewer than 11 decisions of a slice come in 2 days" in both


def test_where_nothing_is_hidden_nothing_is_said() -> None:
    assert said(load(EXAMPLES / "ten_pairs.toml", {}), 1) == []


def test_check_prints_it_before_anything_runs(path: Path) -> None:
    result = CliRunner().invoke(command, ["--settings", str(path), "--daily", "50000"])
    assert result.exit_code == 0
    assert "channel+language: labelled rates are published once each slice has 11" in result.output
