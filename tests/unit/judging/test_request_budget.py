"""A day's budget is kept whatever happens."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from monitor.errors import SlicewatchError
from monitor.judging.request_budget import RequestBudget


def test_it_survives_restarts_and_ends_with_the_day(tmp_path: Path) -> None:
    days, path = ["2026-11-20"], tmp_path / "spent.json"
    first = RequestBudget(path, 5, lambda: days[-1])
    assert [first.take() for _ in range(3)] == [True] * 3
    second = RequestBudget(path, 5, lambda: days[-1])  # the first was killed
    assert [second.take() for _ in range(3)] == [True, True, False]
    assert second.exhausted
    days.append("2026-11-21")
    assert not second.exhausted
    assert second.take()
    assert second.spent == 1


def test_many_threads_spend_no_more(tmp_path: Path) -> None:
    found = RequestBudget(tmp_path / "s.json", 50)
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: found.take(), range(80)))
    assert taken.count(True) == 50


@pytest.mark.parametrize("text", ["{", "[]", '{"day": "2026-11-20"}'])
def test_a_record_that_cannot_be_read_spends_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "spent.json"
    path.write_text(text)
    with pytest.raises(SlicewatchError, match="remove the file"):
        RequestBudget(path, 5).take()


def test_a_record_that_cannot_be_written_spends_nothing(tmp_path: Path) -> None:
    with pytest.raises(SlicewatchError, match="nothing is asked"):
        RequestBudget(tmp_path / "gone" / "spent.json", 5).take()
