"""Mutants are real edits of what runs; the list survives edits elsewhere, and the draw its seed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from mutants import Mutant, drawn, mutants_of, read_list, renewed, write_list
from nearest import Nearest

SOURCE = '''
"""A docstring with 1 > 0."""
LIMIT: Final[Literal[3]] = 4

if TYPE_CHECKING:
    DEPTH = 9


class Shard:
    @cached(5)
    def __repr__(self) -> str:
        return f"{self.number + 1}"

    def admit(self, number: int) -> bool:
        log.warning("%d", number + 1)
        if not (number < 6 and self.open):
            raise ValueError(7 + 1)
        self.seen += min(number, self.most)
        return number in self.shards
'''


def texts(source: str) -> set[tuple[str, str, str]]:
    mutants = mutants_of(source.encode(), "shard.py")
    for edit in mutants.values():
        ast.parse(edit.apply(source.encode()))
    return {(mutant.function, mutant.kind, mutant.after) for mutant in mutants}


def test_what_runs_is_mutated_and_nothing_else() -> None:
    condition = "if not (number < 6 and self.open):"
    assert texts(SOURCE) == {
        ("<module>", "constant", "LIMIT: Final[Literal[3]] = 5"),
        ("Shard.admit", "branch", "if not (not (number < 6 and self.open)):"),
        ("Shard.admit", "not removed", condition.replace("not ", "")),
        ("Shard.admit", "and/or", condition.replace("and", "or")),
        ("Shard.admit", "comparison", condition.replace("<", "<=")),
        ("Shard.admit", "constant", condition.replace("6", "7")),
        ("Shard.admit", "statement", "pass"),
        ("Shard.admit", "+/-", "self.seen -= min(number, self.most)"),
        ("Shard.admit", "min/max", "self.seen += max(number, self.most)"),
        ("Shard.admit", "return value", "return None"),
        ("Shard.admit", "comparison", "return number not in self.shards"),
    }


@pytest.mark.parametrize("word", ["ReleaseBlock", "merge_map", "exchange"])
def test_code_that_is_about_to_go_is_left_out(word: str) -> None:
    assert not texts(f"def held(rows):\n    return {word}(rows) > 1\n")


def test_texts_are_not_subtracted() -> None:
    assert texts('def name():\n    return "a" + f"{b}"\n') == {
        ("name", "return value", "return None")
    }


def draw(source: str, seed: int) -> list[Mutant]:
    return drawn(mutants_of(source.encode(), "shard.py"), seed)


def test_a_seed_gives_one_order_in_which_the_kinds_take_turns() -> None:
    order = draw(SOURCE, 1)
    assert order == draw(SOURCE, 1) != draw(SOURCE, 2)
    kinds = [mutant.kind for mutant in order]
    assert len(set(kinds[:8])) == 8


def test_a_list_survives_edits_elsewhere_and_replaces_what_is_gone() -> None:
    listed = draw(SOURCE, 1)[:10]
    moved = draw("import os\n\n\ndef added():\n    return os.name\n" + SOURCE, 1)
    assert renewed(listed, moved, 10) == listed
    changed = draw(SOURCE.replace("self.shards", "self.all_shards"), 1)
    fresh = renewed(listed, changed, 10)
    gone = {mutant for mutant in listed if "self.shards" in mutant.before}
    assert gone
    assert set(listed) - set(fresh) == gone
    assert len(fresh) == 10


def test_a_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    mutants = draw(SOURCE, 1)
    write_list(7, mutants, tmp_path / "list.json")
    assert read_list(tmp_path / "list.json") == (7, mutants)


def test_tests_that_import_a_module_come_first_and_those_that_do_not_never(tmp_path: Path) -> None:
    files = {
        "monitor/core/time.py": "DAY = 1",
        "monitor/core/weeks.py": "from monitor.core import time",
        "tests/support/worlds/years.py": "import monitor.core.weeks",
        "tests/unit/core/test_time.py": "from monitor.core.time import DAY",
        "tests/unit/web/test_years.py": "from years import leap",
        "tests/integration/test_days.py": "from monitor.core.time import DAY",
        "tests/unit/core/test_alone.py": "import json",
        "tests/durations.json": "{}",
    }
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    tests = Nearest(tmp_path).order("monitor/core/time.py", "<module>")
    assert [Path(test).stem for test in tests] == ["test_time", "test_days", "test_years"]
