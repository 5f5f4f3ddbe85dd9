"""The architecture page: every room and every file that it names exists, and no room is missing."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "deploy" / "docs" / "architecture.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
SECURITY = (ROOT / "SECURITY.md").read_text()
TOPS = ("monitor", "consumers", "alerts", "deploy", "tests")


def named_paths(text: str) -> set[str]:
    """Whatever in backticks begins with a folder of the top level."""
    return {
        one for one in re.findall(r"`([\w./-]+)`", text) if one.split("/")[0] in TOPS and "/" in one
    }


def rooms() -> set[str]:
    """Packages inside the packages, as paths."""
    inner = {
        str(init.parent.relative_to(ROOT))
        for top in ("monitor/core", "monitor/detection", "monitor/evaluate", "monitor/store")
        for init in (ROOT / top).rglob("*/__init__.py")
    }
    return {f"{room}/" for room in inner if "migrations" not in room}


def test_every_path_exists() -> None:
    paths = named_paths(PAGE) | named_paths(CONTRIBUTING)
    assert len(paths) > 40
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


def test_every_room_is_in_the_table() -> None:
    table = {
        room
        for row in re.findall(r"^\| (`[^|]+) \|", PAGE, re.M)
        for room in re.findall(r"`([^`]+)`", row)
    }
    assert sorted(rooms() - table) == []


def test_every_package_is_named() -> None:
    inits = [init for top in TOPS[:3] for init in (ROOT / top).rglob("__init__.py")]
    packages = {str(one.parent.relative_to(ROOT)) for one in inits}
    assert sorted(one for one in packages if f"{one}/" not in PAGE) == []


def test_the_floors_are_those_that_are_enforced() -> None:
    """In the drawing, what import-linter has above comes first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = contracts["contracts"][0]["layers"]
    drawn = PAGE[: PAGE.index("### Packages")]
    places = []
    for layer in layers:
        for name in re.findall(r"[\w.]+", layer):
            path = name.replace(".", "/").removeprefix("monitor/")
            found = re.search(rf"\b(?:monitor/)?{path}\b(?:/|\.py)", drawn)
            if found and layer.strip() != "":
                places.append((found.start(), layer))
                break
    assert len(places) >= 8
    assert [layer for _, layer in sorted(places)] == [layer for _, layer in places]


def test_the_files_in_a_step_are_in_its_folder() -> None:
    """Short names, such as `dedupe.py`, are those of files beside the last full one."""
    for step in re.findall(r"^\d\. \*\*.*?(?=^\d\. \*\*|^## )", PAGE, re.M | re.S):
        folder = None
        for name in re.findall(r"`([\w./]+\.py)`", step):
            folder = (ROOT / name).parent if "/" in name else folder
            assert folder is not None
            assert (folder / Path(name).name).exists(), name


def test_every_target_of_make_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):.*##", makefile, re.M))
    assert set(re.findall(r"`?make ([a-z-]+)", CONTRIBUTING)) <= targets
    assert targets >= {"help", "demo", "test", "lint"}
